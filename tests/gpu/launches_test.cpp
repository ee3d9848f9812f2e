// SPDX-License-Identifier: Apache-2.0
// These tests check what a call on a device waits for before it is enqueued. A process opens and closes peers' memory
// only while it has nothing in flight, so a call may wait as long as the work on a device takes.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>

#include "src/base/clock.h"
#include "src/bootstrap/store/store.h"
#include "src/core/registry.h"
#include "src/engine/device_executor.h"
#include "src/engine/operations.h"
#include "src/memory/segment_table.h"
#include "tests/catch.h"
#include "tests/gpu/fake_device.h"
#include "tests/seconds.h"

using namespace rondo;
using rondo::cuda::RegionFollower;
using rondo::cuda::RegionRound;
using rondo_test::FakeDevice;
using rondo_test::NoExporter;

namespace {

constexpr uint64_t short_ns = 200'000'000, long_ns = 60 * second_ns;

/// A communicator of one rank, whose calls are launched on `device`.
struct Rank {
  explicit Rank(uint64_t timeout_ns) {
    settings.timeout_ns = timeout_ns;
    auto stores = make_local_stores(1);
    const ConnectArgs args{{0, 1, settings, group, secret, "group", now_ns() + long_ns}};
    transport = connect_ranks(args, *stores[0], segments).value();
    operations = std::make_unique<Operations>(
        Operations::Parts{&transport->ranks(), &registrations, 0, 1, timeout_ns,
                          []() -> std::shared_ptr<const void> { return nullptr; }, [](bool) {}});
    device->start(*operations);
  }
  ~Rank() {
    if (device == nullptr) return;
    const bool ended = device->quiesce();
    CHECK(ended);
    device->end();
    if (!ended) device->live_on(device);
  }

  [[nodiscard]] Result<void> call() {
    OperationKey key;
    key.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, 1, 0};
    plan = build_plan(key, {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 1024}, {4, 4096, 64}, 0, 1).value();
    WorkItem work;
    work.plan = plan.get();
    work.turn = work.number = ++number;
    return device->enqueue({&work, 1}, {});
  }

  SegmentTable segments;
  Secret secret = random_secret();
  Settings settings;
  GroupInfo group{std::vector<uint32_t>(1)};
  NoExporter registrations;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Operations> operations;
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::unique_ptr<Plan> plan;
  uint64_t number = 0;
};

/// A driver that waits for a device until go_on(). It gives up after a minute, so that the test does not hang.
class StuckDriver {
 public:
  ~StuckDriver() { go_on(); }
  void wait() {
    ++waiting_count;
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return goes_on_; })) gave_up = true;
    --waiting_count;
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }
  std::atomic<int> waiting_count = 0;
  std::atomic<bool> gave_up = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool goes_on_ = false;
};

/// Waits until `ready()`, at most `long_ns`. Returns the last result of `ready()`. Any thread may call this function.
template <class Ready>
[[nodiscard]] bool comes_true(const Ready &ready) {
  for (const uint64_t end_ns = now_ns() + long_ns; !ready() && now_ns() < end_ns;) sleep_for_ns(1'000'000);
  return ready();
}

/// Begins another communicator's quiet moment, which lasts while `driver` waits. The result says whether it began.
std::future<bool> begin_quiet_moment(StuckDriver &driver) {
  auto moment = std::async(std::launch::async, [&driver] {
    const auto quiet = Launches::of_process().try_quiet();
    driver.wait();
    return quiet.owns_lock();
  });
  REQUIRE(comes_true([&] { return driver.waiting_count == 1; }));
  return moment;
}

/// Checks that a call fails with `status` while `driver` still waits, and that the next call reports the failure.
void check_stuck(Rank &rank, const StuckDriver &driver, rondo_status_t status) {
  const uint64_t begun_ns = now_ns();
  const auto stuck = rank.call();
  CHECK_FALSE(driver.gave_up);
  REQUIRE_FALSE(stuck.ok());
  CHECK(stuck.error().status == status);
  CHECK(rank.device->launched_number == 0);
  if (status == RONDO_ERROR_TIMEOUT) {
    CHECK(now_ns() - begun_ns >= short_ns);
    CHECK(stuck.error().rank == 0);
    CHECK(stuck.error().operation == 1);
    CHECK(stuck.error().message.find("rank 0 waited longer than its timeout of 0.2 s") != std::string::npos);
    CHECK(stuck.error().message.find("opened or closed memory") != std::string::npos);
    CHECK(stuck.error().message.find("a device of the test") != std::string::npos);
  }
  const auto next = rank.call();
  REQUIRE_FALSE(next.ok());
  CHECK(next.error().status == RONDO_ERROR_COMM_FAILED);
}

