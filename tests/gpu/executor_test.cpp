// SPDX-License-Identifier: Apache-2.0
// One suite runs on every executor: on the host, by kernels, by copies, and an executor that only tests have. Each
// executor must keep the promises of src/engine/executor.h. Ranks are threads, without a communicator.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/executors/cuda_executor.h"
#include "src/bootstrap/store/store.h"
#include "src/core/registry.h"
#include "src/engine/host_stream.h"
#include "src/engine/operations.h"
#include "src/memory/segment_table.h"
#include "tests/catch.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/settings.h"
#include "tests/seconds.h"
#include "tests/table_executor.h"

using namespace rondo;
using rondo_test::DeviceBuffer;
using rondo_test::NoExporter;
using rondo_test::Table;
using rondo_test::TableExecutor;

namespace {

enum class Kind { host, kernel, copy, table };
constexpr Kind kinds[] = {Kind::host, Kind::kernel, Kind::copy, Kind::table};
constexpr const char *names[] = {"host", "kernel", "copy", "table"};

constexpr uint32_t rank_count = 3;
constexpr size_t element_count = 3000;

/// The buffers and streams of one kind of executor, in the memory that this kind uses.
class Place {
 public:
  explicit Place(Kind kind)
      : on_device_(kind == Kind::kernel || kind == Kind::copy), has_streams_(kind != Kind::table) {
    if (on_device_) world_ = std::make_unique<rondo_test::World>();
  }
  ~Place() { settle(); }

  [[nodiscard]] std::byte *put(std::vector<int32_t> values) {
    if (on_device_) {
      device_.push_back(std::make_unique<DeviceBuffer>(*world_, rondo_test::bytes_of(values)));
      return static_cast<std::byte *>(device_.back()->pointer());
    }
    host_.push_back(std::make_unique<std::vector<int32_t>>(std::move(values)));
    return reinterpret_cast<std::byte *>(host_.back()->data());
  }
  [[nodiscard]] std::vector<int32_t> get(const std::byte *pointer) const {
    for (const auto &buffer : device_)
      if (buffer->pointer() == pointer) return rondo_test::values_of<int32_t>(buffer->read());
    for (const auto &buffer : host_)
      if (reinterpret_cast<const std::byte *>(buffer->data()) == pointer) return *buffer;
    return {};
  }
  [[nodiscard]] StreamRef stream() {
    if (!has_streams_) return {};
    if (on_device_) {
      device_streams_.push_back(world_->another_stream());
      return {nullptr, device_streams_.back().get().object};
    }
    host_streams_.push_back(HostStream::create(0).value());
    return {host_streams_.back().get(), nullptr};
  }
  void settle() const {
    for (const auto &stream : device_streams_) CU_OK(world_->cu.stream_synchronize(stream.get().object));
    for (const auto &stream : host_streams_) static_cast<void>(stream->synchronize());
  }

 private:
  const bool on_device_, has_streams_;
  std::unique_ptr<rondo_test::World> world_;
  std::vector<std::unique_ptr<DeviceBuffer>> device_;
  std::vector<std::unique_ptr<std::vector<int32_t>>> host_;
  std::vector<cuda::Stream> device_streams_;
  std::vector<std::shared_ptr<HostStream>> host_streams_;
};

struct Rank {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Operations> operations;
  std::shared_ptr<Executor> executor;
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<std::unique_ptr<PreparedPlan>> prepared;  // destroyed before the executor
  uint64_t number = 0, history = 0;
};

class RankGroup {
 public:
  explicit RankGroup(Kind kind, uint64_t timeout_ns = 60 * second_ns)
      : kind_(kind), table_(rank_count), seen_(rank_count), place(kind), ranks(rank_count) {
    settings_.timeout_ns = timeout_ns;
    group_.oversubscribed = true;
    if (kind == Kind::kernel || kind == Kind::copy) settings_.device = 0;
    settings_.device_executor = kind == Kind::copy ? RONDO_DEVICE_EXECUTOR_COPY : RONDO_DEVICE_EXECUTOR_KERNEL;
    settings_.cuda_library = read_config().value().cuda_library;
    auto stores = make_local_stores(rank_count);
    std::vector<Result<void>> outcomes(rank_count);
    each([&](uint32_t rank) { outcomes[rank] = connect(rank, *stores[rank]); });
    for (const Result<void> &outcome : outcomes) REQUIRE((outcome.ok() ? "" : outcome.error().message) == "");
  }
  ~RankGroup() {
    place.settle();
    for (Rank &rank : ranks) {
      if (rank.executor == nullptr) continue;
      CHECK(rank.executor->quiesce());
      rank.executor->end();
    }
  }

