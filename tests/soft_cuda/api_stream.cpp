// SPDX-License-Identifier: Apache-2.0
// This file has streams and host functions.
#include "tests/soft_cuda/capture.h"
#include "tests/soft_cuda/exports.h"
#include "tests/soft_cuda/streams.h"

namespace soft_cuda {
namespace {

bool has_ended(const Stream &stream) { return stream.last == nullptr || stream.last->done; }

/// Returns success if the host may query a stream. During a capture the host may not.
CuStatus check_host_may_ask(State &driver, const std::shared_ptr<Stream> &stream) {
  if (const CuStatus status = check_not_capturing(*stream); status != CuStatus::success) return status;
  if (stream != stream->context->legacy || !legacy_is_entangled(driver, *stream->context)) return CuStatus::success;
  invalidate_captures(driver, *stream->context);
  return CuStatus::stream_capture_implicit;
}

/// Returns the last work of the stream. For the legacy stream, this includes the last work of blocking streams.
std::vector<CompletionRef> ends_of(const std::shared_ptr<Stream> &stream) {
  std::vector<CompletionRef> ends;
  if (stream->last != nullptr) ends.push_back(stream->last);
  if (stream == stream->context->legacy)
    for (const auto &other : stream->context->streams)
      if ((other->flags & stream_non_blocking) == 0 && other->last != nullptr) ends.push_back(other->last);
  return ends;
}

CuStatus run_host_function(HostFunction function, void *user_data) {
  this_thread().in_host_function = true;
  function(user_data);
  this_thread().in_host_function = false;
  return CuStatus::success;
}

}  // namespace
}  // namespace soft_cuda

using namespace soft_cuda;

extern "C" {

CuStatus cuStreamCreateWithPriority(CuStream *handle, unsigned flags, int priority) {
  return call_in_context(Entry::stream_create, [&](State &driver, Lock &, const auto &context) {
    if (handle == nullptr || flags > stream_non_blocking) return CuStatus::invalid_value;
    const auto stream = start_stream(driver, context, flags, priority);
    *handle = stream->handle = driver.streams.add(stream);
    return CuStatus::success;
  });
}

CuStatus cuStreamDestroy_v2(CuStream handle) {
  return call(Entry::stream_destroy, [&](State &driver, Lock &) {
    const auto stream = driver.streams.take(handle);
    if (stream == nullptr) return CuStatus::invalid_handle;
    if (stream->capture != nullptr) {
      stream->capture->invalidated = true;
      stream->capture->streams.erase(stream.get());
      if (stream->capture->origin == stream.get()) driver.captures.erase(stream->capture);
    }
    // The call does not wait. If the stream has work left, the driver releases its resources when the work has ended.
    close_stream(stream);
    return stream->context->error;
  });
}

CuStatus cuStreamQuery(CuStream handle) {
  return call_on_stream(Entry::stream_query, handle, [&](State &driver, Lock &, const auto &stream) {
    if (const CuStatus status = check_host_may_ask(driver, stream); status != CuStatus::success) return status;
    if (const CuStatus status = check_unsafe_call(driver); status != CuStatus::success) return status;
    return has_ended(*stream) ? CuStatus::success : CuStatus::not_ready;
  });
}

CuStatus cuStreamSynchronize(CuStream handle) {
  return call_on_stream(Entry::stream_synchronize, handle, [&](State &driver, Lock &lock, const auto &stream) {
    if (const CuStatus status = check_host_may_ask(driver, stream); status != CuStatus::success) return status;
    for (const CompletionRef &end : ends_of(stream)) wait_for(lock, end);
    return stream->context->error;
  });
}

CuStatus cuStreamGetCtx(CuStream handle, CuContext *context) {
  return call_on_stream(Entry::stream_get_ctx, handle, [&](State &, Lock &, const auto &stream) {
    if (context == nullptr) return CuStatus::invalid_value;
    *context = stream->context->handle;
    return CuStatus::success;
  });
}

CuStatus cuStreamGetFlags(CuStream handle, unsigned *flags) {
  return call_on_stream(Entry::stream_get_flags, handle, [&](State &, Lock &, const auto &stream) {
    if (flags == nullptr) return CuStatus::invalid_value;
    *flags = stream->flags;
    return CuStatus::success;
  });
}

CuStatus cuLaunchHostFunc(CuStream handle, HostFunction function, void *user_data) {
  return call_on_stream(Entry::launch_host_func, handle, [&](State &driver, Lock &lock, const auto &stream) {
    if (function == nullptr) return CuStatus::invalid_value;
    return submit(driver, lock, stream, [=] { return run_host_function(function, user_data); });
  });
}

}  // extern "C"
