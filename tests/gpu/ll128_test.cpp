// SPDX-License-Identifier: Apache-2.0
// The protocol ll128 through the public interface: where it is available, and the error elsewhere. Arguments of the
// program choose by tag, and each tag needs settings of the driver in software. The tag "[plain]" needs
// SOFT_CUDA_DEVICES=3 or more, "[apart]" SOFT_CUDA_DEVICES=2 and SOFT_CUDA_NVLINK=off. The tag "[unknown]" needs
// SOFT_CUDA_CAPABILITY=86, "[image]" an image that lacks its kernels.
#include <string>
#include <vector>

#include "tests/gpu/device_ranks.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

rondo_config_t with_ll128(rondo_config_t config = on_device()) {
  config.protocol = RONDO_PROTOCOL_LL128;
  return config;
}

/// Sums by a rank on each of the devices, and checks the result.
void check_sum(const std::vector<CuDevice> &devices, size_t count) {
  DeviceRanks group(on_devices(devices, with_ll128()));
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < group.ranks.size(); ++rank)
    buffers.emplace_back(group.world_of(rank), bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  for (int rank = 0; rank < group.ranks.size(); ++rank) {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                             group.stream(rank)) == RONDO_OK);
  }
  group.complete();
  for (const DeviceBuffer &buffer : buffers)
    CHECK_VALUES(buffer.read(), sum_over_ranks(0, group.ranks.size(), count));
}

}  // namespace

TEST_CASE("ll128: what is asked for is what plans have, and no plan has it unasked", "[plain]") {
  if (!has_ll128("plans", 2)) return;
  DeviceRanks asking(2, with_ll128()), plain(2);
  for (const size_t count : {1, 30, 31, 100'000, 10'000'000}) {
    rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
    REQUIRE(rondo_comm_query_plan(asking.ranks[0], RONDO_ALL_REDUCE, count, RONDO_FLOAT32, &plan) == RONDO_OK);
    CHECK(plan.protocol == RONDO_PROTOCOL_LL128);
    CHECK(plan.chunk_bytes == 30 << 10);
    REQUIRE(rondo_comm_query_plan(plain.ranks[0], RONDO_ALL_REDUCE, count, RONDO_FLOAT32, &plan) == RONDO_OK);
    CHECK(plan.protocol != RONDO_PROTOCOL_LL128);
  }
  const auto barrier_and_finalize = [&](int rank, rondo_comm_t comm) {
    const rondo_status_t status = rondo_barrier(comm, asking.stream(rank));
    return status == RONDO_OK ? rondo_comm_finalize(comm) : status;
  };
  CHECK(all_ok(asking.ranks.run(barrier_and_finalize)));
}

TEST_CASE("ll128: a rank alone, and ranks on devices with NVLink between them", "[plain]") {
  for (const auto &devices : std::vector<std::vector<CuDevice>>{{0}, {0, 1}, {1, 0, 2}})
    if (has_ll128("ranks on devices", static_cast<int>(devices.size()))) check_sum(devices, 50'001);
}

TEST_CASE("ll128: ranks that share a device are refused, with what can be used", "[plain]") {
  if (!has_ll128("a device that ranks share", 1)) return;  // refused for what it is
  const auto check_refused = [](const std::vector<CuDevice> &devices, const char *who) {
    CHECK(Ranks(on_devices(devices, with_ll128())).status() == RONDO_ERROR_UNSUPPORTED);
    check_message({"'ll128'", who, "share a device", "'auto', 'simple' or 'll'"});
    CHECK(Ranks(on_devices(devices)).status() == RONDO_OK);
  };
  check_refused({0, 0}, "ranks 0 and 1 ");
  check_refused({0, 0, 0}, "ranks 0 and 1 ");
  if (has_two_devices("ll128 of ranks two of which share a device")) check_refused({0, 1, 1}, "ranks 1 and 2 ");
}

TEST_CASE("ll128: a communicator on the host, and one by copies, refuse it and name what can be", "[plain]") {
  std::vector<float> host(16, 1);
  rondo_config_t on_host = RONDO_CONFIG_INIT;
  {
    Ranks ranks(1, with_ll128(on_host));
    REQUIRE(ranks.status() == RONDO_OK);
    CHECK(rondo_all_reduce(host.data(), host.data(), 16, RONDO_FLOAT32, RONDO_SUM, ranks[0], nullptr) ==
          RONDO_ERROR_UNSUPPORTED);
    check_message({"'ll128'", "kernels on CUDA devices alone", "these can be: 'auto', 'simple', 'll'"});
    CHECK(rondo_barrier(ranks[0], nullptr) == RONDO_OK);
  }
  rondo_config_t by_copies = on_device();
  by_copies.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  DeviceRanks group(1, with_ll128(by_copies));
  const DeviceBuffer buffer(group.world, bytes_of(host));
  CHECK(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                         group.stream(0)) == RONDO_ERROR_UNSUPPORTED);
  check_message({"'ll128'", "these can be: 'auto', 'simple'"});
}

TEST_CASE("ll128: ranks that do not all ask for it are told", "[plain]") {
  const Ranks ranks({on_device(), with_ll128()});
  CHECK(ranks.status() == RONDO_ERROR_MISMATCH);
  check_message({"RONDO_PROTOCOL"});
}

TEST_CASE("ll128: devices without NVLink between them are refused, a rank alone on one of them is not", "[.][apart]") {
  {
    const Ranks ranks({with_ll128(on_device(0)), with_ll128(on_device(1))});
    CHECK(ranks.status() == RONDO_ERROR_UNSUPPORTED);
    check_message({"'ll128'", "no NVLink connects CUDA device 0 to the device of rank 1", "'simple'"});
  }
  check_sum({1}, 5000);
  CHECK(Ranks({on_device(0), on_device(1)}).status() == RONDO_OK);
}

TEST_CASE("ll128: a device of which nothing is known is refused", "[.][unknown]") {
  CHECK(Ranks(1, with_ll128()).status() == RONDO_ERROR_UNSUPPORTED);
  check_message({"'ll128'", "compute capability 8.6", "8.0, 9.0, 10.0", "'simple'"});
  CHECK(Ranks(1, on_device()).status() == RONDO_OK);
}

TEST_CASE("ll128: an image without its kernels is refused, and serves the others", "[.][image]") {
  CHECK(Ranks(1, with_ll128()).status() == RONDO_ERROR_UNSUPPORTED);
  check_message({"'ll128'", "cannot be loaded", "rondo_run_ll128_copy", "'simple'"});
  CHECK(Ranks(1, on_device()).status() == RONDO_OK);
}
