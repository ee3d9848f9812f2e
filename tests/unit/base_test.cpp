// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include "src/base/arithmetic.h"
#include "src/base/names.h"
#include "src/plan/collective.h"
#include "tests/catch.h"

using namespace rondo;

TEST_CASE("names: each name parses back to its value, and an unknown one is answered with the list") {
  for (int value = 0; rondo_type_string(static_cast<rondo_type_t>(value)) != nullptr; ++value) {
    const auto type = static_cast<rondo_type_t>(value);
    CHECK(parse_name(rondo_type_string(type), rondo_type_string, "type").value() == type);
    CHECK(rondo_type_size(type) > 0);
  }
  const auto refused = parse_name("quick", rondo_protocol_string, "protocol");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message == "unknown protocol 'quick'; known are: auto, simple, ll");
}

TEST_CASE("names: a collective is read in the spellings of other libraries") {
  for (const char *text : {"allreduce", "All-Reduce", "all_reduce"})
    CHECK(parse_collective(text).value() == RONDO_ALL_REDUCE);
  CHECK(parse_collective("Bcast").value() == RONDO_BROADCAST);
  CHECK(parse_collective("allgather").value() == RONDO_ALL_GATHER);
  CHECK(collective_spelling("alltoall") == "all_to_all");
  CHECK(collective_spelling("all reduce") == "all reduce");
}

TEST_CASE("names: a value without a name does not end the list of an enumeration") {
  // Collectives without a schedule leave gaps among the numbers. A new collective would have its number after a gap.
  const auto gathers = [](rondo_collective_t collective) -> const char * {
    return collective == RONDO_ALL_GATHER || collective == RONDO_GATHER ? rondo_collective_string(collective) : nullptr;
  };
  CHECK(known_names<rondo_collective_t>(gathers) == "all_gather, gather");
  CHECK(parse_name<rondo_collective_t>("Gather", gathers, "collective").value() == RONDO_GATHER);
  CHECK(known_names(scheduled_collective_string) ==
        "all_reduce, reduce_scatter, all_gather, broadcast, reduce, barrier");
}

TEST_CASE("collectives: numbers outside of the table are no collectives") {
  CHECK(is_collective(RONDO_SCATTER));
  CHECK_FALSE(is_collective(RONDO_SEND));
  CHECK_FALSE(is_collective(static_cast<rondo_collective_t>(collective_table.size())));
  CHECK(rondo_collective_string(static_cast<rondo_collective_t>(collective_table.size())) == nullptr);
  CHECK_FALSE(has_schedule(static_cast<rondo_collective_t>(collective_table.size())));
}

TEST_CASE("names: a suggestion is near, in any case of letters") {
  CHECK(did_you_mean("Rign", "auto, ring, tree").empty());  // two of four letters differ
  CHECK(did_you_mean("RINGS", "auto, ring, tree") == "; did you mean ring?");
  CHECK(did_you_mean("halving-dubling", "ring, halving_doubling") == "; did you mean halving_doubling?");
  CHECK(did_you_mean("x", "a, b").empty());
  CHECK(did_you_mean("", "a, b").empty());
}

TEST_CASE("checked arithmetic: says when a result does not fit") {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  CHECK(checked_add<uint64_t>(most, 1) == std::nullopt);
  CHECK(checked_add<uint64_t>(most - 1, 1) == most);
  CHECK(checked_mul<uint64_t>(most / 2 + 1, 2) == std::nullopt);
  CHECK(ceil_div<uint64_t>(most, 2) == most / 2 + 1);
  CHECK(round_up<uint64_t>(65, 64) == 128);
}
