// SPDX-License-Identifier: Apache-2.0
// These tests share a thread among objects that are made and destroyed. ThreadSanitizer checks the order of accesses.
#include "src/base/shared_thread.h"

#include <atomic>
#include <memory>
#include <thread>

#include "tests/catch.h"

using namespace rondo;

namespace {

class Sharer final : public ThreadSharer {
 public:
  /// Makes a sharer. If it is busy, it is idle once in `turns_of_round` turns.
  Sharer(SharedThread &thread, bool busy, uint64_t turns_of_round = 7)
      : thread_(thread), busy_(busy), turns_of_round_(turns_of_round) {
    thread_.add(*this);
  }
  ~Sharer() override { thread_.remove(*this); }
  Sharer(const Sharer &) = delete;
  Sharer &operator=(const Sharer &) = delete;

  bool work_once() override {
    ++work_;
    turns_.fetch_add(1, std::memory_order_release);  // pairs with wait_for_turn()
    return busy_ && work_ % turns_of_round_ != 0;
  }
  void wait_for_turn() {
    const uint32_t before = turns_.load(std::memory_order_acquire);
    thread_.wake();
    while (turns_.load(std::memory_order_acquire) == before) std::this_thread::yield();  // bounded by the test's limit
  }

 private:
  SharedThread &thread_;
  const bool busy_;
  const uint64_t turns_of_round_;
  uint64_t work_ = 0;  ///< only the thread uses it
  std::atomic<uint32_t> turns_ = 0;
};

/// Has a turn that lasts until the test ends it.
class Slow final : public ThreadSharer {
 public:
  bool work_once() override {
    begun = true;
    while (!may_end) std::this_thread::yield();  // bounded by the test's limit
    return false;
  }
  std::atomic<bool> begun = false, may_end = false;
};

}  // namespace

TEST_CASE("shared thread: a sharer that is removed takes no turn from another one") {
  SharedThread shared(std::chrono::microseconds(200), std::chrono::hours(1));
  auto first = std::make_unique<Sharer>(shared, false);
  Slow slow;
  shared.add(slow);
  Sharer last(shared, false);
  std::thread woken([&] { last.wait_for_turn(); });  // the test hangs if `last` has no turn
  while (!slow.begun) std::this_thread::yield();
  first.reset();  // while the second object has its turn
  slow.may_end = true;
  woken.join();
  shared.remove(slow);
}

TEST_CASE("shared thread: a thread that is busy is woken without a notification") {
  SharedThread shared(std::chrono::microseconds(200), std::chrono::hours(1));
  Sharer busy(shared, true, UINT64_MAX);
  for (int wake = 0; wake < 1000; ++wake) shared.wake();
  busy.wait_for_turn();
  CHECK(shared.notification_count() == 0);
}

TEST_CASE("shared thread: each sharer has its turn when it is woken, and none when it is gone") {
  // With an idle interval of an hour, the test hangs if a wake is lost.
  SharedThread shared(std::chrono::microseconds(200), std::chrono::hours(1));
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user)
    users.emplace_back([&shared, user] {
      for (int round = 0; round < 200; ++round) {
        Sharer first(shared, (user + round) % 3 == 0);
        if (round % 2 == 0) first.wait_for_turn();
        if (round % 5 != 0) continue;
        Sharer second(shared, false);
        second.wait_for_turn();
      }
    });
  for (std::thread &user : users) user.join();
  SUCCEED();
}
