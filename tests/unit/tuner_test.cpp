// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuner.h"

#include <array>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace rondo;

namespace {

bool everything(rondo_collective_t) { return true; }
bool wholes(rondo_collective_t it) { return it != RONDO_REDUCE_SCATTER && it != RONDO_ALL_GATHER; }

/// As the real registry is shaped, with limits that are easy to pass.
constexpr std::array registry{
    Algorithm{RONDO_ALGORITHM_RING, 4096, everything, nullptr, nullptr},
    Algorithm{RONDO_ALGORITHM_TREE, 100'000, wholes, nullptr, nullptr},
    Algorithm{RONDO_ALGORITHM_ONE_SHOT, 12, everything, nullptr, nullptr},
    Algorithm{RONDO_ALGORITHM_TWO_SHOT, 12, wholes, nullptr, nullptr},
};

constexpr TunerInput with(rondo_collective_t collective, uint32_t rank_count, uint64_t bytes) {
  TunerInput input;
  input.collective = collective;
  input.rank_count = rank_count;
  input.bytes = bytes;
  input.slot_bytes = 65536;
  input.ll_slot_bytes = 32768;
  return input;
}

const std::vector<uint64_t> sizes{0, 1, 8, 1024, 1025, 32768, 32769, 262144, 262145, uint64_t{1} << 40, UINT64_MAX};
const std::vector<uint32_t> rank_counts{1, 2, 3, 8, 9, 12, 13, 16, 17, 64, 65, 254, 4096};

}  // namespace

TEST_CASE("tuner: every collective, rank count and size has a complete choice within the slots") {
  for (int number = 0; rondo_collective_string(static_cast<rondo_collective_t>(number)) != nullptr; ++number)
    for (const uint32_t rank_count : rank_counts)
      for (const uint64_t bytes : sizes)
        for (const uint32_t kind : {0u, 1u, 2u, 3u, 4u}) {
          TunerInput input = with(static_cast<rondo_collective_t>(number), rank_count, bytes);
          input.oversubscribed = kind % 2 == 1;
          input.several_hosts = kind >= 2;
          input.shares_hosts = kind == 4;
          INFO(rondo_collective_string(input.collective) << " " << rank_count << " ranks " << bytes << " bytes");
          const auto chosen = choose_plan(input, registry);
          REQUIRE(chosen.ok());
          const PlanChoice &choice = chosen.value();
          CHECK((choice.protocol == RONDO_PROTOCOL_SIMPLE || choice.protocol == RONDO_PROTOCOL_LL));
          CHECK((choice.channels >= 1 && choice.channels <= 8));
          CHECK((choice.chunk_bytes >= 64 && choice.chunk_bytes % 64 == 0));
          const uint64_t slot_bytes =
              choice.protocol == RONDO_PROTOCOL_LL ? input.ll_slot_bytes : input.slot_bytes;
          CHECK(choice.chunk_bytes <= slot_bytes * (input.slot_count - 1));
        }
}

TEST_CASE("tuner: each row's algorithm can do its collective among as many ranks as some row promises") {
  for (const AlgorithmRow &row : algorithm_rows()) {
    const Algorithm *algorithm = find_algorithm(row.algorithm);
    REQUIRE(algorithm != nullptr);
    INFO(rondo_collective_string(row.collective) << " " << rondo_algorithm_string(row.algorithm));
    CHECK(algorithm->supports(row.collective));
    const bool last_resort = row.rank_count_max == UINT32_MAX;
    CHECK((last_resort || row.rank_count_max <= algorithm->rank_count_max));
  }
}

TEST_CASE("tuner: what it chooses from the real registry can be built, with every override that it accepts") {
  uint32_t refused = 0;
  for (int number = 0; rondo_collective_string(static_cast<rondo_collective_t>(number)) != nullptr; ++number)
    for (int algorithm = 0; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
      for (const uint32_t rank_count : {1u, 2u, 5u, 16u, 65u, 300u})
        for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{1} << 30}) {
          TunerInput input = with(static_cast<rondo_collective_t>(number), rank_count, bytes);
          input.overrides.algorithm = static_cast<rondo_algorithm_t>(algorithm);
          const auto chosen = choose_plan(input);
          ScheduleArgs args;
          args.collective = input.collective;
          args.rank_count = rank_count;
          if (!chosen.ok()) {
            ++refused;
            CHECK(input.overrides.algorithm != RONDO_ALGORITHM_AUTO);
            CHECK_FALSE(build_schedule(input.overrides.algorithm, args).ok());
            continue;
          }
          CHECK(build_schedule(chosen.value().algorithm, args).ok());
        }
  CHECK(refused > 0);
}