/// Waits until `rank` has made a call, and aborts the communicator during it. The result says whether a call came.
std::future<bool> abort_later(Rank &rank) {
  return std::async(std::launch::async, [&rank] {
    const bool came = comes_true([&] { return rank.operations->ranks().latest_operation(0) == 1; });
    sleep_for_ns(50'000'000);
    rank.operations->raise({RONDO_ERROR_ABORTED, "as the test wants"}, 1);
    return came;
  });
}

/// Runs check_stuck() with a communicator that is aborted, or whose call times out.
void check_stuck_or_aborted(Rank &rank, const StuckDriver &driver, bool aborted) {
  if (!aborted) return check_stuck(rank, driver, RONDO_ERROR_TIMEOUT);
  auto failing = abort_later(rank);
  check_stuck(rank, driver, RONDO_ERROR_ABORTED);
  CHECK(failing.get());
}

}  // namespace

TEST_CASE("launches: a process is quiet while no call is enqueued or in flight, also of a communicator that is gone") {
  const auto is_quiet = [] {  // on another thread, since this one may hold the launches
    return std::async(std::launch::async, [] { return Launches::of_process().try_quiet().owns_lock(); }).get();
  };
  Rank rank(long_ns);
  const auto device = rank.device;
  CHECK(is_quiet());
  {
    EnqueueWait wait(*device, *rank.operations, 1);
    const auto held = Launches::of_process().hold(wait);
    CHECK(held.owns_lock());
    CHECK_FALSE(is_quiet());
  }
  device->busy = true;
  CHECK_FALSE(is_quiet());
  device->lost = true;  // the work in flight will never end
  CHECK(is_quiet());
  device->lost = false;
  CHECK_FALSE(device->quiesce());
  device->end();
  device->live_on(device);
  CHECK_FALSE(is_quiet());
  device->busy = false;
  CHECK(comes_true(is_quiet));
  rank.device.reset();
}

