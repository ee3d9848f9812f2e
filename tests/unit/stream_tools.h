// SPDX-License-Identifier: Apache-2.0
// The tests of streams and of events share these helpers.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "src/engine/host_stream.h"
#include "src/core/process.h"
#include "tests/catch.h"

namespace rondo {

/// Holds the threads that wait at it until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

inline std::shared_ptr<HostStream> make_stream(uint64_t spin_ns = 0) { return HostStream::create(spin_ns).value(); }

/// Returns a task that waits for `gate`, and so keeps a stream busy until the gate opens.
inline Task hold_by(Gate &gate) {
  return Task([&gate]() -> Result<void> {
    gate.pass();
    return {};
  });
}

/// A stream of the C functions, and its object.
struct ApiStream {
  ApiStream() {
    REQUIRE(rondo_stream_create(&handle) == RONDO_OK);
    object = process().streams.find(handle);
  }
  rondo_stream_t handle = nullptr;
  std::shared_ptr<HostStream> object;
};

inline rondo_event_t make_event() {
  rondo_event_t event = nullptr;
  REQUIRE(rondo_event_create(&event) == RONDO_OK);
  return event;
}

}  // namespace rondo
