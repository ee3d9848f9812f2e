// SPDX-License-Identifier: Apache-2.0
// Random programs of messages, groups, collectives and exchanges of blocks on device memory must yield the expected
// results. They run by the kernel executor, or by that of RONDO_DEVICE_EXECUTOR. A rank is a thread with a stream for
// each communicator. RONDO_TEST_DEVICES: ranks are on this many devices in turn.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/exchange_item.h"
#include "tests/gpu/device_ranks.h"
#include "tests/message_program.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

/// The device buffers of one rank's items.
class DeviceCaller {
 public:
  DeviceCaller(const MessageProgram &program, uint32_t rank, const World &world, std::vector<rondo_comm_t> comms,
               std::vector<rondo_stream_t> streams)
      : program_(program), rank_(rank), world_(world), comms_(std::move(comms)), streams_(std::move(streams)) {
    for (const Item &item : program.items) {
      out_.push_back(item.concerns(rank) ? make(sent(item)) : nullptr);
      in_.push_back(item.concerns(rank) && !in_place(item) ? make(std::vector<std::byte>(received(item).size()))
                                                           : nullptr);
    }
  }

  rondo_status_t run() const {
    return run_calls(program_, rank_, [this](size_t index) { return call(index); });
  }

  /// Returns whether all results are right. Call it when the streams have passed all calls.
  [[nodiscard]] bool right() const {
    for (size_t index = 0; index < program_.items.size(); ++index) {
      const Item &item = program_.items[index];
      if (!item.concerns(rank_)) continue;
      const std::vector<std::byte> wanted = received(item);
      const DeviceBuffer &buffer = in_place(item) ? *out_[index] : *in_[index];
      if (wanted.empty()) continue;
      std::vector<std::byte> got = buffer.read();
      got.resize(wanted.size());
      if (got == wanted) continue;
      std::fprintf(stderr, "rank %u: item %zu is wrong (exchange %d, %zu bytes)\n", rank_, index,
                   static_cast<int>(item.exchange), item.bytes);
      return false;
    }
    return true;
  }

 private:
  static bool in_place(const Item &item) {
    return item.collective && (item.exchange == Exchange::none || item.exchange == Exchange::all_to_all_in_place);
  }
  [[nodiscard]] std::unique_ptr<DeviceBuffer> make(const std::vector<std::byte> &bytes) const {
    return std::make_unique<DeviceBuffer>(world_, bytes);
  }
  [[nodiscard]] ExchangeCall exchange(const Item &item) const { return {item, rank_, program_.rank_count}; }

  [[nodiscard]] std::vector<std::byte> sent(const Item &item) const {
    if (item.exchange != Exchange::none) return exchange(item).sent();
    if (!item.collective) return item.from == rank_ ? contents_of(item) : std::vector<std::byte>();
    std::vector<int32_t> values;
    for (size_t i = 0; i < item.bytes / 4; ++i) values.push_back(contribution(item, rank_, i));
    return bytes_of(values);
  }
  [[nodiscard]] std::vector<std::byte> received(const Item &item) const {
    if (item.exchange != Exchange::none) return exchange(item).received();
    if (!item.collective) return item.to == rank_ ? contents_of(item) : std::vector<std::byte>();
    std::vector<int32_t> sums(item.bytes / 4);
    for (size_t i = 0; i < sums.size(); ++i)
      for (uint32_t rank = 0; rank < program_.rank_count; ++rank) sums[i] += contribution(item, rank, i);
    return bytes_of(sums);
  }

  [[nodiscard]] rondo_status_t call(size_t index) const {
    const Item &item = program_.items[index];
    const rondo_comm_t comm = comms_[item.comm];
    const rondo_stream_t stream = streams_[item.comm];
    void *const out = out_[index]->pointer();
    void *const in = in_place(item) ? out : in_[index]->pointer();
    if (item.exchange != Exchange::none) return exchange(item).call(out, in, comm, stream);
    if (item.collective) return rondo_all_reduce(out, out, item.bytes / 4, RONDO_INT32, RONDO_SUM, comm, stream);
    if (item.from == rank_) {
      const auto status = rondo_send(out, item.bytes, RONDO_INT8, static_cast<int>(item.to), comm, stream);
      if (status != RONDO_OK) return status;
    }
    if (item.to != rank_) return RONDO_OK;
    return rondo_recv(in, item.bytes, RONDO_INT8, static_cast<int>(item.from), comm, stream);
  }

