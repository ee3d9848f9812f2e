// SPDX-License-Identifier: Apache-2.0
// Host streams and events, by what a user of the C functions and an enqueuer of tasks can see.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/core/host_event.h"
#include "src/core/host_stream.h"
#include "src/core/last_error.h"
#include "src/core/process.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

/// Holds those who wait until it is opened.
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

std::shared_ptr<HostStream> make_stream(uint64_t spin_ns = 0) { return HostStream::create(spin_ns).value(); }

/// A task that waits for `gate`: it keeps a stream busy for as long as a test needs.
Task hold_by(Gate &gate) {
  return Task([&gate]() -> Result<void> {
    gate.pass();
    return {};
  });
}

Task failing(rondo_status_t status, std::string message) {
  return Task([error = Error{status, std::move(message)}]() -> Result<void> { return error; });
}

/// A stream of the C functions, and the object behind it.
struct ApiStream {
  ApiStream() {
    REQUIRE(rondo_stream_create(&handle) == RONDO_OK);
    object = process().streams.find(handle);
  }
  rondo_stream_t handle = nullptr;
  std::shared_ptr<HostStream> object;
};

rondo_event_t make_event() {
  rondo_event_t event = nullptr;
  REQUIRE(rondo_event_create(&event) == RONDO_OK);
  return event;
}

uint64_t seed() {
  const char *given = std::getenv("RONDO_SEED");
  const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  UNSCOPED_INFO("RONDO_SEED=" << value);
  return value;
}

}  // namespace

TEST_CASE("stream: runs tasks in the order in which they were enqueued, across many laps of the ring") {
  for (const uint64_t spin_ns : {uint64_t{0}, HostStream::spin_ns_max}) {
    const auto stream = make_stream(spin_ns);
    std::vector<int> seen;
    for (int i = 0; i < 5'000; ++i)
      REQUIRE(stream->enqueue([&seen, i]() -> Result<void> {
                       seen.push_back(i);
                       return {};
                     }).ok());
    CHECK(stream->synchronize().ok());
    REQUIRE(seen.size() == 5'000);
    for (int i = 0; i < 5'000; ++i) REQUIRE(seen[static_cast<size_t>(i)] == i);
    CHECK(stream->idle());
  }
}

TEST_CASE("stream: synchronize waits for what was enqueued, and query tells whether it is done") {
  ApiStream stream;
  CHECK(rondo_stream_query(stream.handle) == RONDO_OK);
  Gate gate;
  std::atomic<bool> ran = false;
  REQUIRE(stream.object->enqueue(hold_by(gate)).ok());
  REQUIRE(stream.object->enqueue([&]() -> Result<void> {
    ran = true;
    return {};
  }).ok());
  CHECK(rondo_stream_query(stream.handle) == RONDO_NOT_READY);
  CHECK_FALSE(ran);
  std::thread opener([&] { gate.open(); });
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_OK);
  CHECK(ran);
  CHECK(rondo_stream_query(stream.handle) == RONDO_OK);
  opener.join();
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
}

TEST_CASE("stream: synchronize reports the first failure since the last one, once, and later tasks still run") {
  ApiStream stream;
  int ran = 0;
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_TIMEOUT, "the first failure, told in more than few words")).ok());
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_REMOTE, "the second")).ok());
  REQUIRE(stream.object->enqueue([&]() -> Result<void> {
    ++ran;
    return {};
  }).ok());
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_ERROR_TIMEOUT);
  CHECK(last_error().message == "the first failure, told in more than a few words");
  CHECK(ran == 1);
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_OK);
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_ABORTED, "the third")).ok());
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_ERROR_ABORTED);
}

TEST_CASE("stream: a full queue takes 1,024 tasks, makes the next caller wait and is free again after one") {
  const auto stream = make_stream();
  Gate gate;
  std::atomic<int> ran = 0;
  const auto count = [&]() -> Result<void> {
    ++ran;
    return {};
  };
  REQUIRE(stream->enqueue(hold_by(gate)).ok());
  for (uint64_t i = 1; i < HostStream::queue_tasks_max; ++i) REQUIRE(stream->enqueue(count, now_ns()).ok());

  const auto refused = stream->enqueue(count, now_ns() + 1'000'000);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(refused.error().message.find("1024") != std::string::npos);

  bool accepted = false;
  std::thread waiter([&] { accepted = stream->enqueue(count).ok(); });
  gate.open();
  waiter.join();
  CHECK(accepted);
  CHECK(stream->synchronize().ok());
  CHECK(ran == HostStream::queue_tasks_max);
}