TEST_CASE("launches: a call waits for the end of another communicator's quiet moment, and is enqueued then") {
  Rank rank(long_ns);
  StuckDriver driver;
  auto other = begin_quiet_moment(driver);
  auto called = std::async(std::launch::async, [&] { return rank.call(); });
  CHECK(called.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  CHECK(rank.device->launched_number == 0);
  driver.go_on();
  CHECK(called.get().ok());
  CHECK(rank.device->launched_number == 1);
  CHECK(other.get());
}

TEST_CASE("launches: a quiet moment that does not end holds a call up until its timeout or a failure, and no longer") {
  for (const bool aborted : {false, true}) {
    CAPTURE(aborted);
    Rank rank(aborted ? long_ns : short_ns);
    StuckDriver driver;
    auto other = begin_quiet_moment(driver);
    check_stuck_or_aborted(rank, driver, aborted);
    driver.go_on();
    CHECK(other.get());
  }
}

TEST_CASE("launches: a call whose follower waits for the device returns at its timeout or at a failure") {
  for (const bool aborted : {false, true}) {
    CAPTURE(aborted);
    StuckDriver driver;
    std::atomic<int> rounds = 0;
    Rank rank(aborted ? long_ns : short_ns);
    rank.device->follower = RegionFollower::start([&](RegionRound) { driver.wait(), ++rounds; }).value();
    rank.device->has_news = true;  // only the call reads this, not the monitor
    check_stuck_or_aborted(rank, driver, aborted);
    // This is the round that the call has requested. On a busy machine, the call may end before the round begins.
    REQUIRE(comes_true([&] { return driver.waiting_count == 1; }));
    auto releasing = std::async(std::launch::async, [&] {
      sleep_for_ns(50'000'000);
      driver.go_on();
    });
    rank.device->follower.reset();  // waits for the thread's round, so the objects that it uses may be destroyed
    CHECK(driver.waiting_count == 0);
    CHECK(rounds >= 1);
  }
}

TEST_CASE("launches: a follower that waits for the device holds the end of its communicator up for a while alone") {
  for (const RegionRound stuck : {RegionRound::follow, RegionRound::leave}) {  // while opening or closing
    CAPTURE(static_cast<int>(stuck));
    StuckDriver driver;
    std::atomic<int> left_count = 0;
    Rank rank(long_ns);
    auto &follower = rank.device->follower;
    follower = RegionFollower::start([&](RegionRound round) {
                 if (round == stuck) driver.wait();
                 if (round == RegionRound::leave) ++left_count;
               }).value();
    if (stuck == RegionRound::follow) {
      follower->wake();
      REQUIRE(comes_true([&] { return driver.waiting_count == 1; }));
    }
    rank.device->follower_patience_ns = 50'000'000;
    CHECK_FALSE(rank.device->quiesce());
    rank.device->end();
    rank.device->live_on(rank.device);
    const std::weak_ptr<FakeDevice> left = rank.device;
    rank.device.reset();
    CHECK_FALSE(driver.gave_up);
    sleep_for_ns(short_ns);
    CHECK_FALSE(left.expired());  // the follower's thread still uses this object
    CHECK(left_count == 0);
    driver.go_on();
    CHECK(comes_true([&] { return left.expired(); }));
    CHECK(driver.waiting_count == 0);
    CHECK(left_count == 1);
  }
}

TEST_CASE("launches: a follower that is to leave tries so when it is woken, and does so at its end, once") {
  std::atomic<int> tries = 0, left_count = 0;
  const auto follower = RegionFollower::start([&](RegionRound round) {
                          if (round == RegionRound::leave_if_quiet) ++tries;
                          if (round == RegionRound::leave) ++left_count;
                        }).value();
  follower->wake(RegionRound::leave_if_quiet);
  CHECK(comes_true([&] { return tries == 1; }));
  follower->wake();
  CHECK(comes_true([&] { return tries == 2; }));
  CHECK(left_count == 0);
  CHECK(follower->end(now_ns() + long_ns));
  CHECK(follower->end(0));
  CHECK(left_count == 1);
}

TEST_CASE("launches: a call waits for a round that begins after it has asked, not for one that has begun before") {
  StuckDriver driver;
  std::atomic<int> begun = 0;
  Rank rank(long_ns);
  rank.device->follower = RegionFollower::start([&](RegionRound) {
                            if (++begun == 1) driver.wait();
                          }).value();
  rank.device->has_news = true;
  rank.device->follower->wake();
  REQUIRE(comes_true([&] { return driver.waiting_count == 1; }));
  auto called = std::async(std::launch::async, [&] { return rank.call(); });
  CHECK(called.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  driver.go_on();
  CHECK(called.get().ok());
  CHECK(begun == 2);
  CHECK(rank.device->launched_number == 1);
}

TEST_CASE("launches: a call waits for no follower without news, nor while something is in flight") {
  StuckDriver driver;
  Rank rank(long_ns);
  rank.device->follower = RegionFollower::start([&](RegionRound) { driver.wait(); }).value();
  CHECK(rank.call().ok());
  rank.device->has_news = rank.device->busy = true;
  CHECK(rank.call().ok());
  CHECK(driver.waiting_count == 0);
  rank.device->busy = false;
  auto called = std::async(std::launch::async, [&] { return rank.call(); });
  CHECK(called.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  CHECK(rank.device->launched_number == 2);
  driver.go_on();
  CHECK(called.get().ok());
}

TEST_CASE("launches: the time of a call that waits begins anew with each replay that begins") {
  Rank rank(short_ns);
  EnqueueWait wait(*rank.device, *rank.operations, 1);
  CHECK_FALSE(wait.is_over());
  for (int replay = 0; replay < 2; ++replay) {
    sleep_for_ns(short_ns);
    ++rank.device->replay_count;
    CHECK_FALSE(wait.is_over());
  }
  sleep_for_ns(short_ns);
  CHECK(wait.is_over());
}
