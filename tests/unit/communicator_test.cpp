// SPDX-License-Identifier: Apache-2.0
// These tests run the communicator with an executor of their own. They cover operation numbers, spans of calls,
// refusals, failures and the end, which need only the interface of executors.
#include <functional>
#include <thread>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/registry.h"
#include "src/memory/segment_table.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/table_executor.h"

using namespace rondo;
using rondo_test::Table;
using rondo_test::TableExecutor;

namespace {

/// Ranks as threads, each with a communicator over a TableExecutor.
class World {
 public:
  explicit World(uint32_t rank_count, const TableExecutor::Wishes &wishes = {})
      : table_(rank_count), seen(rank_count), comms(rank_count), group_(std::vector<uint32_t>(rank_count)) {
    group_.oversubscribed = true;
    settings_.timeout_ns = 60 * second_ns;
    auto stores = make_local_stores(rank_count);
    each([&](uint32_t rank) {
      ConnectArgs args{{rank, rank_count, settings_, group_, secret_, "world", now_ns() + 60 * second_ns}};
      args.permitted = permitted_ranks(args);
      auto transport = connect_ranks(args, *stores[rank], segments_);
      if (!transport.ok()) return;
      comms[rank] = std::make_shared<Communicator>(Communicator::Parts{
          rank, rank_count, settings_, group_, std::move(transport).value(),
          std::make_shared<TableExecutor>(table_, wishes, seen[rank]), &regions_});
    });
    for (const auto &comm : comms) REQUIRE(comm != nullptr);
  }
  ~World() {
    each([&](uint32_t rank) {
      if (comms[rank] != nullptr) comms[rank]->close();
    });
  }

  void each(const std::function<void(uint32_t)> &body) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < comms.size(); ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread &thread : threads) thread.join();
  }

 private:
  SegmentTable segments_;
  RegionTable regions_;
  Secret secret_ = random_secret();
  Settings settings_;
  Table table_;

 public:
  std::vector<TableExecutor::Seen> seen;
  std::vector<std::shared_ptr<Communicator>> comms;

 private:
  GroupInfo group_;
};

Call sum_of(const std::vector<int32_t> &from, std::vector<int32_t> &to) {
  Call call;
  call.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, from.size(), 0};
  call.send = from.data();
  call.recv = to.data();
  call.in_place = from.data() == to.data();
  return call;
}

}  // namespace

TEST_CASE("communicator: the calls of a span get numbers that follow each other, and run in their order") {
  World world(3);
  std::vector<std::vector<int32_t>> last(3, std::vector<int32_t>(5));
  world.each([&](uint32_t rank) {
    std::vector<int32_t> ones(5, 1), threes(5), nines(5);
    const std::vector<Call> calls{sum_of(ones, threes), sum_of(threes, nines), sum_of(nines, last[rank])};
    if (!world.comms[rank]->submit(calls, {}).ok()) return;
    last[rank].push_back(world.comms[rank]->submit(sum_of(ones, ones), {}).ok() ? 1 : 0);
  });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(last[rank] == std::vector<int32_t>{27, 27, 27, 27, 27, 1});
    CHECK(world.seen[rank].numbers == std::vector<uint64_t>{1, 2, 3, 4});
    CHECK(world.seen[rank].prepared_count == 2);  // one plan out of place, and one in place
  }
}

TEST_CASE("communicator: a span of which one call is refused takes no number and runs nothing") {
  TableExecutor::Wishes wishes;
  wishes.refused_count = 13;
  World world(2, wishes);
  std::vector<std::vector<int32_t>> values(2, std::vector<int32_t>(4, 1));
  std::vector<Result<void>> refused(2), none(2), taken(2);
  world.each([&](uint32_t rank) {
    std::vector<int32_t> unlucky(13);
    const std::vector<Call> calls{sum_of(values[rank], values[rank]), sum_of(unlucky, unlucky)};
    refused[rank] = world.comms[rank]->submit(calls, {});
    none[rank] = world.comms[rank]->submit(std::span<const Call>(), {});
    taken[rank] = world.comms[rank]->submit(sum_of(values[rank], values[rank]), {});
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE_FALSE(refused[rank].ok());
    CHECK(refused[rank].error().status == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(none[rank].ok());
    CHECK(taken[rank].ok());
    CHECK(world.seen[rank].numbers == std::vector<uint64_t>{1});
    CHECK(values[rank] == std::vector<int32_t>(4, 2));
    CHECK_FALSE(world.comms[rank]->failure().has_value());
  }
}

TEST_CASE("communicator: a call that has its number and cannot be enqueued fails all ranks, and names the operation") {
  TableExecutor::Wishes wishes;
  wishes.failing_number = 2;
  World world(2, wishes);
  std::vector<Result<void>> second(2), third(2);
  world.each([&](uint32_t rank) {
    std::vector<int32_t> values(4, 1);
    static_cast<void>(world.comms[rank]->submit(sum_of(values, values), {}));
    second[rank] = world.comms[rank]->submit(sum_of(values, values), {});
    third[rank] = world.comms[rank]->submit(sum_of(values, values), {});
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    REQUIRE_FALSE(second[rank].ok());
    CHECK(second[rank].error().operation == 2);
    CHECK(second[rank].error().message.find("could not be enqueued: the table is full") != std::string::npos);
    REQUIRE_FALSE(third[rank].ok());
    CHECK(third[rank].error().status == RONDO_ERROR_COMM_FAILED);
    CHECK(world.seen[rank].numbers.size() <= 2);  // one rank may have got the error before its second call
  }
}

TEST_CASE("communicator: buffers and streams are the executor's to judge") {
  for (const bool checks : {false, true}) {
    TableExecutor::Wishes wishes;
    wishes.checks_buffers = checks;
    World world(1, wishes);
    int32_t value = 0;
    CHECK(world.comms[0]->check_buffer("send", &value, sizeof value).ok() != checks);
    CHECK(world.seen[0].buffers_checked == (checks ? 1 : 0));
    const auto refused = world.comms[0]->submit(Call{}, {nullptr, &value});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message == "a table has no streams");
    CHECK(world.seen[0].numbers.empty());
  }
}

TEST_CASE("communicator: finalize is a barrier, and the executor ends once, after what it runs or with it") {
  for (const bool lives_on : {false, true}) {
    TableExecutor::Wishes wishes;
    wishes.lives_on = lives_on;
    World world(2, wishes);
    std::vector<Result<void>> ended(2);
    world.each([&](uint32_t rank) {
      ended[rank] = world.comms[rank]->finalize();
      world.comms[rank]->close();
    });
    for (uint32_t rank = 0; rank < 2; ++rank) {
      CHECK(ended[rank].ok());
      CHECK(world.seen[rank].numbers == std::vector<uint64_t>{1});
      CHECK(world.seen[rank].quiesced);
      CHECK(world.seen[rank].ends == 1);
      CHECK(world.seen[rank].lived_on == lives_on);
    }
  }
}