TEST_CASE("stream: destroy runs what is enqueued, sends away who waits for a place, and ends the handle") {
  ApiStream stream;
  Gate gate;
  std::atomic<int> ran = 0;
  REQUIRE(stream.object->enqueue(hold_by(gate)).ok());
  for (uint64_t i = 1; i < HostStream::queue_tasks_max; ++i)
    REQUIRE(stream.object->enqueue([&]() -> Result<void> {
      ++ran;
      return {};
    }).ok());
  Result<void> sent_away;
  rondo_status_t destroyed = RONDO_NOT_READY;
  std::thread waiter([&] { sent_away = stream.object->enqueue([]() -> Result<void> { return {}; }); });
  std::thread destroyer([&] { destroyed = rondo_stream_destroy(stream.handle); });
  while (rondo_stream_query(stream.handle) != RONDO_ERROR_INVALID_HANDLE) std::this_thread::yield();
  waiter.join();  // comes back though the gate is still shut: nothing of the queue has moved
  CHECK(ran == 0);
  REQUIRE_FALSE(sent_away.ok());
  CHECK(sent_away.error().status == RONDO_ERROR_INVALID_HANDLE);
  gate.open();
  destroyer.join();
  CHECK(destroyed == RONDO_OK);
  CHECK(ran == HostStream::queue_tasks_max - 1);
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_ERROR_INVALID_HANDLE);
  CHECK_FALSE(stream.object->enqueue([]() -> Result<void> { return {}; }).ok());
}

TEST_CASE("stream: a task that waits for its own stream is refused instead of waiting for ever") {
  ApiStream stream;
  std::vector<rondo_status_t> seen;
  bool own = false;
  REQUIRE(stream.object->enqueue([&]() -> Result<void> {
    own = stream.object->on_own_thread();
    seen.push_back(rondo_stream_synchronize(stream.handle));
    seen.push_back(rondo_stream_destroy(stream.handle));
    while (true) {  // until the ring is full
      const auto result = stream.object->enqueue([]() -> Result<void> { return {}; });
      if (result.ok()) continue;
      seen.push_back(result.error().status);
      return {};
    }
  }).ok());
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_OK);
  CHECK(seen == std::vector<rondo_status_t>(3, RONDO_ERROR_INVALID_ARGUMENT));
  CHECK(own);
  CHECK_FALSE(stream.object->on_own_thread());
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
}

TEST_CASE("stream: what a task has captured is gone when synchronize returns") {
  const auto stream = make_stream();
  const auto owned = std::make_shared<int>(5);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(stream->enqueue([owned]() -> Result<void> { return {}; }).ok());
    REQUIRE(stream->synchronize().ok());
    REQUIRE(owned.use_count() == 1);
  }
}

TEST_CASE("stream: its thread takes none of the application's signals") {
  const auto stream = make_stream();
  sigset_t blocked;
  sigemptyset(&blocked);
  REQUIRE(stream->enqueue([&]() -> Result<void> {
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return {};
  }).ok());
  REQUIRE(stream->synchronize().ok());
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM}) CHECK(sigismember(&blocked, signal) == 1);
  sigset_t own;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
  CHECK(sigismember(&own, SIGTERM) == 0);
}

