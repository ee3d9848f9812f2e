// SPDX-License-Identifier: Apache-2.0
// These tests cover handle tables, the last error of a thread, and the calls that a child of fork() may make.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/api/boundary.h"
#include "src/core/handle_table.h"
#include "src/core/process.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

struct Thing {
  explicit Thing(int n) : number(n) {}
  int number;
};

using Table = HandleTable<Thing>;

}  // namespace

TEST_CASE("handle table: finds what was inserted until it is removed, and never afterwards") {
  Table table(HandleKind::stream);
  void *handle = table.insert(std::make_shared<Thing>(7));
  REQUIRE(handle != nullptr);
  REQUIRE(table.find(handle) != nullptr);
  CHECK(table.find(handle)->number == 7);
  CHECK(table.live_count() == 1);
  CHECK((table.all().size() == 1 && table.all()[0]->number == 7));

  const auto removed = table.remove(handle);
  REQUIRE(removed != nullptr);
  CHECK(removed->number == 7);
  CHECK(table.find(handle) == nullptr);
  CHECK(table.remove(handle) == nullptr);
  CHECK(table.live_count() == 0);
}

TEST_CASE("handle table: a reused slot does not answer to the handles that it had before") {
  Table table(HandleKind::stream);
  std::set<void *> ended;
  for (int i = 0; i < 200; ++i) {
    void *handle = table.insert(std::make_shared<Thing>(i));
    CHECK(ended.count(handle) == 0);
    for (void *old : ended) CHECK(table.find(old) == nullptr);
    REQUIRE(table.remove(handle) != nullptr);
    ended.insert(handle);
  }
}

TEST_CASE("handle table: a reserved handle has no object before it is filled, and is given up by a release") {
  Table table(HandleKind::stream);
  void *const filled = table.reserve(), *const released = table.reserve();
  REQUIRE((filled != nullptr && released != nullptr && filled != released));
  CHECK(table.find(filled) == nullptr);
  CHECK(table.remove(filled) == nullptr);
  table.fill(filled, std::make_shared<Thing>(7));
  REQUIRE(table.find(filled) != nullptr);
  CHECK(table.find(filled)->number == 7);
  table.release(released);
  std::set<void *> later;  // the slot is used again, under another handle
  for (int at = 0; at < 32; ++at) later.insert(table.insert(std::make_shared<Thing>(at)));
  CHECK(later.size() == 32);
  CHECK(!later.contains(released));
  CHECK(table.find(released) == nullptr);
  CHECK(table.remove(filled)->number == 7);
  CHECK(table.find(filled) == nullptr);
}

TEST_CASE("handle table: null, addresses, CUDA's special streams and other kinds' handles are not found") {
  Table streams(HandleKind::stream);
  Table events(HandleKind::event);
  void *stream = streams.insert(std::make_shared<Thing>(1));
  void *event = events.insert(std::make_shared<Thing>(2));
  int local = 0;
  const auto on_heap = std::make_unique<int>(0);
  for (void *foreign : {static_cast<void *>(nullptr), static_cast<void *>(&local), static_cast<void *>(on_heap.get()),
                        reinterpret_cast<void *>(1), reinterpret_cast<void *>(2),
                        reinterpret_cast<void *>(UINTPTR_MAX), event}) {
    CHECK(streams.find(foreign) == nullptr);
    CHECK(streams.remove(foreign) == nullptr);
  }
  CHECK(events.find(stream) == nullptr);
  CHECK(streams.find(stream)->number == 1);
  CHECK(invalid_handle(HandleKind::stream, event).message.find("event") != std::string::npos);
  CHECK(invalid_handle(HandleKind::stream, nullptr).message.find("NULL") != std::string::npos);
  CHECK(invalid_handle(HandleKind::stream, &local).message.find("rondo_stream_create") != std::string::npos);
}

TEST_CASE("handle table: every bit of a handle counts") {
  Table table(HandleKind::event);
  void *handle = table.insert(std::make_shared<Thing>(1));
  for (int bit = 0; bit < 64; ++bit) {
    CAPTURE(bit);
    CHECK(table.find(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(handle) ^ (uintptr_t{1} << bit))) == nullptr);
  }
}

