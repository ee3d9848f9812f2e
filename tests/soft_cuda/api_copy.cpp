// SPDX-License-Identifier: Apache-2.0
// This file has copies, memsets and stream memory operations.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

enum class Place { device, pinned, pageable, wrong };

/// Returns where an address is. An address that was never allocated is ordinary host memory. A range that exceeds its
/// allocation is wrong.
Place place_of(State &driver, uint64_t address, size_t bytes) {
  const Range *const range = driver.memory.find(address);
  if (range == nullptr) return address == 0 ? Place::wrong : Place::pageable;
  if (driver.memory.find(address, bytes) == nullptr || !range->accessible) return Place::wrong;
  return is_on_device(range->kind) ? Place::device : Place::pinned;
}

/// Copies whole words, as a device does, because the host may read pinned memory while a copy writes it.
void copy_words(uint64_t to, uint64_t from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void *>(from + at), sizeof word);
    // release; pairs with the acquire of the application's host code
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(to + at)).store(word, std::memory_order_release);
  }
}

/// Returns whether a copy can be skipped because `to` has its bytes. This prevents reports of ThreadSanitizer:
/// unordered streams may copy the same pinned bytes twice while a kernel reads the target.
#if defined(__SANITIZE_THREAD__)
[[gnu::no_sanitize("thread"), gnu::noinline]] bool is_there(uint64_t to, uint64_t from, size_t bytes) {
  const auto *const left = reinterpret_cast<const volatile unsigned char *>(to);
  const auto *const right = reinterpret_cast<const volatile unsigned char *>(from);
  for (size_t at = 0; at < bytes; ++at)
    if (left[at] != right[at]) return false;
  return true;
}
#else
bool is_there(uint64_t, uint64_t, size_t) { return false; }
#endif

/// Copies on a stream. If host memory is not pinned, the
/// call returns only when the copy has ended.
CuStatus copy(State &driver, Lock &lock, const std::shared_ptr<Stream> &stream, uint64_t to, uint64_t from,
              size_t bytes, bool device_to, bool device_from) {
  if (bytes == 0) return CuStatus::success;
  const Place to_place = place_of(driver, to, bytes);
  const Place from_place = place_of(driver, from, bytes);
  if (to_place == Place::wrong || from_place == Place::wrong) return CuStatus::invalid_value;
  if ((device_to && to_place == Place::pageable) || (device_from && from_place == Place::pageable))
    return CuStatus::invalid_value;
  const bool overlap = to < from + bytes && from < to + bytes;
  const bool words = to_place == Place::pinned && (to | bytes) % sizeof(uint64_t) == 0 && !overlap;
  const bool may_be_there = to_place == Place::device && from_place == Place::pinned;
  CompletionRef end;
  const CuStatus status = submit(
      driver, lock, stream,
      [=] {
        if (may_be_there && is_there(to, from, bytes)) return CuStatus::success;
        if (words) {
          copy_words(to, from, bytes);
          return CuStatus::success;
        }
        std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
        return CuStatus::success;
      },
      &end);
  const bool pageable = to_place == Place::pageable || from_place == Place::pageable;
  if (!pageable || end == nullptr) return status;
  wait_for(lock, end);
  return stream->context->error;
}

template <class Word>
CuStatus fill(State &driver, Lock &lock, const std::shared_ptr<Stream> &stream, uint64_t to, Word value, size_t count) {
  if (count == 0) return CuStatus::success;
  if (to % sizeof(Word) != 0 || count > SIZE_MAX / sizeof(Word)) return CuStatus::invalid_value;
  const Place place = place_of(driver, to, count * sizeof(Word));
  if (place != Place::device && place != Place::pinned) return CuStatus::invalid_value;
  return submit(driver, lock, stream, [=] {
    std::fill_n(reinterpret_cast<Word *>(to), count, value);
    return CuStatus::success;
  });
}

bool value_satisfies(uint64_t seen, uint64_t wanted, unsigned condition) {
  switch (condition) {
    case wait_value_geq:
      return static_cast<int64_t>(seen - wanted) >= 0;
    case wait_value_eq:
      return seen == wanted;
    case wait_value_and:
      return (seen & wanted) != 0;
    default:
      return ~(seen | wanted) != 0;
  }
}