  void each(const std::function<void(uint32_t)> &body) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < rank_count; ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread &thread : threads) thread.join();
  }

  /// Returns the next operation of the rank: a sum of `element_count` elements.
  [[nodiscard]] WorkItem sum(uint32_t rank, const std::byte *send, std::byte *recv) {
    Rank &own = ranks[rank];
    OperationKey key;
    key.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, element_count, 0};
    key.in_place = send == recv;
    const PlanChoice choice{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 1024};
    own.plans.push_back(build_plan(key, choice, own.executor->capabilities().geometry, rank, rank_count).value());
    own.prepared.push_back(own.executor->prepare(*own.plans.back()).value());
    WorkItem work;
    work.plan = own.plans.back().get();
    work.prepared = own.prepared.back().get();
    work.send = send;
    work.recv = recv;
    work.turn = work.number = ++own.number;
    own.history = extend_history(own.history, work.plan->identity);
    work.history = fingerprint(own.history);
    return work;
  }

 private:
  Result<void> connect(uint32_t rank, Store &store) {
    Rank &own = ranks[rank];
    ConnectArgs args{{rank, rank_count, settings_, group_, secret_, "group", now_ns() + 60 * second_ns}};
    args.permitted = permitted_ranks(args);
    RONDO_TRY_ASSIGN(own.transport, connect_ranks(args, store, segments_));
    if (kind_ == Kind::table) {
      own.executor = std::make_shared<TableExecutor>(table_, TableExecutor::Wishes{}, seen_[rank]);
    } else {
      RONDO_TRY_ASSIGN(own.executor, connect_executor(args, store, own.transport->links()));
    }
    own.operations = std::make_unique<Operations>(Operations::Parts{
        &own.transport->ranks(), &registrations_, rank, rank_count, settings_.timeout_ns,
        []() -> std::shared_ptr<const void> { return nullptr; }, [](bool) {}});
    own.executor->start(*own.operations);
    return {};
  }

  const Kind kind_;
  SegmentTable segments_;
  Secret secret_ = random_secret();
  Settings settings_;
  GroupInfo group_{std::vector<uint32_t>(rank_count)};
  NoExporter registrations_;
  Table table_;
  std::vector<TableExecutor::Seen> seen_;

 public:
  Place place;  // outlives the ranks, and checks that they gave everything back
  std::vector<Rank> ranks;
};

std::vector<int32_t> all(int32_t value) { return std::vector<int32_t>(element_count, value); }

}  // namespace

TEST_CASE("executors: each says what it is, the same on all ranks") {
  for (const Kind kind : kinds) {
    CAPTURE(names[static_cast<int>(kind)]);
    RankGroup group(kind);
    for (const Rank &rank : group.ranks) {
      const ExecutorCapabilities own = rank.executor->capabilities();
      CHECK(own.geometry == group.ranks[0].executor->capabilities().geometry);
      CHECK(own.channel_count == group.ranks[0].executor->capabilities().channel_count);
      CHECK(own.channel_count >= 1);
      CHECK(own.geometry.slot_count >= 2);
      CHECK(own.barrier_send != own.barrier_recv);
      CHECK_FALSE(rank.executor->describe().empty());
      const bool on_device = kind == Kind::kernel || kind == Kind::copy;
      CHECK((own.kind != RONDO_DEVICE_EXECUTOR_AUTO) == on_device);
      CHECK(own.runs_in_call != on_device);
      CHECK(own.exports_memory == (kind == Kind::host));
      CHECK(own.connection_channels == (kind == Kind::kernel ? own.channel_count : 0));
    }
  }
}

