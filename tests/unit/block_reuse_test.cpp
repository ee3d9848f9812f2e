// SPDX-License-Identifier: Apache-2.0
// Each call reuses the lanes of the call before it, and must nevertheless use its own buffers, sizes and values.
#include <memory>
#include <optional>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/block_values.h"
#include "tests/unit/ranks.h"

using namespace rondo_test;

namespace {

enum class Kind { even, uneven, in_place, to_root, from_root };

struct Step {
  Kind kind = Kind::even;
  size_t count = 0;
  bool registered = false;  ///< the buffers are memory of rondo_mem_alloc()
  int root = 0;
};

/// A vector, or memory that peers can map. Both are kept until the end, so that each call has other addresses.
struct Buffer {
  Values plain;
  std::optional<Shared> shared;

  void fill(const Values &values, bool registered) {
    if (registered) shared.emplace(values);
    else plain = values;
  }
  [[nodiscard]] int32_t *data() { return shared ? shared->data() : plain.data(); }
  [[nodiscard]] bool holds(const Values &all) const { return shared ? shared->holds(all) : plain == all; }
};

struct Call {
  Step step;
  Buffer send, recv;
  Values sent, expected;
};

size_t count_of(const Step &step, int from, int to) {
  return step.kind == Kind::uneven ? step.count + static_cast<size_t>(from * 5 + to) : step.count;
}

/// Appends the block from `from` to `to`, with other elements in each round.
void append(Values &values, const Step &step, int from, int to, int round) {
  const size_t begin = values.size();
  put(values, from, to, count_of(step, from, to));
  for (size_t i = begin; i < values.size(); ++i) values[i] += 1'000'000'000 * (round % 2) + 41 * round;
}

/// Fills the buffers of the call, and computes the expected content of recv.
void prepare(Call &call, int rank, int size, int round) {
  const Step &step = call.step;
  for (int peer = 0; peer < size; ++peer) {
    const bool sends = step.kind != Kind::to_root || peer == step.root;
    const bool receives = step.kind != Kind::from_root || peer == step.root;
    if (sends && (step.kind != Kind::from_root || rank == step.root)) append(call.sent, step, rank, peer, round);
    if (receives && (step.kind != Kind::to_root || rank == step.root)) append(call.expected, step, peer, rank, round);
  }
  call.send.fill(call.sent, step.registered);
  call.recv.fill(Values(call.expected.size(), -1), step.registered);
}

rondo_status_t run(Call &call, int rank, int size, rondo_comm_t comm) {
  const Step &step = call.step;
  int32_t *const send = call.send.data(), *const recv = call.recv.data();
  switch (step.kind) {
    case Kind::even: return rondo_all_to_all(send, recv, step.count, RONDO_INT32, comm, nullptr);
    case Kind::in_place: return rondo_all_to_all(send, send, step.count, RONDO_INT32, comm, nullptr);
    case Kind::to_root: return rondo_gather(send, recv, step.count, RONDO_INT32, step.root, comm, nullptr);
    case Kind::from_root: return rondo_scatter(send, recv, step.count, RONDO_INT32, step.root, comm, nullptr);
    case Kind::uneven: break;
  }
  std::vector<size_t> sent, received;
  for (int peer = 0; peer < size; ++peer) {
    sent.push_back(count_of(step, rank, peer));
    received.push_back(count_of(step, peer, rank));
  }
  return rondo_all_to_all_v(send, sent.data(), nullptr, recv, received.data(), nullptr, RONDO_INT32, comm, nullptr);
}

/// Makes the calls one after the other. At the end, every buffer must hold what its own call left there.
rondo_status_t run_all(const std::vector<Step> &steps, int rank, int size, rondo_comm_t comm) {
  std::vector<std::unique_ptr<Call>> calls;
  for (const Step &step : steps) {
    calls.push_back(std::make_unique<Call>());
    calls.back()->step = step;
    prepare(*calls.back(), rank, size, static_cast<int>(calls.size()));
    const auto status = run(*calls.back(), rank, size, comm);
    if (status != RONDO_OK) return status;
  }
  bool as_expected = true;
  for (const auto &call : calls) {
    const bool in_place = call->step.kind == Kind::in_place;
    as_expected &= call->send.holds(in_place ? call->expected : call->sent);
    as_expected &= in_place || call->recv.holds(call->expected);
  }
  return right(as_expected, RONDO_OK);
}

void check(const std::vector<Step> &steps) {
  for (const int size : {1, 2, 3}) {
    INFO(size << " ranks");
    Ranks ranks(size);
    REQUIRE(ranks.status() == RONDO_OK);
    CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) { return run_all(steps, rank, size, comm); })));
  }
}

}  // namespace

TEST_CASE("all_to_all, gather and scatter: a call that is like the one before it uses its own buffers") {
  const size_t large = sanitized() ? 20'000 : 50'000;
  rondo_test::GateShare share("kinds and sizes of repeated calls");
  for (const Kind kind : {Kind::even, Kind::in_place, Kind::to_root, Kind::from_root}) {
    share.skip();  // so that a quarter has another size of each kind
    for (const size_t count : {size_t{8}, size_t{9}, size_t{2'048}, large}) {
      if (!share.has_next()) continue;
      CAPTURE(static_cast<int>(kind), count);
      check({{kind, count}, {kind, count}, {kind, count, true}, {kind, count, true}, {kind, count}});
    }
  }
}

TEST_CASE("all_to_all: a call follows calls of other sizes and kinds") {
  for (const size_t count : {size_t{8}, size_t{2'048}}) {
    CAPTURE(count);
    check({{Kind::even, count}, {Kind::uneven, count}, {Kind::even, count}, {Kind::even, count, true}});
    check({{Kind::even, count}, {Kind::in_place, count}, {Kind::even, count}, {Kind::in_place, count, true}});
    check({{Kind::uneven, count}, {Kind::uneven, count}, {Kind::in_place, count}, {Kind::uneven, count, true}});
  }
  check({{Kind::even, 8}, {Kind::even, 9}, {Kind::even, 8}, {Kind::even, 9, true}});
  check({{Kind::even, 8}, {Kind::even, 0}, {Kind::even, 8}});
  check({{Kind::in_place, 8}, {Kind::in_place, 9}, {Kind::in_place, 8}});
}

TEST_CASE("gather and scatter: the root may change from call to call") {
  for (const size_t count : {size_t{8}, size_t{2'048}})
    for (const Kind kind : {Kind::to_root, Kind::from_root}) {
      const Kind other = kind == Kind::to_root ? Kind::from_root : Kind::to_root;
      CAPTURE(static_cast<int>(kind), count);
      for (const int size : {2, 3}) {
        const std::vector<Step> steps = {{kind, count, false, 0}, {kind, count, false, 1}, {kind, count, true, 0},
                                         {other, count, false, 0}, {kind, count, false, 0}};
        Ranks ranks(size);
        REQUIRE(ranks.status() == RONDO_OK);
        CHECK(all_ok(ranks.run([&](int rank, rondo_comm_t comm) { return run_all(steps, rank, size, comm); })));
      }
    }
}
