// SPDX-License-Identifier: Apache-2.0
// A device as the benchmark needs it: memory, a stream, a graph, marks in time, a second stream beside it, and a relay
// among processes. The command line implements it (src/cli/perf/cuda*.cpp). The benchmark itself knows the public
// header only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/failure.h"
#include "rondo/rondo.h"

namespace rondo::perf {

/// Plain data that ranks exchange as bytes.
struct DeviceName {
  int32_t ordinal = RONDO_DEVICE_HOST;
  char name[60] = {};
  unsigned char uuid[16] = {};
};

/// The memory accesses of one rank's kernels until they had their result (src/proto/access_counts.h). Arrays are by
/// memory: of the rank's device, of other devices, of the host.
struct Accesses {
  uint64_t blocks = 0;
  uint64_t read_bytes[3] = {}, written_bytes[3] = {};
  uint64_t host_loads = 0, host_stores = 0;
  uint64_t releases = 0, acquires = 0, read_modify_writes = 0, barriers = 0;
  uint64_t chain_to_result = 0, chain = 0;  ///< accesses each of which needs the one before it
};

/// The two streams of a rank that computes beside its calls.
enum class Lane { calls, side };
/// Marks in time. Each is set anew in every run, on either lane.
enum class Mark { origin, calls_begin, calls_end, work_begin, work_end };
inline constexpr size_t mark_count = 5;

/// A second stream of a device, for work beside the calls on Device::stream(), and marks that order the two.
class SideStream {
 public:
  virtual ~SideStream() = default;

  [[nodiscard]] virtual rondo_stream_t stream() const = 0;
  [[nodiscard]] virtual Outcome mark(Lane lane, Mark mark) = 0;
  /// Makes all later work on `lane` wait until the mark, which the other lane has got already, is reached.
  [[nodiscard]] virtual Outcome follow(Lane lane, Mark mark) = 0;
  /// Returns the time between two marks once both have been reached.
  [[nodiscard]] virtual Outcome between_ns(Mark from, Mark to, double &time_ns) = 0;
  /// Waits until all that is on this stream has ended.
  [[nodiscard]] virtual Outcome wait() = 0;
};

/// Processes that share a device and hand it over, each to the next, in a ring. A process's stream waits for a word of
/// memory that all map, lets the device do something small, and sets the word of the next one.
class Relay {
 public:
  virtual ~Relay() = default;

  /// Returns the descriptor of the memory in the first one's process. Others of this user open it as
  /// /proc/PROCESS/fd/DESCRIPTOR.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Runs the relay; all take part. @param hand_over_ns  receives the mean time from one process's turn to the next
  /// one's.
  [[nodiscard]] virtual Outcome run(uint32_t round_count, uint64_t timeout_ns, double &hand_over_ns) = 0;
};

/// The position of a process in a relay.
struct RelayPlace {
  size_t place = 0, count = 2;
  std::string path = {};  ///< of the first one's memory; empty if this is the first one
};

/// Writes or checks `bytes` of a chunk, which begin at `offset` of the whole; whole elements of any type.
using MakeChunk = std::function<void(std::byte *chunk, size_t offset, size_t bytes)>;
using SeeChunk = std::function<void(const std::byte *chunk, size_t offset, size_t bytes)>;

/// One rank's device. Only that rank's thread uses it, except that other ranks use `first`.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceName describe() const = 0;
  /// Allocates memory, which stays until the Device ends. It may wait for the device, so not while a collective is in
  /// flight.
  [[nodiscard]] virtual Outcome allocate(size_t bytes, std::byte *&pointer) = 0;
  /// These copies are complete on return.
  [[nodiscard]] virtual Outcome copy_in(std::byte *to, const std::byte *from, size_t bytes) = 0;
  [[nodiscard]] virtual Outcome copy_out(std::byte *to, const std::byte *from, size_t bytes) = 0;
  /// Copies as copy_in() and copy_out() do. One chunk is made or checked while others are copied.
  [[nodiscard]] virtual Outcome fill(std::byte *to, size_t bytes, const MakeChunk &make) = 0;
  [[nodiscard]] virtual Outcome look(const std::byte *from, size_t bytes, const SeeChunk &see) = 0;

  [[nodiscard]] virtual rondo_stream_t stream() const = 0;
  /// Marks on the stream, and the time between them once wait() has returned.
  [[nodiscard]] virtual Outcome mark_begin() = 0;
  [[nodiscard]] virtual Outcome mark_end() = 0;
  [[nodiscard]] virtual Outcome elapsed_ns(double &time_ns) = 0;
  [[nodiscard]] virtual Outcome wait() = 0;
  /// Returns whether all that is on the stream has ended.
  [[nodiscard]] virtual Outcome ended(bool &yes) = 0;
  /// Makes the device this thread's from now on, as libraries find it that know no ordinals.
  [[nodiscard]] virtual Outcome make_current() = 0;

  /// Captures what is enqueued between the two. It becomes the graph that replay() enqueues, in place of the one
  /// before.
  [[nodiscard]] virtual Outcome begin_capture() = 0;
  [[nodiscard]] virtual Outcome end_capture() = 0;
  [[nodiscard]] virtual Outcome replay() = 0;
  virtual void forget_graph() = 0;  ///< after its replays have ended
  /// Fails where branches of one graph would wait for each other: unless one kernel runs all ranks, on one device.
  [[nodiscard]] virtual Outcome check_one_graph(int ranks) = 0;
  /// Orders later work on this stream after what `first` has begun to capture, and captures it as well. Otherwise
  /// orders it after the replay of `first`, a device of this process. The two ranks have met at a barrier before.
  [[nodiscard]] virtual Outcome follow(Device &first) = 0;
  /// Orders what this stream has captured before what `first` captures from now on.
  [[nodiscard]] virtual Outcome lead_back(Device &first) = 0;

  /// Makes a word, 0, for which the streams of all devices of this process can wait. It stays until the Device ends.
  [[nodiscard]] virtual Outcome make_start(uint64_t *&word) = 0;
  /// Makes all later work on the stream wait until the word is `number` or more.
  [[nodiscard]] virtual Outcome await_start(const uint64_t *word, uint64_t number) = 0;

  /// Measures the bandwidth of large copies inside the device, bytes read and bytes written, in 10^9 bytes a second.
  [[nodiscard]] virtual Outcome measure_copy(double &GBps) = 0;

  /// Counts what the kernels of all ranks of this process do from now on; fails where they cannot be counted.
  [[nodiscard]] virtual Outcome begin_count() = 0;
  /// Ends the counting. @param counts  receives an entry for each rank that ran, in no order.
  [[nodiscard]] virtual Outcome end_count(std::vector<Accesses> &counts) = 0;

  /// Makes a second stream, which ends before the Device. It may wait for the device, as allocate() may.
  [[nodiscard]] virtual Outcome open_side(std::unique_ptr<SideStream> &side) = 0;
  /// Returns false if its streams cannot wait for words of memory.
  [[nodiscard]] virtual bool can_relay() const = 0;
  /// Opens a relay, as open_side() opens a second stream.
  [[nodiscard]] virtual Outcome open_relay(const RelayPlace &place, std::unique_ptr<Relay> &relay) = 0;
};

/// The devices that this process sees.
class Devices {
 public:
  virtual ~Devices() = default;

  /// Fails where there is no driver or no device. Called first, before the process has other threads.
  [[nodiscard]] virtual Outcome count(int &device_count) = 0;
  [[nodiscard]] virtual Outcome open(int ordinal, std::unique_ptr<Device> &device) = 0;
};

}  // namespace rondo::perf
