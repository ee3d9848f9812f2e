// SPDX-License-Identifier: Apache-2.0
// Tests that include this file run on the driver that RONDO_CUDA_LIBRARY names, in software or real. They rely only on
// what the driver's documentation promises.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/driver/handles.h"
#include "src/base/config.h"
#include "tests/catch.h"
#include "tests/soft_cuda/soft_cuda.h"
#include "tests/soft_cuda/test_kernels.h"

#define CU_OK(call) REQUIRE(static_cast<int>(call) == 0)
#define CU_FAILS(call, expected) CHECK(static_cast<int>(call) == static_cast<int>(expected))

namespace rondo::cuda::conformance {

inline const CudaDriver &loaded_driver() {
  const auto config = read_config();
  REQUIRE(config.ok());
  const auto driver = cuda_driver(config.value().cuda_library);
  if (!driver.ok()) FAIL(driver.error().message);
  return *driver.value();
}

/// The limit of a wait, which only detects hangs. All waits normally take far less.
inline constexpr std::chrono::seconds patience{60};

/// Waits for the condition. Returns false if it did not become true within `patience`.
template <class Condition>
bool becomes_true(const Condition &condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Returns the live objects of the driver in software, or nothing with a real driver.
inline std::optional<SoftCudaLive> live_counts() {
  auto *const ask = soft_cuda_function<void(SoftCudaLive *)>(loaded_driver().library, "soft_cuda_live");
  if (ask == nullptr) return std::nullopt;
  SoftCudaLive live;
  ask(&live);
  return live;
}

/// On a real driver, keeps the context of the first case for all later cases, because making a context takes up to a
/// second. The driver in software counts live objects, so there each case makes its own context.
inline void keep_primary_context(const CudaDriver &driver, CuDevice device) {
  static std::map<CuDevice, PrimaryContext> kept;
  if (!kept.contains(device)) kept.emplace(device, retain_primary_context(driver, device).value());
}

/// The primary context of a device, current on this thread, with a stream. When a World is destroyed, the driver in
/// software must have as many live objects as before.
class World {
 public:
  explicit World(CuDevice device = 0) : before_(live_counts()), context_(retain_primary_context(cu, device).value()) {
    if (!before_.has_value()) keep_primary_context(cu, device);
    guard_.emplace(cu, context_.get().context);
    REQUIRE(guard_->ok());
    stream_ = make_stream(context_).value();
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;
  ~World() {
    stream_.reset();
    guard_.reset();
    context_.reset();
    // This waits, because a thread that releases the remains of an aborted call may hold the context a moment longer.
    if (before_.has_value()) CHECK(becomes_true([&] { return live_counts() == before_; }));
  }

  [[nodiscard]] const PrimaryContext &context() const { return context_; }
  [[nodiscard]] CuContext handle() const { return context_.get().context; }
  [[nodiscard]] CuStream stream() const { return stream_.get().object; }
  [[nodiscard]] Stream another_stream() const { return make_stream(context_).value(); }
  [[nodiscard]] DeviceMemory memory(size_t bytes) const { return allocate_device_memory(context_, bytes).value(); }
  [[nodiscard]] HostMemory pinned(size_t bytes) const { return allocate_host_memory(context_, bytes).value(); }
  [[nodiscard]] Event event(unsigned flags = event_disable_timing) const { return make_event(context_, flags).value(); }

  /// Ends the capture of `stream`, and returns an executable graph that is uploaded. Without the upload, the first
  /// launch might wait for the device, and so for a rank whose graph is launched later.
  [[nodiscard]] GraphExec end_capture(CuStream stream) const {
    CuGraph captured = nullptr;
    CU_OK(cu.stream_end_capture(stream, &captured));
    const Graph captured_once({&cu, handle(), captured});
    CuGraphExec made = nullptr;
    CU_OK(cu.graph_instantiate(&made, captured, 0));
    GraphExec exec({&cu, handle(), made});
    CU_OK(cu.graph_upload(made, stream));
    CU_OK(cu.stream_synchronize(stream));
    return exec;
  }

  const CudaDriver &cu = loaded_driver();

 private:
  std::optional<SoftCudaLive> before_;
  PrimaryContext context_;
  std::optional<ContextGuard> guard_;
  Stream stream_;
};

/// A word in pinned memory that makes a stream wait (cuStreamWaitValue64) until open(). After `patience`, the gate
/// opens for good, and the test has failed. Without this limit, the host might wait in the driver for ever, even while
/// an exception of the test releases the stream's resources.
class Gate {
 public:
  explicit Gate(const World &world) : cu_(world.cu), memory_(world.pinned(64)) {
    word() = 0;
    opener_ = std::thread([this] { open_when_late(); });
  }
  ~Gate() {
    ended_.store(true, std::memory_order_release);  // pairs with the load in open_when_late()
    opener_.join();
    open();
    CHECK_FALSE(late_);
  }
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;

  /// Makes later work on the stream wait for open().
  void close(CuStream stream) {
    late_at_ = (std::chrono::steady_clock::now() + patience).time_since_epoch().count();
    CU_OK(cu_.stream_wait_value64(stream, reinterpret_cast<DevicePointer>(memory_.get().object), 1, wait_value_geq));
  }
  void open() {
    late_at_ = never;
    // This release pairs with the acquire of the driver's wait.
    std::atomic_ref(word()).store(1, std::memory_order_release);
  }
  [[nodiscard]] uint64_t &word() const { return *static_cast<uint64_t *>(memory_.get().object); }

 private:
  void open_when_late() {
    for (; !ended_.load(std::memory_order_acquire); std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      late_ = late_ || std::chrono::steady_clock::now().time_since_epoch().count() > late_at_;
      if (late_) open();  // again and again, because each replay of a graph may close the gate
    }
  }

  const CudaDriver &cu_;
  HostMemory memory_;
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();
  std::atomic<bool> ended_{false};
  std::atomic<int64_t> late_at_{never};  ///< by the steady clock, `patience` after closing
  bool late_ = false;  ///< only the thread uses it, until the thread has ended
  std::thread opener_;
};

/// A time that is long enough to see that something waits.
inline constexpr std::chrono::milliseconds a_while{50};

/// Returns the test kernels of the driver in software, or of the image that RONDO_TEST_KERNELS names. Returns nothing
/// without either.
inline std::optional<Library> test_kernels(const World &world) {
  std::string image = "any image";
  if (!live_counts().has_value()) {
    const char *const path = std::getenv("RONDO_TEST_KERNELS");
    if (path == nullptr) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    image = bytes.str();
    REQUIRE_FALSE(image.empty());
  }
  auto library = load_library(world.context(), image.data());
  REQUIRE(library.ok());
  return std::move(library).value();
}

#define SKIP_WITHOUT_KERNELS(kernels)                                          \
  if (!(kernels).has_value()) {                                                \
    std::puts("skipped: kernels of this test: RONDO_TEST_KERNELS names none"); \
    return;                                                                    \
  }

template <class Parameters>
CuStatus launch(const World &world, const Library &library, const char *name, unsigned grid, CuStream stream,
                Parameters parameters) {
  const auto function = find_function(library, name);
  REQUIRE(function.ok());
  void *arguments[] = {&parameters};
  return world.cu.launch_kernel(function.value(), grid, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace rondo::cuda::conformance
