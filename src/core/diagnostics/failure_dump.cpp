// SPDX-License-Identifier: Apache-2.0
#include "src/core/diagnostics/failure_dump.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/start_thread.h"
#include "src/core/process.h"
#include "src/core/diagnostics/recorder.h"

namespace rondo {
namespace {

constexpr uint64_t writer_patience_ns = 2'000'000'000;  // longest wait for the rank that has claimed the dump
constexpr uint64_t exit_patience_ns = 3'000'000'000;    // longest wait at exit, which includes the time to write
constexpr uint64_t brief_ns = 50'000'000;
constexpr uint64_t look_interval_ns = 1'000'000;

/// Returns the counter of this process's threads that write dumps.
std::atomic<uint32_t> &thread_count() {
  static std::atomic<uint32_t> count = 0;
  return count;
}

/// Waits, at exit(), for the threads that write dumps, because these threads end with the process.
void wait_for_threads() {
  if (!check_not_forked().ok()) return;  // after a fork(), the child has the counter without the threads
  const uint64_t deadline_ns = now_ns() + exit_patience_ns;
  // Pairs with release at the thread's end.
  while (thread_count().load(std::memory_order_acquire) != 0 && now_ns() < deadline_ns) sleep_for_ns(look_interval_ns);
}

/// Returns true if this rank must write the dump, false if another rank has written it. A rank that takes too long may
/// have died, so this rank then claims the dump.
bool claim_or_wait(FlightRecorder &recorder, const Recording &recording) {
  if (recorder.claim_dump()) return true;
  const uint64_t deadline_ns = now_ns() + writer_patience_ns;
  while (!recording.dumped() && now_ns() < deadline_ns) sleep_for_ns(look_interval_ns);
  if (recording.dumped()) return false;
  recorder.end_dump(false);
  return recorder.claim_dump();
}

}  // namespace

FailureDump::FailureDump(FlightRecorder &recorder, std::string folder, uint32_t rank)
    : recorder_(recorder), folder_(std::move(folder)), rank_(rank) {}

void FailureDump::begin() {
  if (folder_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (std::exchange(begun_, true)) return;
  [[maybe_unused]] static const int registered = std::atexit(wait_for_threads);
  thread_count().fetch_add(1, std::memory_order_relaxed);  // before this thread reports the failure to the caller
  auto started = start_thread("a flight recording", [this] {
    write();
    done_.store(true, std::memory_order_release);            // pairs with wait_briefly()
    thread_count().fetch_sub(1, std::memory_order_release);  // pairs with wait_for_threads()
  });
  if (started.ok()) {
    thread_ = std::move(started).value();
    return;
  }
  thread_count().fetch_sub(1, std::memory_order_release);
  owed_ = true;
}

void FailureDump::wait_briefly() const {
  if (folder_.empty()) return;
  const uint64_t deadline_ns = now_ns() + brief_ns;
  // Pairs with release at the thread's end.
  while (!done_.load(std::memory_order_acquire) && now_ns() < deadline_ns) sleep_for_ns(look_interval_ns);
}

void FailureDump::finish() {
  std::thread thread;
  bool owed = false;
  {
    const std::lock_guard lock(mutex_);
    thread = std::move(thread_);
    owed = std::exchange(owed_, false);
  }
  if (thread.joinable()) thread.join();
  if (owed) write();
}

void FailureDump::write() const {
  const log::Source told(log::Subsystem::failure, rank_);
  try {
    const auto recording = recorder_.recording();
    if (!claim_or_wait(recorder_, *recording)) return;
    const std::string path = recording_path(*recording, folder_);
    if (const auto written = write_recordings({recording.get()}, path); !written.ok())
      log::warning(told, "no flight recording: " + written.error().message + " (RONDO_RECORDER_DIR)");
    else
      log::warning(told, "the communicator failed; the flight recording of its ranks is in " + path);
  } catch (const std::exception &) {
    log::warning(told, "no flight recording: out of memory");
  }
  recorder_.end_dump(true);  // even if the write failed, because the next rank would fail in the same way
}

}  // namespace rondo