TEST_CASE("tuner: small messages go straight with ll, large ones with simple") {
  const auto small = choose_plan(with(RONDO_ALL_REDUCE, 4, 8), registry).value();
  CHECK(small.algorithm == RONDO_ALGORITHM_ONE_SHOT);
  CHECK(small.protocol == RONDO_PROTOCOL_LL);
  const auto middle = choose_plan(with(RONDO_ALL_REDUCE, 4, 65536), registry).value();
  CHECK(middle.algorithm == RONDO_ALGORITHM_TWO_SHOT);
  CHECK(middle.protocol == RONDO_PROTOCOL_SIMPLE);
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 40, 64 << 20), registry).value().algorithm == RONDO_ALGORITHM_RING);
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 40, 8192), registry).value().channels == 2);  // the double tree
}

TEST_CASE("tuner: between two ranks on two hosts every size goes in one hop, in chunks of several slots") {
  for (const uint64_t bytes : sizes) {
    TunerInput input = with(RONDO_ALL_REDUCE, 2, bytes);
    input.slot_bytes = 131072;
    input.several_hosts = true;
    const PlanChoice choice = choose_plan(input, registry).value();
    CHECK(choice.algorithm == RONDO_ALGORITHM_ONE_SHOT);
    CHECK(choice.chunk_bytes > input.slot_bytes);
    input.several_hosts = false;
    if (bytes > 32768) CHECK(choose_plan(input, registry).value().algorithm != RONDO_ALGORITHM_ONE_SHOT);
  }
}

TEST_CASE("tuner: between hosts of several ranks, large ones go by two channels of hierarchical") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.several_hosts = input.shares_hosts = true;
  const PlanChoice choice = choose_plan(input).value();
  CHECK(choice.algorithm == RONDO_ALGORITHM_HIERARCHICAL);
  CHECK(choice.channels == 2);  // one chunk on its way is not enough
}

TEST_CASE("tuner: between hosts of several ranks, every collective crosses the network as seldom as it can") {
  for (const rondo_collective_t collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    TunerInput input = with(collective, 16, 1 << 20);
    input.several_hosts = input.shares_hosts = true;
    CHECK(choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL);
    input.bytes = 1024;
    const bool blocks = uses_blocks(collective);
    CHECK((choose_plan(input).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL_TREE) == !blocks);
    input.shares_hosts = false;  // a rank on each
    CHECK(choose_plan(input).value().algorithm != RONDO_ALGORITHM_HIERARCHICAL_TREE);
  }
}

TEST_CASE("tuner: rows that were measured on one host do not count among several, nor the other way round") {
  const PlanChoice one{RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_SIMPLE, 1, 4096, RONDO_KERNEL_INTERPRETER};
  const PlanChoice several{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 8192, RONDO_KERNEL_INTERPRETER};
  const auto table = TuningTable::make({{RONDO_ALL_REDUCE, 4, false, TuningRow::any_bytes, one},
                                        {RONDO_ALL_REDUCE, 4, false, TuningRow::any_bytes, several, true}});
  REQUIRE(table.ok());
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.table = &table.value();
  CHECK(choose_plan(input).value() == one);
  input.several_hosts = input.shares_hosts = true;
  CHECK(choose_plan(input).value() == several);
}