TEST_CASE("executors: the work of a span runs in the order of its numbers, and every rank sees it done") {
  for (const Kind kind : kinds) {
    CAPTURE(names[static_cast<int>(kind)]);
    RankGroup group(kind);
    std::vector<std::byte *> last;
    std::vector<std::vector<WorkItem>> works(rank_count);
    std::vector<StreamRef> streams;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      std::byte *from = group.place.put(all(static_cast<int32_t>(rank)));
      for (int i = 0; i < 4; ++i) {  // each call needs the result of the call before
        std::byte *const to = i == 3 ? from : group.place.put(all(-1));
        works[rank].push_back(group.sum(rank, from, to));
        from = to;
      }
      last.push_back(from);
      streams.push_back(group.place.stream());
    }
    std::vector<Result<void>> enqueued(rank_count);
    group.each(
        [&](uint32_t rank) { enqueued[rank] = group.ranks[rank].executor->enqueue(works[rank], streams[rank]); });
    group.place.settle();
    for (const Rank &rank : group.ranks)
      CHECK(rank.operations->wait_for_predecessor(5));  // a monitor may be later than its stream
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      CHECK(enqueued[rank].ok());
      CHECK(group.ranks[rank].operations->executed() == 4);
      CHECK(group.place.get(last[rank]) == all(3 * 27));
      for (uint32_t peer = 0; peer < rank_count; ++peer) {
        CHECK(group.ranks[rank].operations->ranks().completed_operation(peer) == 4);
        const auto entered = group.ranks[rank].operations->ranks().entered(peer, 3);
        REQUIRE(entered.has_value());
        CHECK(*entered == Operations::info_of(works[rank][2]));
      }
    }
  }
}

TEST_CASE("executors: work on several streams keeps the order of its numbers") {
  for (const Kind kind : {Kind::host, Kind::kernel, Kind::copy}) {
    CAPTURE(names[static_cast<int>(kind)]);
    RankGroup group(kind);
    constexpr int call_count = 6;
    std::vector<std::byte *> values;
    std::vector<std::vector<WorkItem>> works(rank_count);
    std::vector<std::vector<StreamRef>> streams(rank_count);
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      values.push_back(group.place.put(all(rank == 0 ? 1 : 0)));
      for (int i = 0; i < call_count; ++i) works[rank].push_back(group.sum(rank, values[rank], values[rank]));
      for (int i = 0; i < 2; ++i) streams[rank].push_back(group.place.stream());
    }
    std::vector<uint32_t> refused(rank_count);
    group.each([&](uint32_t rank) {
      for (size_t i = 0; i < call_count; ++i)
        refused[rank] += !group.ranks[rank].executor->enqueue({&works[rank][i], 1}, streams[rank][i % 2]).ok();
    });
    group.place.settle();
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      CHECK(refused[rank] == 0);
      CHECK(group.ranks[rank].operations->wait_for_predecessor(call_count + 1));
      CHECK(group.place.get(values[rank]) == all(3 * 3 * 3 * 3 * 3));
    }
  }
}

