// SPDX-License-Identifier: Apache-2.0
// This file declares the objects of the driver in software. State::mutex protects all fields, unless a comment says
// otherwise.
//
// No number of a handle is used twice, so the driver recognises a destroyed handle. Only numbers of streams are reused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "cuda/driver/driver_api.h"
#include "tests/soft_cuda/blocks.h"
#include "tests/soft_cuda/settings.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

using namespace rondo::cuda;
using Lock = std::unique_lock<std::mutex>;

struct Context;
struct Stream;
struct Capture;

/// The end of one piece of work.
struct Completion {
  bool done = false;
  uint64_t done_ns = 0;
  std::condition_variable changed;
};
using CompletionRef = std::shared_ptr<Completion>;

void wait_for(Lock &lock, const CompletionRef &completion);

/// The action of a stream, or of a node of a graph. It runs without the mutex, and may run several times.
using Action = std::function<CuStatus()>;

struct Work {
  Action run;
  std::vector<CompletionRef> after;  ///< work that must end first, besides earlier work of the stream
  CompletionRef completion;
};

/// A hardware queue. Work of the streams that share it begins in the order of submission.
struct HardwareQueue {
  std::deque<std::pair<const Completion *, Stream *>> order;
};

struct Device {
  int ordinal = 0;
  int number = 0;  ///< number of the device in the machine
  DeviceUuid uuid{};
  std::atomic<uint64_t> used_bytes = 0;  ///< relaxed, as the count orders nothing
  std::shared_ptr<Context> primary;      ///< set while it is retained
  std::unique_ptr<Places> blocks;
  std::unique_ptr<Places> kernels;  ///< null if any number of kernels may run at once
};

struct Context {
  CuContext handle = nullptr;
  Device *device = nullptr;
  uint32_t references = 0;
  CuStatus error = CuStatus::success;  ///< the first error, which stays until the end
  std::vector<HardwareQueue> queues;
  uint32_t stream_count = 0;  ///< streams made so far, which determines the queue
  std::shared_ptr<Stream> legacy;  ///< null once the context is destroyed
  std::unordered_map<uint64_t, std::shared_ptr<Stream>> of_threads;  ///< default streams of threads, by their numbers
  std::set<std::shared_ptr<Stream>> streams;  ///< open streams, and destroyed ones that still have work
  std::set<int> peers;                        ///< ordinals of devices to which access was enabled
};

struct Stream {
  CuStream handle = nullptr;
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  int priority = 0;
  HardwareQueue *queue = nullptr;
  uint64_t upload_count = 0;  ///< copies from the host to a device, called or captured
  std::deque<Work> pending;  ///< the first one may already be running
  bool closing = false;
  std::condition_variable wake;   ///< wakes the stream's worker
  std::condition_variable space;  ///< wakes host threads that wait to submit
  CompletionRef last;             ///< completion of the newest work, or null
  std::shared_ptr<Capture> capture;
  uint32_t lane = 0;                 ///< its lane in the capture
  std::vector<size_t> capture_tips;  ///< nodes that precede the next one
};

/// Counters in memory that several processes share.
struct SharedEvent {
  uint64_t recorded = 0;   ///< atomic: its release in record pairs with the acquire in cuStreamWaitEvent
  uint64_t completed = 0;  ///< atomic: its release at the end of earlier work pairs with the acquire of a wait
};

struct SharedEventPage {
  int descriptor = -1;
  SharedEvent *counters = nullptr;

  SharedEventPage() = default;
  SharedEventPage(const SharedEventPage &) = delete;
  SharedEventPage &operator=(const SharedEventPage &) = delete;
  ~SharedEventPage();
};

struct Event {
  CuEvent handle = nullptr;
  std::shared_ptr<Context> context;
  unsigned flags = 0;
  CompletionRef recorded;                   ///< null if it was never recorded
  std::shared_ptr<SharedEventPage> shared;  ///< set for an event between processes
  std::shared_ptr<Capture> capture;         ///< set if it was last recorded in a captured stream
  std::vector<size_t> capture_tips;
};

struct Kernel {
  CuKernel handle = nullptr;
  KernelEntry entry{};
  std::vector<CuFunction> functions;  ///< one for each context that requested it
};

struct Library {
  CuLibrary handle = nullptr;
  std::vector<std::shared_ptr<Kernel>> kernels;
};

/// A kernel in a context.
struct Function {
  CuFunction handle = nullptr;
  std::shared_ptr<Context> context;
  KernelEntry entry{};
  bool loaded = false;
  int dynamic_shared_bytes_max = 48 << 10;
  int shared_carveout = -1;  ///< percent of a multiprocessor's largest shared memory
};

struct GraphNode {
  Action run;
  uint32_t lane = 0;  ///< nodes of a lane run in order, and lanes run side by side
  std::vector<size_t> after;
};

struct GraphBody {
  std::vector<GraphNode> nodes;  ///< in an order of their dependencies
  uint32_t lane_count = 1;
};

struct Graph {
  std::shared_ptr<const GraphBody> body;
};

struct GraphExec {
  std::shared_ptr<const GraphBody> body;
  CompletionRef last;  ///< launches of an executable graph run one after another
  bool uploaded = false;  ///< uploaded, or launched once: the device has everything
};

struct Capture {
  CaptureMode mode = CaptureMode::global;
  uint64_t number = 0;  ///< number of this capture among all captures
  uint64_t thread = 0;  ///< the thread that began it
  Stream *origin = nullptr;
  bool invalidated = false;
  GraphBody body;
  std::set<Stream *> streams;
};

/// A table from handles to objects of one kind.
template <class Handle, class Object>
class HandleTable {
 public:
  explicit HandleTable(uint64_t kind) : kind_(kind) {}

  /// Adds an object. For a stream this takes the number of the stream that was destroyed last, as a real driver may.
  Handle add(std::shared_ptr<Object> object) {
    uint64_t number = 0;
    if (std::is_same_v<Object, Stream> && !free_.empty()) {
      number = free_.back();
      free_.pop_back();
    } else {
      number = kind_ << 56 | ++serial_ << 4;
    }
    objects_[number] = std::move(object);
    return reinterpret_cast<Handle>(number);
  }
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<uint64_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> take(Handle handle) {
    auto node = objects_.extract(reinterpret_cast<uint64_t>(handle));
    if (std::is_same_v<Object, Stream> && !node.empty()) free_.push_back(node.key());
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  /// Says whether the handle existed once, and is gone.
  bool was_known(Handle handle) const {
    const auto number = reinterpret_cast<uint64_t>(handle);
    return number >> 56 == kind_ && (number << 8 >> 12) <= serial_ && (number & 15) == 0;
  }
  size_t size() const { return objects_.size(); }
  template <class Which>
  void erase_if(const Which &which) {
    std::erase_if(objects_, [&](const auto &entry) { return which(*entry.second); });
  }

 private:
  uint64_t kind_;
  uint64_t serial_ = 0;
  std::vector<uint64_t> free_;  ///< numbers that are used again
  std::unordered_map<uint64_t, std::shared_ptr<Object>> objects_;
};

}  // namespace soft_cuda