TEST_CASE("stream: null pointers and handles of the wrong kind are refused") {
  CHECK(rondo_stream_create(nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_event_create(nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  const rondo_event_t event = make_event();
  CHECK(rondo_event_timestamp_ns(event, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  for (rondo_stream_t wrong : {static_cast<rondo_stream_t>(event), reinterpret_cast<rondo_stream_t>(1),
                               reinterpret_cast<rondo_stream_t>(0x7f0012345678)}) {
    CHECK(rondo_stream_synchronize(wrong) == RONDO_ERROR_INVALID_HANDLE);
    CHECK(rondo_stream_query(wrong) == RONDO_ERROR_INVALID_HANDLE);
    CHECK(rondo_stream_destroy(wrong) == RONDO_ERROR_INVALID_HANDLE);
    CHECK(rondo_event_record(event, wrong) == RONDO_ERROR_INVALID_HANDLE);
    CHECK(rondo_stream_wait_event(wrong, event) == RONDO_ERROR_INVALID_HANDLE);
  }
  CHECK(rondo_stream_synchronize(nullptr) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_event_query(event) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_event_synchronize(nullptr) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("event: done until first recorded, without a time; recorded without a stream it is done at once") {
  const rondo_event_t event = make_event();
  uint64_t time = 77;
  CHECK(rondo_event_query(event) == RONDO_OK);
  CHECK(rondo_event_synchronize(event) == RONDO_OK);
  CHECK(rondo_event_timestamp_ns(event, &time) == RONDO_NOT_READY);
  CHECK(time == 77);
  const uint64_t before = now_ns();
  REQUIRE(rondo_event_record(event, nullptr) == RONDO_OK);
  CHECK(rondo_event_query(event) == RONDO_OK);
  REQUIRE(rondo_event_timestamp_ns(event, &time) == RONDO_OK);
  CHECK(time >= before);
  CHECK(time <= now_ns());
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("event: is done when its stream reaches it, not before, and its times follow the stream's order") {
  ApiStream stream;
  const rondo_event_t first = make_event();
  const rondo_event_t second = make_event();
  Gate gate;
  uint64_t time = 0;
  REQUIRE(rondo_event_record(first, stream.handle) == RONDO_OK);
  REQUIRE(stream.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(second, stream.handle) == RONDO_OK);
  CHECK(rondo_event_synchronize(first) == RONDO_OK);
  CHECK(rondo_event_query(second) == RONDO_NOT_READY);
  CHECK(rondo_event_timestamp_ns(second, &time) == RONDO_NOT_READY);
  const uint64_t opened = now_ns();
  gate.open();
  CHECK(rondo_event_synchronize(second) == RONDO_OK);
  uint64_t times[2] = {};
  CHECK(rondo_event_timestamp_ns(first, &times[0]) == RONDO_OK);
  CHECK(rondo_event_timestamp_ns(second, &times[1]) == RONDO_OK);
  CHECK(times[0] <= opened);
  CHECK(times[1] >= opened);
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
  CHECK(rondo_event_destroy(first) == RONDO_OK);
  CHECK(rondo_event_destroy(second) == RONDO_OK);
}

TEST_CASE("event: holds another stream until its record, and only for what is enqueued afterwards") {
  ApiStream one;
  ApiStream two;
  const rondo_event_t event = make_event();
  Gate gate;
  std::atomic<bool> passed = false;
  std::atomic<bool> earlier = false;
  REQUIRE(one.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(event, one.handle) == RONDO_OK);
  REQUIRE(two.object->enqueue([&]() -> Result<void> {
    earlier = true;
    return {};
  }).ok());
  CHECK(rondo_stream_synchronize(two.handle) == RONDO_OK);
  CHECK(earlier);
  REQUIRE(rondo_stream_wait_event(two.handle, event) == RONDO_OK);
  std::atomic<bool> open = false;
  REQUIRE(two.object->enqueue([&]() -> Result<void> {
    passed = open.load();
    return {};
  }).ok());
  CHECK(rondo_stream_query(two.handle) == RONDO_NOT_READY);
  open = true;
  gate.open();
  CHECK(rondo_stream_synchronize(two.handle) == RONDO_OK);
  CHECK(passed);
  CHECK(rondo_stream_destroy(one.handle) == RONDO_OK);
  CHECK(rondo_stream_destroy(two.handle) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("event: who waits is held by the record that was the latest at the time of the call") {
  ApiStream slow;
  ApiStream quick;
  ApiStream waiting;
  const rondo_event_t event = make_event();
  Gate gate;
  REQUIRE(slow.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(event, slow.handle) == RONDO_OK);
  REQUIRE(rondo_stream_wait_event(waiting.handle, event) == RONDO_OK);  // for the record on slow
  REQUIRE(rondo_event_record(event, quick.handle) == RONDO_OK);
  CHECK(rondo_stream_synchronize(quick.handle) == RONDO_OK);
  // The newer record is done; the older one still holds `waiting`, and nobody who comes now.
  CHECK(rondo_event_query(event) == RONDO_OK);
  CHECK(rondo_event_synchronize(event) == RONDO_OK);
  CHECK(rondo_stream_wait_event(nullptr, event) == RONDO_OK);
  uint64_t time = 0;
  CHECK(rondo_event_timestamp_ns(event, &time) == RONDO_OK);
  CHECK(rondo_stream_query(waiting.handle) == RONDO_NOT_READY);
  gate.open();
  CHECK(rondo_stream_synchronize(waiting.handle) == RONDO_OK);
  uint64_t time_after = 0;
  CHECK(rondo_event_timestamp_ns(event, &time_after) == RONDO_OK);
  CHECK(time_after == time);  // the older record does not overwrite the latest one's time
  for (ApiStream *stream : {&slow, &quick, &waiting}) CHECK(rondo_stream_destroy(stream->handle) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("event: waiting without a stream blocks the call until the record") {
  ApiStream stream;
  const rondo_event_t event = make_event();
  Gate gate;
  std::atomic<bool> open = false;
  REQUIRE(stream.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(event, stream.handle) == RONDO_OK);
  std::thread opener([&] {
    open = true;
    gate.open();
  });
  CHECK(rondo_stream_wait_event(nullptr, event) == RONDO_OK);
  CHECK(open);
  opener.join();
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("event: destroyed while streams still use it, it does its work for them") {
  ApiStream one;
  ApiStream two;
  const rondo_event_t event = make_event();
  Gate gate;
  REQUIRE(one.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(event, one.handle) == RONDO_OK);
  REQUIRE(rondo_stream_wait_event(two.handle, event) == RONDO_OK);
  const std::weak_ptr<HostEvent> object = process().events.find(event);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
  CHECK(rondo_stream_query(two.handle) == RONDO_NOT_READY);
  CHECK_FALSE(object.expired());
  gate.open();
  CHECK(rondo_stream_synchronize(two.handle) == RONDO_OK);
  CHECK(rondo_stream_synchronize(one.handle) == RONDO_OK);
  CHECK(object.expired());
  CHECK(rondo_stream_destroy(one.handle) == RONDO_OK);
  CHECK(rondo_stream_destroy(two.handle) == RONDO_OK);
}

TEST_CASE("event: a record that its stream refuses leaves the event as it was") {
  const auto event = std::make_shared<HostEvent>();
  REQUIRE(event->record(nullptr).ok());
  const auto time = event->timestamp_ns();
  const auto stream = make_stream();
  REQUIRE(stream->close().ok());
  const auto refused = event->record(stream.get());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_INVALID_HANDLE);
  CHECK(event->done());
  CHECK(event->timestamp_ns() == time);
}

TEST_CASE("event: a record that waits for a place in its stream does not count yet, so nothing waits for it in vain") {
  ApiStream stream;
  const rondo_event_t event = make_event();
  Gate gate;
  REQUIRE(stream.object->enqueue(hold_by(gate)).ok());
  for (uint64_t i = 1; i < HostStream::queue_tasks_max; ++i)
    REQUIRE(stream.object->enqueue([]() -> Result<void> { return {}; }).ok());
  rondo_status_t recorded = RONDO_NOT_READY;
  std::thread recorder([&] { recorded = rondo_event_record(event, stream.handle); });
  for (int i = 0; i < 2'000; ++i) {
    REQUIRE(rondo_event_query(event) == RONDO_OK);
    REQUIRE(rondo_stream_wait_event(nullptr, event) == RONDO_OK);
    std::this_thread::yield();
  }
  gate.open();
  recorder.join();
  CHECK(recorded == RONDO_OK);
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_OK);
  uint64_t time = 0;
  CHECK(rondo_event_timestamp_ns(event, &time) == RONDO_OK);
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("streams and events: eight threads hammer six streams and four events; nothing is lost and nothing hangs") {
  const uint64_t first_seed = seed();
  constexpr int stream_count = 6;
  std::vector<ApiStream> streams(stream_count);
  std::vector<rondo_event_t> events;
  for (int i = 0; i < 4; ++i) events.push_back(make_event());
  std::atomic<int> enqueued = 0;
  std::atomic<int> ran = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(first_seed + t);
      for (int i = 0; i < 1'500; ++i) {
        ApiStream &stream = streams[random() % stream_count];
        const rondo_event_t event = events[random() % events.size()];
        rondo_status_t status = RONDO_OK;
        uint64_t time = 0;
        switch (random() % 8) {
          case 0: status = rondo_event_record(event, stream.handle); break;
          case 1: status = rondo_stream_wait_event(stream.handle, event); break;
          case 2: status = rondo_event_query(event); break;
          case 3: status = rondo_event_timestamp_ns(event, &time); break;
          case 4: status = random() % 16 == 0 ? rondo_stream_synchronize(stream.handle) : RONDO_OK; break;
          case 5: status = random() % 16 == 0 ? rondo_event_synchronize(event) : RONDO_OK; break;
          default:
            ++enqueued;
            status = stream.object->enqueue([&]() -> Result<void> {
                                     ++ran;
                                     return {};
                                   }).ok() ? RONDO_OK : RONDO_ERROR_INTERNAL;
        }
        if (status != RONDO_OK && status != RONDO_NOT_READY) ++wrong;
      }
    });
  for (auto &thread : threads) thread.join();
  for (ApiStream &stream : streams) CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
  for (rondo_event_t event : events) CHECK(rondo_event_destroy(event) == RONDO_OK);
  CHECK(wrong == 0);
  CHECK(ran == enqueued);
}

TEST_CASE("streams: eight threads make, use and destroy streams and events at once") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 30; ++i) {
        rondo_stream_t stream = nullptr;
        rondo_event_t event = nullptr;
        if (rondo_stream_create(&stream) != RONDO_OK || rondo_event_create(&event) != RONDO_OK) ++wrong;
        if (rondo_event_record(event, stream) != RONDO_OK) ++wrong;
        if (rondo_event_destroy(event) != RONDO_OK) ++wrong;
        if (rondo_stream_destroy(stream) != RONDO_OK) ++wrong;
        if (rondo_stream_query(stream) != RONDO_ERROR_INVALID_HANDLE) ++wrong;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(wrong == 0);
}
