// SPDX-License-Identifier: Apache-2.0
// This file declares what the benchmark needs of a device: memory, a stream, a graph, marks in time, a second stream,
// and a relay among processes. The command implements this interface (src/cli/perf/cuda*.cpp), so the benchmark
// includes only Rondo's public header.
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

/// The two streams of a rank that computes beside its calls.
enum class Lane { calls, side };
/// Marks in time. Every run sets them again, on either lane.
enum class Mark { origin, calls_begin, calls_end, work_begin, work_end };
inline constexpr size_t mark_count = 5;

/// A second stream of a device, for work beside the calls on Device::stream(), with marks that order both streams.
class SideStream {
 public:
  virtual ~SideStream() = default;

  [[nodiscard]] virtual rondo_stream_t stream() const = 0;
  [[nodiscard]] virtual Outcome mark(Lane lane, Mark mark) = 0;
  /// Makes all later work on `lane` wait until the mark is reached. The other lane must have set the mark already.
  [[nodiscard]] virtual Outcome follow(Lane lane, Mark mark) = 0;
  /// Returns the time between two marks after both were reached.
  [[nodiscard]] virtual Outcome between_ns(Mark from, Mark to, double &time_ns) = 0;
  /// Waits until all work on this stream has ended.
  [[nodiscard]] virtual Outcome wait() = 0;
};

/// A ring of processes that share a device and take turns. A process's stream waits for its word in memory that all
/// processes map, makes the device do something small, and sets the word of the next process.
class Relay {
 public:
  virtual ~Relay() = default;

  /// Returns the descriptor of the memory in the first process. Other processes of this user open it as
  /// /proc/PROCESS/fd/DESCRIPTOR.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// Runs the relay; all processes call it.
  /// @param hand_over_ns  receives the mean time from one process's turn to the turn of the next
  [[nodiscard]] virtual Outcome run(uint32_t round_count, uint64_t timeout_ns, double &hand_over_ns) = 0;
};

/// The position of a process in a relay.
struct RelayPlace {
  size_t place = 0, count = 2;
  std::string path = {};  ///< path of the first process's memory; empty on the first process
};

/// Writes or checks `bytes` of a chunk, beginning at `offset` of the whole memory. A chunk has whole elements of any
/// type.
using MakeChunk = std::function<void(std::byte *chunk, size_t offset, size_t bytes)>;
using SeeChunk = std::function<void(const std::byte *chunk, size_t offset, size_t bytes)>;

/// One rank's device. Only that rank's thread uses it, but other ranks may pass it to follow() and lead_back().
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceName describe() const = 0;
  /// Allocates memory, which stays until the Device ends. It may wait for the device, so no collective may be in
  /// flight.
  [[nodiscard]] virtual Outcome allocate(size_t bytes, std::byte *&pointer) = 0;
  /// These copies are complete on return.
  [[nodiscard]] virtual Outcome copy_in(std::byte *to, const std::byte *from, size_t bytes) = 0;
  [[nodiscard]] virtual Outcome copy_out(std::byte *to, const std::byte *from, size_t bytes) = 0;
  /// Copies like copy_in() and copy_out(). One chunk is made or checked while another is copied.
  [[nodiscard]] virtual Outcome fill(std::byte *to, size_t bytes, const MakeChunk &make) = 0;
  [[nodiscard]] virtual Outcome look(const std::byte *from, size_t bytes, const SeeChunk &see) = 0;

  [[nodiscard]] virtual rondo_stream_t stream() const = 0;
  /// Sets the begin mark on the stream. After wait(), elapsed_ns() returns the time from it to the end mark.
  [[nodiscard]] virtual Outcome mark_begin() = 0;
  [[nodiscard]] virtual Outcome mark_end() = 0;
  [[nodiscard]] virtual Outcome elapsed_ns(double &time_ns) = 0;
  [[nodiscard]] virtual Outcome wait() = 0;
  /// Says whether all work on the stream has ended.
  [[nodiscard]] virtual Outcome ended(bool &yes) = 0;
  /// Makes this the current device of the thread, for libraries that take no ordinal.
  [[nodiscard]] virtual Outcome make_current() = 0;

  /// Captures what is enqueued between the two calls, as the graph that replay() enqueues. The new graph replaces the
  /// earlier one.
  [[nodiscard]] virtual Outcome begin_capture() = 0;
  [[nodiscard]] virtual Outcome end_capture() = 0;
  [[nodiscard]] virtual Outcome replay() = 0;
  virtual void forget_graph() = 0;  ///< call it after its replays have ended
  /// Fails if branches of one graph could wait for each other. One kernel for all ranks on a device avoids that.
  [[nodiscard]] virtual Outcome check_one_graph(int ranks) = 0;
  /// Makes later work of this stream run after the work of `first`. If `first` is capturing, the later work is
  /// captured, too, after what `first` has captured. Otherwise the later work runs after the replay of `first`. `first`
  /// is a device of this process, and the two ranks have met at a barrier before.
  [[nodiscard]] virtual Outcome follow(Device &first) = 0;
  /// Makes what `first` captures from now on run after what this stream has captured.
  [[nodiscard]] virtual Outcome lead_back(Device &first) = 0;

  /// Makes a word with value 0, for which streams of all devices of this process can wait. It stays until the Device
  /// ends.
  [[nodiscard]] virtual Outcome make_start(uint64_t *&word) = 0;
  /// Makes all later work on the stream wait until the word is at least `number`.
  [[nodiscard]] virtual Outcome await_start(const uint64_t *word, uint64_t number) = 0;

  /// Measures the bandwidth of large copies inside the device, as bytes read and written in 10^9 bytes a second.
  [[nodiscard]] virtual Outcome measure_copy(double &GBps) = 0;

  /// Makes a second stream, which ends before the Device. It may wait for the device, as allocate() may.
  [[nodiscard]] virtual Outcome open_side(std::unique_ptr<SideStream> &side) = 0;
  /// Says whether streams of the device can wait for words of memory.
  [[nodiscard]] virtual bool can_relay() const = 0;
  /// Opens a relay. It may wait for the device, as open_side() may.
  [[nodiscard]] virtual Outcome open_relay(const RelayPlace &place, std::unique_ptr<Relay> &relay) = 0;
};

/// The devices that this process can see.
class Devices {
 public:
  virtual ~Devices() = default;

  /// Counts the devices. Fails if there is no driver or no device. Call it first, before the process has other threads.
  [[nodiscard]] virtual Outcome count(int &device_count) = 0;
  [[nodiscard]] virtual Outcome open(int ordinal, std::unique_ptr<Device> &device) = 0;
};

}  // namespace rondo::perf