TEST_CASE("tuner: a barrier is planned as an all-reduce of as many bytes") {
  for (const uint32_t rank_count : rank_counts)
    CHECK(choose_plan(with(RONDO_BARRIER, rank_count, 4), registry).value() ==
          choose_plan(with(RONDO_ALL_REDUCE, rank_count, 4), registry).value());
}

TEST_CASE("tuner: a row whose algorithm cannot do so many ranks is passed over") {
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 12, 1 << 20), registry).value().algorithm == RONDO_ALGORITHM_TWO_SHOT);
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 13, 1 << 20), registry).value().algorithm == RONDO_ALGORITHM_RING);
  // Past every row: what is left in the registry.
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 4097, 1 << 20), registry).value().algorithm == RONDO_ALGORITHM_TREE);
}

TEST_CASE("tuner: overrides win, each for itself") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 8);
  input.overrides.algorithm = RONDO_ALGORITHM_RING;
  CHECK(choose_plan(input, registry).value().algorithm == RONDO_ALGORITHM_RING);
  CHECK(choose_plan(input, registry).value().protocol == RONDO_PROTOCOL_LL);
  input.overrides.protocol = RONDO_PROTOCOL_SIMPLE;
  input.overrides.channels = 5;
  input.overrides.chunk_bytes = 4096;
  CHECK(choose_plan(input, registry).value() ==
        PlanChoice{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 5, 4096, RONDO_KERNEL_INTERPRETER});
}

TEST_CASE("tuner: an override that cannot be is refused with those that can") {
  TunerInput input = with(RONDO_ALL_GATHER, 4, 8);
  input.overrides.algorithm = RONDO_ALGORITHM_TREE;
  const auto refused = choose_plan(input, registry);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK(refused.error().message ==
        "the algorithm 'tree' that was asked for cannot do all_gather among 4 ranks; these can: ring, one_shot");

  input = with(RONDO_ALL_REDUCE, 13, 8);
  input.overrides.algorithm = RONDO_ALGORITHM_ONE_SHOT;
  CHECK(choose_plan(input, registry).error().message ==
        "the algorithm 'one_shot' that was asked for cannot do all_reduce among 13 ranks; these can: ring, tree");

  input = with(RONDO_ALL_REDUCE, 4, 8);
  input.ll_slot_bytes = 0;
  CHECK(choose_plan(input, registry).value().protocol == RONDO_PROTOCOL_SIMPLE);
  input.overrides.protocol = RONDO_PROTOCOL_LL;
  CHECK(choose_plan(input, registry).error().status == RONDO_ERROR_UNSUPPORTED);
}

TEST_CASE("tuner: ll128 is chosen where it is asked for and nowhere else") {
  for (int number = 0; rondo_collective_string(static_cast<rondo_collective_t>(number)) != nullptr; ++number)
    for (const Algorithm &algorithm : algorithms())
      for (const uint32_t rank_count : {1u, 2u, 5u, 16u, 65u, 300u})
        for (const uint64_t bytes : sizes) {
          TunerInput input = with(static_cast<rondo_collective_t>(number), rank_count, bytes);
          input.ll128_slot_bytes = 7680;
          CHECK(choose_plan(input).value().protocol != RONDO_PROTOCOL_LL128);
          input.overrides.protocol = RONDO_PROTOCOL_LL128;
          if (algorithm.supports(input.collective) && rank_count <= algorithm.rank_count_max)
            input.overrides.algorithm = algorithm.id;
          const PlanChoice choice = choose_plan(input).value();
          CHECK(choice.protocol == RONDO_PROTOCOL_LL128);
          CHECK((choice.chunk_bytes == 30 << 10 && choice.channels >= 1));
          input.slot_count = 2;
          CHECK(choose_plan(input).value().chunk_bytes == 7680);
          input.overrides.chunk_bytes = 1000;
          CHECK(choose_plan(input).value().chunk_bytes == 960);
        }
}

