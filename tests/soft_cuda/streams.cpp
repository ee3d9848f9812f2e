// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/streams.h"

#include <time.h>

#include <chrono>
#include <thread>

#include "tests/soft_cuda/capture.h"

namespace soft_cuda {
namespace {

void leave_queue(HardwareQueue &queue) {
  queue.order.pop_front();
  if (!queue.order.empty()) queue.order.front().second->wake.notify_all();
}

void finish(Completion &completion) {
  completion.done = true;
  completion.done_ns = clock_ns();
  completion.changed.notify_all();
}

/// The fault that the seed draws for a piece of work: a delay, an error, or both.
struct Mishap {
  uint64_t delay_us = 0;
  CuStatus status = CuStatus::success;
};

Mishap next_mishap(State &driver) {
  const Faults &faults = driver.settings.faults;
  Mishap mishap;
  if (faults.delay_share <= 0 && faults.work_share <= 0 && faults.work_number == 0) return mishap;
  const std::lock_guard lock(driver.mutex);
  const uint64_t number = ++driver.work_number;
  if (chance(faults.seed, 1, number) < faults.delay_share)
    mishap.delay_us = static_cast<uint64_t>(chance(faults.seed, 2, number) * static_cast<double>(faults.delay_us));
  if (number == faults.work_number || chance(faults.seed, 3, number) < faults.work_share)
    mishap.status = faults.work_status;
  return mishap;
}

/// Runs a piece of work. After an error in the context, no work runs any more, and pending work ends without running.
void run_work(Lock &lock, Context &context, const Work &work) {
  if (context.error != CuStatus::success || work.run == nullptr) return;
  lock.unlock();
  const CuStatus status = run_action(work.run);
  lock.lock();
  if (context.error == CuStatus::success) context.error = status;
}

/// Serves one stream as its worker, on a thread of the pool.
void serve(void *argument) {
  const std::unique_ptr<std::shared_ptr<Stream>> self(static_cast<std::shared_ptr<Stream> *>(argument));
  const std::shared_ptr<Stream> &stream = *self;
  State &driver = state();
  HardwareQueue &queue = *stream->queue;
  Lock lock(driver.mutex);
  for (;;) {
    stream->wake.wait(lock, [&] { return stream->closing || !stream->pending.empty(); });
    if (stream->pending.empty()) break;
    Work &work = stream->pending.front();  // a deque keeps it in place while others are appended
    stream->wake.wait(lock, [&] { return queue.order.front().first == work.completion.get(); });
    for (const CompletionRef &before : work.after) wait_for(lock, before);
    const bool holds_queue = driver.settings.queue_waits_for_end;
    if (!holds_queue) leave_queue(queue);
    run_work(lock, *stream->context, work);
    if (holds_queue) leave_queue(queue);
    finish(*work.completion);
    stream->pending.pop_front();
    stream->space.notify_all();
  }
  Context &context = *stream->context;
  context.streams.erase(stream);
  if (context.legacy == stream) context.legacy.reset();  // otherwise both would hold each other for ever
}

/// Adds to `after` what the legacy order demands: the legacy stream and blocking streams follow each other's work.
void add_legacy_order(const Stream &stream, std::vector<CompletionRef> &after) {
  const Context &context = *stream.context;
  if ((stream.flags & stream_non_blocking) != 0) return;
  if (&stream != context.legacy.get()) {
    if (context.legacy != nullptr && context.legacy->last != nullptr && !context.legacy->last->done)
      after.push_back(context.legacy->last);
    return;
  }
  for (const auto &other : context.streams)
    if (other.get() != &stream && (other->flags & stream_non_blocking) == 0 && other->last != nullptr &&
        !other->last->done)
      after.push_back(other->last);
}

}  // namespace

CuStatus run_action(const Action &run) {
  const Mishap mishap = next_mishap(state());
  if (mishap.delay_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(mishap.delay_us));
  return mishap.status == CuStatus::success ? run() : mishap.status;
}

uint64_t clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void wait_for(Lock &lock, const CompletionRef &completion) {
  completion->changed.wait(lock, [&] { return completion->done; });
}

std::shared_ptr<Stream> start_stream(State &, const std::shared_ptr<Context> &context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->queue = &context->queues[context->stream_count++ % context->queues.size()];
  context->streams.insert(stream);
  run_on_pool(serve, new std::shared_ptr<Stream>(stream));
  return stream;
}

void close_stream(const std::shared_ptr<Stream> &stream) {
  stream->closing = true;
  stream->wake.notify_all();
}

bool legacy_is_entangled(State &driver, const Context &context) {
  for (const auto &capture : driver.captures)
    for (const Stream *stream : capture->streams)
      if (stream->context.get() == &context && (stream->flags & stream_non_blocking) == 0) return true;
  return false;
}

CuStatus submit(State &driver, Lock &lock, const std::shared_ptr<Stream> &stream, Action run, CompletionRef *completion,
                std::vector<CompletionRef> after) {
  if (stream->capture != nullptr) return capture_node(*stream, std::move(run));
  if (stream == stream->context->legacy && legacy_is_entangled(driver, *stream->context)) {
    invalidate_captures(driver, *stream->context);
    return CuStatus::stream_capture_implicit;
  }
  stream->space.wait(lock, [&] { return stream->pending.size() < driver.settings.launch_queue; });
  add_legacy_order(*stream, after);
  Work work{std::move(run), std::move(after), std::make_shared<Completion>()};
  stream->last = work.completion;
  if (completion != nullptr) *completion = work.completion;
  stream->queue->order.emplace_back(work.completion.get(), stream.get());
  stream->pending.push_back(std::move(work));
  stream->wake.notify_all();
  return CuStatus::success;
}

}  // namespace soft_cuda
