// SPDX-License-Identifier: Apache-2.0
// These tests use host streams through the C functions, and enqueue tasks directly. event_test.cpp covers events.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/api/boundary.h"
#include "src/base/clock.h"
#include "src/engine/host_stream.h"
#include "tests/catch.h"
#include "tests/unit/stream_tools.h"

using namespace rondo;

namespace {

Task failing(rondo_status_t status, std::string message) {
  return Task([error = Error{status, std::move(message)}]() -> Result<void> { return error; });
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
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_TIMEOUT, "the first failure, in more than a few words")).ok());
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_REMOTE, "the second")).ok());
  REQUIRE(stream.object->enqueue([&]() -> Result<void> {
    ++ran;
    return {};
  }).ok());
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_ERROR_TIMEOUT);
  CHECK(last_error().message == "the first failure, in more than a few words");
  CHECK(ran == 1);
  CHECK(rondo_stream_synchronize(stream.handle) == RONDO_OK);
  REQUIRE(stream.object->enqueue(failing(RONDO_ERROR_ABORTED, "the third")).ok());
  CHECK(rondo_stream_destroy(stream.handle) == RONDO_ERROR_ABORTED);
}

TEST_CASE("stream: a task that throws has failed, and the stream goes on") {
  const auto stream = make_stream();
  REQUIRE(stream->enqueue([]() -> Result<void> { throw std::bad_alloc(); }).ok());
  const auto first = stream->synchronize();
  REQUIRE_FALSE(first.ok());
  CHECK(first.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  REQUIRE(stream->enqueue([]() -> Result<void> { throw std::runtime_error("a defect"); }).ok());
  const auto second = stream->synchronize();
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().status == RONDO_ERROR_INTERNAL);
  REQUIRE(stream->enqueue([]() -> Result<void> { return {}; }).ok());
  CHECK(stream->synchronize().ok());
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

TEST_CASE("stream: destroy runs what is enqueued, sends away threads that wait for a place, and ends the handle") {
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
  waiter.join();  // returns although the gate is closed and no task has run
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

TEST_CASE("stream: what a task has captured is gone before the task counts as done") {
  const auto stream = make_stream(0);
  std::atomic<bool> was_done = false;
  // The stream is idle when its only task counts as done.
  const auto note = [&](void *) { was_done = was_done || stream->idle(); };
  auto held = std::shared_ptr<void>(&was_done, note);
  REQUIRE(stream->enqueue([held = std::move(held)]() -> Result<void> { return {}; }).ok());
  CHECK(stream->close().ok());
  CHECK_FALSE(was_done);
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
