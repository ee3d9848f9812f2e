// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/plan_uploads.h"

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t patience_ns = 200'000'000;  // even a busy machine is rarely later
constexpr uint64_t look_ns = 5'000;

}  // namespace

Result<bool> PlanUploads::begin(DevicePointer to, const void *from, uint64_t bytes) {
  const CudaDriver &driver = *context_.get().driver;
  const ContextGuard guard(driver, context_.get().context);
  RONDO_TRY(guard.status());
  const CaptureModeGuard capture_goes_on(driver);
  RONDO_TRY(cuda_check(driver, driver.memcpy_htod_async(to, from, bytes, stream_.get().object),
                       "copying a plan to the device"));
  RONDO_TRY_ASSIGN(const bool ended, wait(patience_ns));
  if (!ended) was_late_.store(true, std::memory_order_relaxed);  // destroy reads it later
  return ended;
}

Result<bool> PlanUploads::wait(uint64_t within_ns) const {
  const uint64_t deadline_ns = now_ns() + within_ns;
  for (;;) {
    RONDO_TRY_ASSIGN(const bool ended, have_ended());
    if (ended) return true;
    if (now_ns() >= deadline_ns || memory::load_acquire(abort_) != 0) return false;
    sleep_for_ns(look_ns);
  }
}

bool PlanUploads::late_ones_have_ended() const {
  if (!was_late_.load(std::memory_order_relaxed)) return true;
  const auto ended = have_ended();
  return !ended.ok() || ended.value();
}

Result<bool> PlanUploads::have_ended() const {
  const CudaDriver &driver = *context_.get().driver;
  const ContextGuard guard(driver, context_.get().context);
  RONDO_TRY(guard.status());
  const CaptureModeGuard capture_goes_on(driver);
  const CuStatus status = driver.stream_query(stream_.get().object);
  if (status == CuStatus::success) return true;
  if (status == CuStatus::not_ready) return false;
  return cuda_error(driver, status, "copying a plan to the device");
}

}  // namespace rondo::cuda
