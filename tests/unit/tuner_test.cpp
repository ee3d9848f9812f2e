// SPDX-License-Identifier: Apache-2.0
// These tests cover the tuner on one host: algorithms, protocols, overrides and chunks.
#include <string>
#include <vector>

#include "src/base/names.h"
#include "tests/unit/tuner_input.h"

using namespace rondo;
using namespace rondo_test;

namespace {

const std::vector<uint32_t> rank_counts{1, 2, 3, 8, 9, 12, 13, 16, 17, 64, 65, 254, 4096};

}  // namespace

TEST_CASE("tuner: every collective, rank count and size has a complete choice within the slots") {
  for (int number = 0; scheduled_collective_string(static_cast<rondo_collective_t>(number)) != nullptr; ++number)
    for (const uint32_t rank_count : rank_counts)
      for (const uint64_t bytes : sizes)
        for (const uint32_t kind : {0u, 1u, 2u, 3u, 4u}) {
          TunerInput input = with(static_cast<rondo_collective_t>(number), rank_count, bytes);
          input.oversubscribed = kind % 2 == 1;
          if (kind >= 2) input.host_count = kind == 4 ? (rank_count + 1) / 2 : rank_count;
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
  for (int number = 0; scheduled_collective_string(static_cast<rondo_collective_t>(number)) != nullptr; ++number)
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

TEST_CASE("tuner: a barrier is planned as an all-reduce of as many bytes") {
  for (const uint32_t rank_count : rank_counts)
    CHECK(choose_plan(with(RONDO_BARRIER, rank_count, 4), registry).value() ==
          choose_plan(with(RONDO_ALL_REDUCE, rank_count, 4), registry).value());
}

TEST_CASE("tuner: a row whose algorithm cannot do so many ranks is passed over") {
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 12, 1 << 20), registry).value().algorithm == RONDO_ALGORITHM_TWO_SHOT);
  CHECK(choose_plan(with(RONDO_ALL_REDUCE, 13, 1 << 20), registry).value().algorithm == RONDO_ALGORITHM_RING);
  // Beyond the limits of all rows, the tuner takes the remaining algorithm of the registry.
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
  CHECK(choose_plan(input, registry).error().message ==
        "the protocol 'll' that was asked for is not available here; these can be: 'auto', 'simple'");
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

TEST_CASE("tuner: the interpreter on a device has as many blocks as help, on the host as many as the table says") {
  TunerInput input = with(RONDO_ALL_REDUCE, 8, 8);
  input.buffers = BufferPlace::device;
  input.connection_channels = 16;
  input.slot_bytes = 128 << 10;
  input.ll_slot_bytes = 4 << 10;
  input.overrides.algorithm = RONDO_ALGORITHM_TWO_SHOT;
  const auto channels = [&](uint64_t bytes, rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO) {
    input.bytes = bytes;
    input.overrides.protocol = protocol;
    return choose_plan(input).value().channels;
  };
  CHECK(channels(0) == 1);
  CHECK(channels(8) == 1);
  CHECK(channels(16 << 10) == 1);
  CHECK(channels((16 << 10) + 1) == 2);
  CHECK(channels(256 << 10) == 16);
  CHECK(channels(uint64_t{1} << 40) == 16);
  CHECK(channels(4 << 10, RONDO_PROTOCOL_LL) == 1);
  CHECK(channels(32 << 10, RONDO_PROTOCOL_LL) == 8);
  input.overrides.algorithm = RONDO_ALGORITHM_AUTO;
  input.overrides.channels = 3;
  CHECK(channels(1 << 20) == 3);
  input.overrides.channels = 0;
  input.overrides.algorithm = RONDO_ALGORITHM_TREE;
  CHECK(channels(8) == 2);  // each of its two trees
  input.overrides.algorithm = RONDO_ALGORITHM_AUTO;
  input.host_count = 2;  // links between hosts have only the table's channels
  CHECK(channels(1 << 20) == 2);
  input.host_count = 1;
  input.connection_channels = 0;
  CHECK(channels(1 << 20) == 1);
}

TEST_CASE("tuner: an all-reduce by the interpreter on a device goes by tree while steps cost more than bytes") {
  TunerInput input = with(RONDO_ALL_REDUCE, 8, 8);
  input.buffers = BufferPlace::device;
  input.connection_channels = 4;
  const auto algorithm = [&](uint64_t bytes) {
    input.bytes = bytes;
    return choose_plan(input).value().algorithm;
  };
  CHECK(algorithm(8) == RONDO_ALGORITHM_TREE);
  CHECK(algorithm(2 << 20) == RONDO_ALGORITHM_TREE);
  CHECK(algorithm((2 << 20) + 1) == RONDO_ALGORITHM_TWO_SHOT);
  input.rank_count = 4;
  CHECK(algorithm(8) == RONDO_ALGORITHM_ONE_SHOT);
  CHECK(algorithm(2 << 20) == RONDO_ALGORITHM_TWO_SHOT);
  input.rank_count = 8;
  input.collective = RONDO_BROADCAST;
  CHECK(algorithm(8) == RONDO_ALGORITHM_ONE_SHOT);
  input.collective = RONDO_ALL_REDUCE;
  input.connection_channels = 0;  // by copies
  CHECK(algorithm(8) == RONDO_ALGORITHM_ONE_SHOT);
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
