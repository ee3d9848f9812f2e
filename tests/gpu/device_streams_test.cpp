// SPDX-License-Identifier: Apache-2.0
// These tests give ranks on one device the same stream. Rondo must refuse that, except for streams that may be shared.
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

/// Two ranks on one device, which sum 16 values in place.
struct Pair {
  explicit Pair(rondo_device_executor_t executor)
      : group(2, with(executor)), first(group.world, ones()), second(group.world, ones()) {}

  static rondo_config_t with(rondo_device_executor_t executor) {
    rondo_config_t config = on_device();
    config.device_executor = executor;
    return config;
  }
  static std::vector<std::byte> ones() { return bytes_of(std::vector<float>(16, 1)); }
  rondo_status_t sum(int rank, rondo_stream_t stream) {
    void *const values = (rank == 0 ? first : second).pointer();
    return rondo_all_reduce(values, values, 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], stream);
  }
  /// Checks that `rank` may not call on `stream`, which has a call of the other rank, but may call on its own.
  void check_refused(int rank, rondo_stream_t stream, const std::string &which) {
    CHECK(sum(rank, stream) == RONDO_ERROR_INVALID_ARGUMENT);
    const std::string own = std::to_string(rank), other = std::to_string(1 - rank);
    check_message({which + " of rank " + own + " has a call of rank " + other, "cudaStreamNonBlocking"});
    CHECK(sum(rank, group.stream(rank)) == RONDO_OK);
  }
  /// Makes a group in which each rank has a call on each of its streams.
  rondo_status_t sum_all(const std::vector<std::vector<rondo_stream_t>> &streams) {
    static_cast<void>(rondo_group_begin());
    for (size_t rank = 0; rank < streams.size(); ++rank)
      for (const rondo_stream_t stream : streams[rank]) static_cast<void>(sum(static_cast<int>(rank), stream));
    return rondo_group_end();
  }
  rondo_stream_t another_stream() {
    group.streams.push_back(group.world.another_stream());
    return group.streams.back().get().object;
  }
  void complete() const {
    CU_OK(group.world.cu.stream_synchronize(nullptr));
    group.complete();
  }

  DeviceRanks group;
  DeviceBuffer first, second;
};

constexpr auto both = {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY};

}  // namespace

TEST_CASE("streams: a call that comes after the call of another rank, which waits for it, is refused") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    REQUIRE(pair.sum(0, pair.group.stream(0)) == RONDO_OK);
    pair.check_refused(1, pair.group.stream(0), "the stream");
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 2));
    CHECK_VALUES(pair.second.read(), std::vector<float>(16, 2));
  }
}

TEST_CASE("streams: two ranks may not both call on the default stream, nor beside it on one that waits for it") {
  rondo::cuda::CuStream blocking = nullptr;
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    const auto &cu = pair.group.world.cu;
    auto *const legacy = reinterpret_cast<rondo_stream_t>(uintptr_t{1});
    REQUIRE(cu.stream_create(&blocking, rondo::cuda::stream_default, 0) == rondo::cuda::CuStatus::success);
    REQUIRE(pair.sum(1, nullptr) == RONDO_OK);
    CHECK(pair.sum(0, legacy) == RONDO_ERROR_INVALID_ARGUMENT);
    CHECK(pair.sum(0, blocking) == RONDO_ERROR_INVALID_ARGUMENT);
    pair.check_refused(0, nullptr, "the default stream");
    pair.complete();
    REQUIRE(pair.sum(0, blocking) == RONDO_OK);
    pair.check_refused(1, nullptr, "the default stream");
    CU_OK(cu.stream_synchronize(blocking));
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 4));
    CU_OK(cu.stream_destroy(blocking));
  }
}

