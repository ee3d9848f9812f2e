// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/cuda_plan.h"

#include <string>

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t patience_ns = 200'000'000;  // even a busy machine is rarely later
constexpr uint64_t look_ns = 5'000;

}  // namespace

Result<void> PlanMemory::give_back_late(PlanUploads &uploads) {
  if (late.empty()) return {};
  RONDO_TRY_ASSIGN(const bool ended, uploads.have_ended());
  if (!ended) return {};
  for (const PlanRange &range : late) arena.give_back(range.offset, range.bytes);
  late.clear();
  return {};
}

bool PlanMemory::has_room(size_t bytes, PlanUploads &uploads) {
  const std::lock_guard lock(mutex);
  if (!give_back_late(uploads).ok()) return true;  // take() reports the error
  const auto offset = arena.take(bytes);
  if (offset) arena.give_back(*offset, bytes);
  return offset.has_value();
}

Result<uint64_t> PlanMemory::take(size_t bytes, PlanUploads &uploads) {
  const std::lock_guard lock(mutex);
  RONDO_TRY(give_back_late(uploads));
  if (const auto offset = arena.take(bytes)) return *offset;
  return Error{RONDO_ERROR_OUT_OF_RESOURCES,
               "a plan of " + std::to_string(bytes) + " bytes does not fit into a communicator's " +
                   std::to_string(all_bytes) + " bytes on its device, beside those of calls that have not "
                   "ended and of graphs; have fewer calls of different sizes under way"};
}

Result<bool> PlanUploads::begin(DevicePointer to, const void *from, uint64_t bytes) {
  const CudaDriver &driver = *context_.get().driver;
  const ContextGuard guard(driver, context_.get().context);
  RONDO_TRY(guard.status());
  const CaptureModeGuard capture_goes_on(driver);
  RONDO_TRY(cuda_check(driver, driver.memcpy_htod_async(to, from, bytes, stream_.get().object),
                       "copying a plan to the device"));
  RONDO_TRY_ASSIGN(const bool ended, wait(patience_ns));
  if (!ended) was_late_.store(true, std::memory_order_relaxed);  // a later destroy reads it
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
