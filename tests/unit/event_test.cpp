// SPDX-License-Identifier: Apache-2.0
// These tests cover events of host streams: order across streams, a second record, lifetime, and many threads at once.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/core/host_event.h"
#include "src/engine/host_stream.h"
#include "src/core/process.h"
#include "tests/catch.h"
#include "tests/seeds.h"
#include "tests/unit/stream_tools.h"

using namespace rondo;

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

TEST_CASE("event: its wait returns the failure that the stream had at the record, and no later one") {
  ApiStream stream;
  const rondo_event_t before = make_event();
  const rondo_event_t after = make_event();
  REQUIRE(rondo_event_record(before, stream.handle) == RONDO_OK);
  REQUIRE(stream.object->enqueue([]() -> Result<void> { return Error{RONDO_ERROR_MISMATCH, "no"}; }).ok());
  REQUIRE(rondo_event_record(after, stream.handle) == RONDO_OK);
  CHECK(rondo_event_synchronize(after) == RONDO_ERROR_MISMATCH);
  CHECK(rondo_event_synchronize(before) == RONDO_OK);
  CHECK(rondo_event_query(after) == RONDO_OK);
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_ERROR_MISMATCH);
  CHECK(rondo_event_synchronize(after) == RONDO_ERROR_MISMATCH);
  REQUIRE(rondo_event_record(after, stream.handle) == RONDO_OK);
  CHECK(rondo_event_synchronize(after) == RONDO_OK);
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_OK);
  CHECK(rondo_event_destroy(before) == RONDO_OK);
  CHECK(rondo_event_destroy(after) == RONDO_OK);
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

TEST_CASE("event: a wait is for the record that was the latest at the time of the call") {
  ApiStream slow;
  ApiStream quick;
  ApiStream waiting;
  const rondo_event_t event = make_event();
  Gate gate;
  REQUIRE(slow.object->enqueue(hold_by(gate)).ok());
  REQUIRE(rondo_event_record(event, slow.handle) == RONDO_OK);
  REQUIRE(rondo_stream_wait_event(waiting.handle, event) == RONDO_OK);  // waits for the record on `slow`
  REQUIRE(rondo_event_record(event, quick.handle) == RONDO_OK);
  CHECK(rondo_stream_synchronize(quick.handle) == RONDO_OK);
  // The newer record is done. The older record still blocks `waiting`, but blocks no wait that begins now.
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

TEST_CASE("event: a record that waits for a place in its stream does not count yet, so nobody waits for it in vain") {
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
  const uint64_t first_seed = rondo_test::seed_from_environment();
  INFO("RONDO_SEED=" << first_seed);
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