TEST_CASE("streams: ranks may use one stream for calls that do not wait for each other") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1);
    REQUIRE(pair.sum(0, one) == RONDO_OK);
    REQUIRE(pair.sum(1, other) == RONDO_OK);
    REQUIRE(pair.sum(1, one) == RONDO_OK);  // after rank 0's first call, for which all ranks have called
    CHECK(pair.sum(0, one) == RONDO_ERROR_INVALID_ARGUMENT);
    REQUIRE(pair.sum(0, other) == RONDO_OK);
    pair.complete();
    REQUIRE(pair.sum(1, one) == RONDO_OK);
    REQUIRE(pair.sum(0, other) == RONDO_OK);
    pair.complete();
    CHECK_VALUES(pair.second.read(), std::vector<float>(16, 8));
  }
}

TEST_CASE("streams: another rank may use the stream of a call that has ended, whatever their numbers") {
  rondo_config_t config = Pair::with(RONDO_DEVICE_EXECUTOR_KERNEL);
  config.kernel = RONDO_KERNEL_INTERPRETER;
  DeviceRanks group(2, config);
  const DeviceBuffer sent(group.world, bytes_of(whole_numbers(1, 16))), received(group.world, Pair::ones());
  const auto broadcast = [&](int rank, rondo_stream_t stream) {
    return rondo_broadcast(sent.pointer(), (rank == 0 ? received : sent).pointer(), 16, RONDO_FLOAT32, 1,
                           group.ranks[rank], stream);
  };
  // A root does not wait for others, so its two calls end before the other rank has begun.
  for (int call = 0; call < 2; ++call) REQUIRE(broadcast(1, group.stream(1)) == RONDO_OK);
  CU_OK(group.world.cu.stream_synchronize(static_cast<rondo::cuda::CuStream>(group.stream(1))));
  for (int call = 0; call < 2; ++call) CHECK(broadcast(0, group.stream(1)) == RONDO_OK);
  group.complete();
  CHECK_VALUES(received.read(), whole_numbers(1, 16));
}

TEST_CASE("streams: two ranks may not be captured on one stream, but in captures of their own") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t stream = pair.group.stream(0);
    const auto capture = [&](int rank) {
      return captured(pair.group.world, stream, [&] {
        CHECK(pair.sum(rank, stream) == RONDO_OK);
        if (rank == 0) CHECK(pair.sum(1, stream) == RONDO_ERROR_INVALID_ARGUMENT);
      });
    };
    const auto first = capture(0), second = capture(1);
    pair.group.launch(first, 0);
    pair.group.launch(second, 1);
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 2));
  }
}

TEST_CASE("streams: a group that was refused leaves no stream in use") {
  Pair pair(RONDO_DEVICE_EXECUTOR_KERNEL);
  rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1);
  REQUIRE(rondo_group_begin() == RONDO_OK);
  CHECK(pair.sum(0, one) == RONDO_OK);
  CHECK(pair.sum(1, one) == RONDO_OK);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_ARGUMENT);
  REQUIRE(pair.sum(1, one) == RONDO_OK);
  REQUIRE(pair.sum(0, other) == RONDO_OK);
  pair.complete();
  CHECK_VALUES(pair.first.read(), std::vector<float>(16, 2));
}

TEST_CASE("streams: a group of ranks that have the same first stream is refused before it enqueues") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1);
    rondo_stream_t third = pair.another_stream(), fourth = pair.another_stream();
    CHECK(pair.sum_all({{one, third}, {one, fourth}}) == RONDO_ERROR_INVALID_ARGUMENT);
    check_message({"the stream of rank 1 has a call of rank 0"});
    REQUIRE(pair.sum(1, one) == RONDO_OK);
    REQUIRE(pair.sum(0, other) == RONDO_OK);
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 2));
  }
}

TEST_CASE("streams: ranks of one group may share all streams but their first ones") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1), shared = pair.another_stream();
    REQUIRE(pair.sum_all({{one, other}, {other, one}}) == RONDO_OK);
    REQUIRE(pair.sum_all({{one, shared}, {other, shared}}) == RONDO_OK);
    REQUIRE(pair.sum_all({{one, nullptr}, {other, nullptr}}) == RONDO_OK);
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 64));
    CHECK_VALUES(pair.second.read(), std::vector<float>(16, 64));
  }
}