bool has_failed(const Context &context) {
  const std::lock_guard lock(state().mutex);
  return context.error != CuStatus::success;
}

/// Polls for the value, because another process or a kernel may write it. An error in the context ends the wait.
CuStatus wait_for_value(const Context &context, uint64_t address, uint64_t wanted, unsigned condition) {
  constexpr uint64_t eager_polls = 200;
  constexpr uint64_t polls_per_check = 64;
  const std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t *>(address));
  for (uint64_t poll = 1;; ++poll) {
    // acquire; pairs with the release of write_value(), or of the application's kernel or host code
    if (value_satisfies(word.load(std::memory_order_acquire), wanted, condition)) return CuStatus::success;
    if (poll % polls_per_check == 0 && has_failed(context)) return CuStatus::success;
    if (poll < eager_polls)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// Writes with a fence, as the device does, so that a reader of the value sees the stream's earlier work.
CuStatus write_value(uint64_t address, uint64_t value) {
  // release; pairs with the acquire of wait_for_value(), or of the application's kernel or host code
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t *>(address)).store(value, std::memory_order_release);
  return CuStatus::success;
}

/// Returns success, or ends the capture if the settings say that the driver is older than CUDA 11.7.
CuStatus check_captured_wait(const State &driver, Stream &stream) {
  return driver.settings.captures_waits ? CuStatus::success : check_not_capturing(stream);
}

bool is_word(State &driver, uint64_t address) {
  const Place place = place_of(driver, address, sizeof(uint64_t));
  return address % sizeof(uint64_t) == 0 && (place == Place::device || place == Place::pinned);
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, CuStream handle) {
  return call_on_stream(Entry::memcpy_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    return copy(driver, lock, stream, to, from, bytes, false, false);
  });
}

CuStatus cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, CuStream handle) {
  return call_on_stream(Entry::memcpy_dtod_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    return copy(driver, lock, stream, to, from, bytes, true, true);
  });
}

CuStatus cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, CuStream handle) {
  return call_on_stream(Entry::memcpy_htod_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    ++driver.upload_count;
    ++stream->upload_count;
    return copy(driver, lock, stream, to, reinterpret_cast<uint64_t>(from), bytes, true, false);
  });
}

CuStatus cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, CuStream handle) {
  return call_on_stream(Entry::memcpy_dtoh_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    return copy(driver, lock, stream, reinterpret_cast<uint64_t>(to), from, bytes, false, true);
  });
}

CuStatus cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, CuStream handle) {
  return call_on_stream(Entry::memset_d8_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    return fill<unsigned char>(driver, lock, stream, to, value, count);
  });
}

CuStatus cuMemsetD32Async(DevicePointer to, unsigned value, size_t count, CuStream handle) {
  return call_on_stream(Entry::memset_d32_async, handle, [&](State &driver, Lock &lock, const auto &stream) {
    return fill<unsigned>(driver, lock, stream, to, value, count);
  });
}

CuStatus cuStreamWaitValue64_v2(CuStream handle, DevicePointer address, uint64_t value, unsigned flags) {
  return call_on_stream(Entry::stream_wait_value64, handle, [&](State &driver, Lock &lock, const auto &stream) {
    // CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0 here.
    if ((flags & wait_value_flush) != 0) return CuStatus::not_supported;
    if (flags > wait_value_nor || !is_word(driver, address)) return CuStatus::invalid_value;
    if (const CuStatus status = check_captured_wait(driver, *stream); status != CuStatus::success) return status;
    return submit(driver, lock, stream, [context = stream->context, address, value, flags] {
      return wait_for_value(*context, address, value, flags);
    });
  });
}

CuStatus cuStreamWriteValue64_v2(CuStream handle, DevicePointer address, uint64_t value, unsigned flags) {
  return call_on_stream(Entry::stream_write_value64, handle, [&](State &driver, Lock &lock, const auto &stream) {
    if (flags > write_value_no_memory_barrier || !is_word(driver, address)) return CuStatus::invalid_value;
    if (const CuStatus status = check_captured_wait(driver, *stream); status != CuStatus::success) return status;
    return submit(driver, lock, stream, [=] { return write_value(address, value); });
  });
}

}  // extern "C"