  const MessageProgram &program_;
  const uint32_t rank_;
  const World &world_;
  const std::vector<rondo_comm_t> comms_;
  const std::vector<rondo_stream_t> streams_;
  std::vector<std::unique_ptr<DeviceBuffer>> out_, in_;
};

MessageProgram make_program(uint64_t seed, int rank_count) {
  ProgramMaker::Limits limits;
  limits.comms_max = 1;  // kernels of several communicators could take all blocks of the device
  limits.items_max = 25;
  limits.ranks_min = limits.ranks_max = static_cast<uint32_t>(rank_count);
  return ProgramMaker(seed, limits).make();
}

void run_program(uint64_t seed, DeviceRanks &group) {
  const MessageProgram program = make_program(seed, group.ranks.size());
  std::vector<std::unique_ptr<DeviceCaller>> callers;
  for (int rank = 0; rank < group.ranks.size(); ++rank)
    callers.push_back(std::make_unique<DeviceCaller>(program, static_cast<uint32_t>(rank), group.world_of(rank),
                                                     std::vector{group.ranks[rank]}, std::vector{group.stream(rank)}));
  const auto statuses =
      group.ranks.run([&](int rank, rondo_comm_t) { return callers[static_cast<size_t>(rank)]->run(); });
  CHECK(all_ok(statuses));
  group.complete();
  for (const auto &caller : callers) CHECK(caller->right());
}

/// Runs the seeds in [first, last] whose programs have `rank_count` ranks, one after another on one communicator.
void run_programs(uint64_t first, uint64_t last, int rank_count, GateShare &share) {
  std::unique_ptr<DeviceRanks> group;
  rondo_config_t config = on_device();
  if (std::getenv("RONDO_DEVICE_EXECUTOR") == nullptr) config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  for (uint64_t seed = first; seed <= last; ++seed) {
    INFO("RONDO_SEED=" << seed);
    if (static_cast<int>(seed % 7) + 2 != rank_count || !share.has_next()) continue;
    if (group == nullptr) group = std::make_unique<DeviceRanks>(on_devices_in_turn(rank_count, config));
    run_program(seed, *group);
  }
  if (group == nullptr) return;
  CHECK(all_ok(group->ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

}  // namespace

TEST_CASE("device programs: random messages, groups, collectives and blocks yield what they must") {
  const char *const given = std::getenv("RONDO_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  const uint64_t last = given != nullptr ? first : std::getenv("RONDO_TEST_ALL") != nullptr ? 1'000 : 100;
  GateShare share("programs of messages on devices", given == nullptr);
  for (int rank_count = 2; rank_count <= 8; ++rank_count) run_programs(first, last, rank_count, share);
}

// tests/net/device_hosts_test.py starts the ranks, which are processes. DEVICE_PROGRAMS is the number of programs.
TEST_CASE("device programs: a rank of a job runs random programs", "[.job]") {
  const World world;
  const auto stream = world.another_stream();
  const rondo_config_t config = on_device();
  rondo_comm_t comm = nullptr;
  INFO(error_message());
  REQUIRE(rondo_comm_init_env(&comm, &config) == RONDO_OK);
  int rank = -1, size = 0;
  REQUIRE(rondo_comm_rank(comm, &rank) == RONDO_OK);
  REQUIRE(rondo_comm_size(comm, &size) == RONDO_OK);
  const uint64_t last = std::strtoull(std::getenv("DEVICE_PROGRAMS"), nullptr, 10);
  for (uint64_t seed = 1; seed <= last; ++seed) {
    INFO("seed " << seed);
    const MessageProgram program = make_program(seed, size);
    const DeviceCaller caller(program, static_cast<uint32_t>(rank), world, {comm}, {stream.get().object});
    REQUIRE(caller.run() == RONDO_OK);
    CU_OK(world.cu.stream_synchronize(stream.get().object));
    const rondo_error_t error = failure_of(comm);
    CAPTURE(rank, error.message);
    REQUIRE(error.status == RONDO_OK);
    REQUIRE(caller.right());
  }
  REQUIRE(rondo_comm_finalize(comm) == RONDO_OK);
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  REQUIRE(rondo_comm_get_properties(comm, &properties) == RONDO_OK);
  std::printf("rank %d: ok peer -1 operation 0: %s\n", rank, rondo_device_executor_string(properties.device_executor));
  REQUIRE(rondo_comm_destroy(comm) == RONDO_OK);
}