TEST_CASE("streams: a stream that waits for another rank's group is refused as one that has its call") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t other = pair.group.stream(1), shared = pair.another_stream(), third = pair.another_stream();
    REQUIRE(pair.sum_all({{pair.group.stream(0), shared}}) == RONDO_OK);
    CHECK(pair.sum_all({{}, {other, shared}}) == RONDO_ERROR_INVALID_ARGUMENT);
    pair.check_refused(1, shared, "the stream");
    REQUIRE(pair.sum_all({{}, {other, third}}) == RONDO_OK);
    REQUIRE(pair.sum(0, pair.group.stream(0)) == RONDO_OK);
    pair.complete();
    REQUIRE(pair.sum(1, shared) == RONDO_OK);
    REQUIRE(pair.sum(0, pair.group.stream(0)) == RONDO_OK);
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 16));
  }
}

TEST_CASE("streams: every call of a group counts, on its first stream and on those that wait for the group") {
  for (const rondo_device_executor_t executor : both) {
    CAPTURE(executor);
    Pair pair(executor);
    rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1), shared = pair.another_stream();
    for (const std::vector<rondo_stream_t> &streams : {std::vector{one, one}, std::vector{one, shared}}) {
      REQUIRE(pair.sum_all({streams}) == RONDO_OK);
      REQUIRE(pair.sum(1, other) == RONDO_OK);
      pair.check_refused(1, streams.back(), "the stream");  // the second call of rank 0 is before it
    }
    pair.complete();
    CHECK_VALUES(pair.first.read(), std::vector<float>(16, 16));
    CHECK_VALUES(pair.second.read(), std::vector<float>(16, 16));
  }
}

TEST_CASE("streams: a stream with the handle of a destroyed one is used by its own flags") {
  Pair pair(RONDO_DEVICE_EXECUTOR_KERNEL);
  const auto &cu = pair.group.world.cu;
  rondo::cuda::CuStream before = nullptr, now = nullptr;
  REQUIRE(cu.stream_create(&before, rondo::cuda::stream_default, 0) == rondo::cuda::CuStatus::success);
  REQUIRE(pair.sum(0, before) == RONDO_OK);
  REQUIRE(pair.sum(1, pair.group.stream(1)) == RONDO_OK);
  CU_OK(cu.stream_synchronize(before));
  pair.complete();
  CU_OK(cu.stream_destroy(before));
  REQUIRE(cu.stream_create(&now, rondo::cuda::stream_non_blocking, 0) == rondo::cuda::CuStatus::success);
  REQUIRE(pair.sum(1, nullptr) == RONDO_OK);
  CHECK(pair.sum(0, now) == RONDO_OK);  // it does not wait for the default stream
  CU_OK(cu.stream_synchronize(now));
  pair.complete();
  CHECK_VALUES(pair.first.read(), std::vector<float>(16, 4));
  CU_OK(cu.stream_destroy(now));
}

TEST_CASE("streams: a group whose streams cannot be joined leaves no stream in use", "[.][join fault]") {
  Pair pair(RONDO_DEVICE_EXECUTOR_KERNEL);
  rondo_stream_t one = pair.group.stream(0), other = pair.group.stream(1), third = pair.another_stream();
  CHECK(pair.sum_all({{one, third}}) == RONDO_ERROR_OUT_OF_RESOURCES);  // SOFT_CUDA_FAULTS fails the first join
  REQUIRE(pair.sum(1, one) == RONDO_OK);
  REQUIRE(pair.sum(0, other) == RONDO_OK);
  pair.complete();
  CHECK_VALUES(pair.first.read(), std::vector<float>(16, 2));
}

TEST_CASE("streams: a thread without a context may call on a stream", "[.][no context]") {
  DeviceRanks group(1, Pair::with(RONDO_DEVICE_EXECUTOR_KERNEL));
  const DeviceBuffer values(group.world, Pair::ones());
  // SOFT_CUDA_FAULTS makes the first query fail, as in a driver that requires a context.
  CHECK(rondo_all_reduce(values.pointer(), values.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_OK);
  group.complete();
}