TEST_CASE("executors: work that waits for a rank which never comes ends when the communicator fails") {
  for (const Kind kind : kinds) {
    if (rondo::test::skips_released_copies(kind == Kind::copy, "executors: a failure with copies")) continue;
    CAPTURE(names[static_cast<int>(kind)]);
    RankGroup group(kind);
    std::vector<WorkItem> works;
    std::vector<StreamRef> streams;
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      works.push_back(group.sum(rank, group.place.put(all(1)), group.place.put(all(0))));
      streams.push_back(group.place.stream());
    }
    std::vector<Result<void>> enqueued(rank_count);
    group.each([&](uint32_t rank) {
      if (rank != 2) {
        enqueued[rank] = group.ranks[rank].executor->enqueue({&works[rank], 1}, streams[rank]);
        return;
      }
      const uint64_t deadline_ns = now_ns() + 60 * second_ns;
      for (const uint32_t peer : {0u, 1u})
        while (group.ranks[2].operations->ranks().latest_operation(peer) == 0 && now_ns() < deadline_ns)
          sleep_for_ns(100'000);
      group.ranks[2].operations->raise({RONDO_ERROR_ABORTED, "as the test wants"}, 1);
    });
    group.place.settle();
    for (const uint32_t rank : {0u, 1u}) {
      if (!enqueued[rank].ok()) CHECK(enqueued[rank].error().status == RONDO_ERROR_ABORTED);
      CHECK(enqueued[rank].ok() == (kind != Kind::table));  // kind `table` has no stream, so the call itself waited
      CHECK(group.ranks[rank].executor->quiesce());
      CHECK(group.ranks[rank].operations->executed() == 0);
      CHECK(group.ranks[rank].operations->ranks().completed_operation(rank) == 0);
      const Error told = group.ranks[rank].operations->report_failure();
      CHECK(told.message.find("as the test wants") != std::string::npos);
    }
  }
}

TEST_CASE("executors: a device that stopped because of another rank tells that rank's reason, or that it has none") {
  for (const bool has_reason : {true, false}) {
    CAPTURE(has_reason);
    RankGroup group(Kind::table, has_reason ? 60 * second_ns : second_ns);
    rondo_test::FakeDevice device;
    std::atomic<int> checks = 0;
    device.at_check = [&] {  // rank 0 fails with its reason at the 100th check
      if (has_reason && ++checks == 100)
        group.ranks[0].operations->raise({RONDO_ERROR_MISMATCH, "as the test wants"}, 1);
    };
    device.start(*group.ranks[1].operations);
    device.stopped = true;
    device.look_for_failure();
    CHECK(group.ranks[1].operations->ranks().failed());
    const Error told = group.ranks[1].operations->report_failure();
    CHECK(told.status == (has_reason ? RONDO_ERROR_MISMATCH : RONDO_ERROR_REMOTE));
    CHECK(told.operation == 1);
    device.end();
  }
}

TEST_CASE("executors: a stream or a buffer of another place is refused before anything is enqueued") {
  for (const Kind kind : {Kind::host, Kind::kernel, Kind::copy}) {
    CAPTURE(names[static_cast<int>(kind)]);
    Place other(kind == Kind::host ? Kind::kernel : Kind::host);  // a rank on the host loads no driver
    RankGroup group(kind);
    const Executor &executor = *group.ranks[0].executor;
    CHECK(executor.check_stream(group.place.stream(), StreamRole::lead).ok());
    CHECK(executor.check_stream({}, StreamRole::lead).ok());
    CHECK(executor.check_stream(executor.own_stream(), StreamRole::lead).ok());
    const auto stream = executor.check_stream(other.stream(), StreamRole::lead);
    REQUIRE_FALSE(stream.ok());
    CHECK(stream.error().status == (kind == Kind::host ? RONDO_ERROR_INVALID_HANDLE : RONDO_ERROR_INVALID_ARGUMENT));
    CHECK(executor.check_buffer("send", group.place.put(all(1)), 4 * element_count).ok());
    CHECK(executor.check_buffer("send", nullptr, 0).ok());
    const auto buffer = executor.check_buffer("send", other.put(all(1)), 4 * element_count);
    REQUIRE_FALSE(buffer.ok());
    CHECK(buffer.error().message.find("send is ") == 0);
  }
}