TEST_CASE("tuner: ll128 that cannot be is refused with the protocols that can") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 8);
  input.overrides.protocol = RONDO_PROTOCOL_LL128;
  CHECK(choose_plan(input, registry).error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK(choose_plan(input, registry).error().message ==
        "the protocol 'll128' that was asked for is for kernels on CUDA devices alone; these can be: 'auto', 'simple', "
        "'ll'");
  input.post_bytes = 64;
  input.ll_slot_bytes = 0;
  CHECK(choose_plan(input, registry).error().message.ends_with("these can be: 'auto', 'simple'"));
}

TEST_CASE("tuner: load_store that cannot be is refused with what it is for") {
  TunerInput input = with(RONDO_ALL_GATHER, 4, 8);
  input.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for at most 64 ranks of one host, and on devices for the "
        "executor 'kernel' alone; these can be: 'auto', 'interpreter'");
  input.post_bytes = 4096;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for all_reduce of at most 4096 bytes by one_shot, or of any "
        "size by two_shot or ring, on one channel among at most 64 ranks of one host; use 'auto'");
  input.exchange_channels = 4;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for all_reduce of at most 4096 bytes by one_shot, or of any "
        "size by two_shot, on devices; use 'auto'");
  input.buffers = BufferPlace::shared_device;
  input.uneven_blocks = true;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for all_reduce of at most 4096 bytes by one_shot, or of any "
        "size by two_shot, for reduce_scatter and all_gather by one_shot, and for broadcast and reduce by two_shot; of "
        "even blocks only, so not for calls whose name ends with _v; use 'auto'");
  input.overrides.protocol = RONDO_PROTOCOL_LL;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for has no protocol, but 'll' was asked for, too; ask for one of the "
        "two");
}

TEST_CASE("tuner: a protocol, or the interpreter, that is asked for is not passed over for load_store") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 4096);
  input.post_bytes = input.exchange_chunk_bytes = 65536;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_LOAD_STORE);
  CHECK(choose_plan(input).value().protocol == RONDO_PROTOCOL_AUTO);
  input.overrides.kernel = RONDO_KERNEL_INTERPRETER;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(choose_plan(input).value().protocol != RONDO_PROTOCOL_AUTO);
  input.overrides = {};
  input.overrides.protocol = RONDO_PROTOCOL_SIMPLE;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(choose_plan(input).value().protocol == RONDO_PROTOCOL_SIMPLE);
}

TEST_CASE("tuner: a chunk is rounded down to whole cache lines and to all slots but one") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 1 << 20);
  input.slot_bytes = 4096;
  input.ll_slot_bytes = 2048;
  input.slot_count = 2;
  input.overrides.chunk_bytes = uint64_t{1} << 30;
  CHECK(choose_plan(input, registry).value().chunk_bytes == 4096);
  input.slot_count = 8;
  CHECK(choose_plan(input, registry).value().chunk_bytes == 7 * 4096);
  input.overrides.protocol = RONDO_PROTOCOL_LL;
  CHECK(choose_plan(input, registry).value().chunk_bytes == 7 * 2048);
  input.overrides.chunk_bytes = 127;
  CHECK(choose_plan(input, registry).value().chunk_bytes == 64);
  input.overrides.chunk_bytes = 128;
  CHECK(choose_plan(input, registry).value().chunk_bytes == 128);
}

TEST_CASE("tuner: no row of the table is hidden by an earlier one") {
  const auto rows = algorithm_rows();
  for (size_t later = 0; later < rows.size(); ++later)
    for (size_t earlier = 0; earlier < later; ++earlier) {
      const AlgorithmRow &above = rows[earlier];
      const AlgorithmRow &below = rows[later];
      const bool hidden = above.collective == below.collective && above.rank_count_max >= below.rank_count_max &&
                          above.bytes_max >= below.bytes_max &&
                          (above.cores == AlgorithmRow::Cores::any || above.cores == below.cores);
      INFO("rows " << earlier << " and " << later);
      CHECK_FALSE(hidden);
    }
}
