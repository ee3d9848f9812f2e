// SPDX-License-Identifier: Apache-2.0
// These tests time calls that do not wait, and the end of attempts to make a communicator that would never complete.
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "tests/timed.h"
#include "tests/unit/nonblocking.h"
#include "tests/unit/ranks.h"

using rondo::now_ns;
using rondo_test::check_timed;
using rondo_test::outcome_of;
using rondo_test::Ranks;

namespace {

constexpr uint64_t call_bound_ns = 1'000'000;
constexpr uint64_t abort_bound_ns = 1'000'000'000;

enum class Way { init, split, shrink };

struct Times {
  uint64_t call_ns = 0, abort_ns = 0;
};

/// Begins to make a communicator of two ranks, of which only rank 0 calls, and aborts the attempt.
Times begin_and_abort(Way way) {
  rondo_config_t config = rondo_test::nonblocking();
  config.timeout_ms = config.init_timeout_ms;
  Ranks parent(2, RONDO_CONFIG_INIT);
  rondo_unique_id_t id{};
  REQUIRE((parent.status() == RONDO_OK && rondo_get_unique_id(&id, nullptr) == RONDO_OK));
  rondo_comm_t made = nullptr;
  Times times;
  uint64_t begun_ns = now_ns();
  switch (way) {
    case Way::init: REQUIRE(rondo_comm_init(&made, &id, 0, 2, &config) == RONDO_OK); break;
    case Way::split: REQUIRE(rondo_comm_split(parent[0], 0, 0, &config, &made) == RONDO_OK); break;
    case Way::shrink: REQUIRE(rondo_comm_shrink(parent[0], nullptr, 0, 0, &config, &made) == RONDO_OK); break;
  }
  times.call_ns = now_ns() - begun_ns;
  begun_ns = now_ns();
  CHECK(rondo_comm_abort(made) == RONDO_OK);
  CHECK(outcome_of(made) == RONDO_ERROR_ABORTED);
  CHECK(rondo_comm_destroy(made) == RONDO_OK);
  times.abort_ns = now_ns() - begun_ns;
  CHECK(rondo_comm_abort(parent[0]) == RONDO_OK);  // rank 0 may still wait in its split of the parent
  CHECK(rondo_unique_id_free(&id) == RONDO_OK);
  return times;
}

}  // namespace

TEST_CASE("a nonblocking call returns within 1 ms, and an abort ends what it began within 1 s", "[.timed]") {
  const std::vector<std::pair<Way, std::string>> ways{
      {Way::init, "init"}, {Way::split, "split"}, {Way::shrink, "shrink"}};
  for (const auto &[way, name] : ways) {
    check_timed("nonblocking call of " + name, call_bound_ns, [way = way] { return begin_and_abort(way).call_ns; });
    check_timed("abort of " + name, abort_bound_ns, [way = way] { return begin_and_abort(way).abort_ns; });
  }
}