TEST_CASE("handle table: holds 65,536 and refuses one more until one is removed") {
  Table table(HandleKind::registration);
  const auto thing = std::make_shared<Thing>(0);
  std::vector<void *> handles;
  for (uint32_t i = 0; i < handle_slot_count; ++i) handles.push_back(table.insert(thing));
  CHECK(std::set<void *>(handles.begin(), handles.end()).size() == handle_slot_count);
  CHECK(std::set<void *>(handles.begin(), handles.end()).count(nullptr) == 0);
  CHECK(table.insert(thing) == nullptr);
  CHECK(table.remove(handles[40'000]) != nullptr);
  void *again = table.insert(thing);
  CHECK(again != nullptr);
  CHECK(again != handles[40'000]);
  CHECK(table.insert(thing) == nullptr);
}

TEST_CASE("handle table: a generation at its end is followed by the first, and handles stay distinct and not null") {
  Table table(HandleKind::stream, handle_generation_max - 1);
  void *before = nullptr;
  for (int i = 0; i < 16 * 4; ++i) {  // the generations max - 1, max, 1 and 2 in each of the 16 shards
    void *handle = table.insert(std::make_shared<Thing>(i));
    REQUIRE(handle != nullptr);
    CHECK(handle != before);
    CHECK(decode_handle(handle)->generation >= 1);
    CHECK(table.find(handle)->number == i);
    CHECK(table.remove(handle)->number == i);
    CHECK(table.find(handle) == nullptr);
    before = handle;
  }
}

TEST_CASE("handle table: eight threads insert, find and remove; nobody sees another's object or a removed one") {
  Table table(HandleKind::stream);
  std::atomic<int> wrong = 0;
  std::atomic<void *> shared = nullptr;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2'000; ++i) {
        const int number = t * 10'000 + i;
        void *handle = table.insert(std::make_shared<Thing>(number));
        shared.store(handle);
        if (const auto found = table.find(handle); !found || found->number != number) ++wrong;
        if (const auto other = table.find(shared.load())) static_cast<void>(other->number);
        if (const auto removed = table.remove(handle); !removed || removed->number != number) ++wrong;
        if (table.find(handle) != nullptr) ++wrong;
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(table.live_count() == 0);
}

TEST_CASE("handle table: of eight threads that remove one handle, one gets the object") {
  Table table(HandleKind::stream);
  for (int round = 0; round < 100; ++round) {
    void *handle = table.insert(std::make_shared<Thing>(round));
    std::atomic<int> got = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] { got += table.remove(handle) != nullptr ? 1 : 0; });
    for (auto &thread : threads) thread.join();
    CHECK(got == 1);
  }
}

TEST_CASE("last error: each thread has its own, and a success leaves it") {
  CHECK(fail({RONDO_ERROR_REMOTE, "rank 3 died", 1, 3, 9}) == RONDO_ERROR_REMOTE);
  rondo_status_t others[2] = {RONDO_ERROR_INTERNAL, RONDO_ERROR_INTERNAL};
  std::thread([&] {
    others[0] = last_error().status;
    others[1] = fail({RONDO_ERROR_TIMEOUT, "late"});
  }).join();
  CHECK(others[0] == RONDO_OK);
  CHECK(others[1] == RONDO_ERROR_TIMEOUT);
  CHECK(to_status(Result<void>()) == RONDO_OK);
  CHECK(to_status(Result<int>(3)) == RONDO_OK);
  CHECK(last_error().status == RONDO_ERROR_REMOTE);
  CHECK(last_error().message == "rank 3 died");
  CHECK(last_error().rank == 1);
  CHECK(last_error().peer == 3);
  CHECK(last_error().operation == 9);
  CHECK(to_status(Result<int>(Error{RONDO_ERROR_ABORTED, "stop"})) == RONDO_ERROR_ABORTED);
  CHECK(last_error().message == "stop");
  CHECK(last_error().rank == -1);
}

TEST_CASE("fork: a child's calls are refused with the reason, the parent's go on") {
  rondo_event_t event = nullptr;
  REQUIRE(rondo_event_create(&event) == RONDO_OK);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rondo_event_t made = nullptr;
    const bool refused = rondo_event_query(event) == RONDO_ERROR_UNSUPPORTED &&
                         rondo_event_create(&made) == RONDO_ERROR_UNSUPPORTED && made == nullptr &&
                         last_error().message.find("fork") != std::string::npos;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(rondo_event_query(event) == RONDO_OK);
  CHECK(rondo_event_destroy(event) == RONDO_OK);
}
