// SPDX-License-Identifier: Apache-2.0
#include "tests/disagreement.h"

#include <algorithm>
#include <random>
#include <utility>

namespace rondo_test {
namespace {

constexpr uint32_t timeout_ms = 60'000;  // a rank waits this long only if it got no error
constexpr size_t element_bytes_max = 8;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  [[nodiscard]] uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine_() % bound); }
  [[nodiscard]] bool chance(uint32_t percent) { return below(100) < percent; }
  template <class T>
  [[nodiscard]] T pick(std::initializer_list<T> of) {
    return of.begin()[below(static_cast<uint32_t>(of.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

bool reduces(rondo_collective_t collective) {
  return collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE || collective == RONDO_REDUCE_SCATTER;
}
bool has_root(rondo_collective_t collective) {
  return collective == RONDO_BROADCAST || collective == RONDO_REDUCE || collective == RONDO_GATHER ||
         collective == RONDO_SCATTER;
}

size_t draw_count(Random &random) {
  if (random.chance(15)) return 0;
  return 1 + random.below(random.pick({8u, 100u, 100u, 2'000u, 60'000u}));
}

DrawnCall draw_call(Random &random, int rank_count, bool blocks) {
  DrawnCall call;
  // Most drawn calls are collectives that a rank can complete without waiting for another rank.
  call.collective =
      random.pick({RONDO_BROADCAST, RONDO_BROADCAST, RONDO_BROADCAST, RONDO_REDUCE, RONDO_REDUCE, RONDO_REDUCE,
                   RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER, RONDO_BARRIER});
  if (blocks && random.chance(40)) call.collective = random.pick({RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER});
  call.type = random.pick({RONDO_INT32, RONDO_FLOAT32, RONDO_INT64, RONDO_UINT8});
  call.op = random.pick({RONDO_SUM, RONDO_MAX, RONDO_MIN});
  call.root = static_cast<int>(random.below(static_cast<uint32_t>(rank_count)));
  call.count = draw_count(random);
  return call;
}

/// Draws a call that differs from `call` in one property or in all properties.
DrawnCall draw_other(Random &random, const DrawnCall &call, int rank_count, bool blocks) {
  for (;;) {  // ends, because nearly all draws differ
    DrawnCall other = call;
    switch (random.below(6)) {
      case 0:
        other.root = (call.root + 1) % rank_count;
        break;
      case 1:
        other.count = random.chance(50) ? 0 : draw_count(random);
        break;
      case 2:
        other.collective = random.pick({RONDO_BROADCAST, RONDO_REDUCE, RONDO_ALL_REDUCE});
        break;
      case 3:
        other.type = random.pick({RONDO_INT32, RONDO_FLOAT32});
        break;
      case 4:
        other.op = random.pick({RONDO_SUM, RONDO_MIN});
        break;
      default:
        other = draw_call(random, rank_count, blocks);
        break;
    }
    if (!other.same_as(call)) return other;
  }
}

void draw_parting(Random &random, Disagreement &drawn, bool blocks) {
  const int rank_count = drawn.rank_count;
  std::vector<DrawnCall> groups{draw_call(random, rank_count, blocks)};
  groups.push_back(draw_other(random, groups[0], rank_count, blocks));
  if (rank_count > 2 && random.chance(30)) groups.push_back(draw_other(random, groups[0], rank_count, blocks));
  const auto group_count = static_cast<uint32_t>(groups.size());
  for (int rank = 0; rank < drawn.rank_count; ++rank) drawn.parting.push_back(groups[random.below(group_count)]);
  const auto all = static_cast<uint32_t>(drawn.rank_count);
  const uint32_t first = random.below(all);
  drawn.parting[first] = groups[0];
  drawn.parting[(first + 1 + random.below(all - 1)) % all] = groups[1];
}

rondo_status_t make_call(const DrawnCall &call, const RankPart &part, bool in_place) {
  std::byte *const send = part.send;
  std::byte *const recv = in_place ? send : part.recv;
  const size_t own = in_place ? static_cast<size_t>(part.rank) * call.count * rondo_type_size(call.type) : 0;
  switch (call.collective) {
    case RONDO_ALL_REDUCE:
      return rondo_all_reduce(send, recv, call.count, call.type, call.op, part.comm, part.stream);
    case RONDO_REDUCE_SCATTER:
      return rondo_reduce_scatter(send, recv + own, call.count, call.type, call.op, part.comm, part.stream);
    case RONDO_ALL_GATHER:
      return rondo_all_gather(send + own, recv, call.count, call.type, part.comm, part.stream);
    case RONDO_BROADCAST:
      return rondo_broadcast(send, recv, call.count, call.type, call.root, part.comm, part.stream);
    case RONDO_ALL_TO_ALL:
      return rondo_all_to_all(send, recv, call.count, call.type, part.comm, part.stream);
    case RONDO_GATHER:
      return rondo_gather(send + own, recv, call.count, call.type, call.root, part.comm, part.stream);
    case RONDO_SCATTER:
      return rondo_scatter(send, recv + own, call.count, call.type, call.root, part.comm, part.stream);
    case RONDO_REDUCE:
      return rondo_reduce(send, recv, call.count, call.type, call.op, call.root, part.comm, part.stream);
    default:
      return rondo_barrier(part.comm, part.stream);
  }
}

std::vector<DrawnCall> calls_of(const Disagreement &drawn, size_t rank) {
  std::vector<DrawnCall> calls = drawn.before;
  calls.push_back(drawn.parting[rank]);
  calls.insert(calls.end(), drawn.after.begin(), drawn.after.end());
  return calls;
}

bool holds(const std::string &message, const std::string &part) { return message.find(part) != std::string::npos; }

}  // namespace

bool DrawnCall::same_as(const DrawnCall &other) const {
  if (collective != other.collective) return false;
  if (collective == RONDO_BARRIER) return true;
  return type == other.type && count == other.count && (!reduces(collective) || op == other.op) &&
         (!has_root(collective) || root == other.root);
}

std::string DrawnCall::text() const {
  std::string text = rondo_collective_string(collective);
  if (collective == RONDO_BARRIER) return text;
  text += " of " + std::to_string(count) + " " + rondo_type_string(type);
  if (reduces(collective)) text += std::string(" (") + rondo_op_string(op) + ")";
  const bool from_root = collective == RONDO_BROADCAST || collective == RONDO_SCATTER;
  const char *const relation = from_root ? " from rank " : " to rank ";
  if (has_root(collective)) text += relation + std::to_string(root);
  return text;
}

bool DrawnCall::waits_for_all() const {
  if (collective == RONDO_BARRIER) return true;
  return count != 0 && (collective == RONDO_ALL_REDUCE || collective == RONDO_ALL_GATHER ||
                        collective == RONDO_ALL_TO_ALL);
}

size_t DrawnCall::elements(int rank_count) const { return count * static_cast<size_t>(rank_count); }

std::string Disagreement::text() const {
  std::string text = "seed " + std::to_string(seed) + ": " + std::to_string(rank_count) + " ranks, " +
                     rondo_algorithm_string(config.algorithm) + ", " + rondo_protocol_string(config.protocol) + "\n";
  for (const DrawnCall &call : before) text += "  all: " + call.text() + "\n";
  for (size_t rank = 0; rank < parting.size(); ++rank)
    text += "  rank " + std::to_string(rank) + ": " + parting[rank].text() + (in_place[rank] != 0 ? ", in place" : "") +
            (mapped[rank] != 0 ? ", mapped\n" : "\n");
  for (const DrawnCall &call : after) text += "  all: " + call.text() + "\n";
  return text + "  all: finalize\n";
}

Disagreement draw_disagreement(uint64_t seed, bool blocks) {
  Random random(seed);
  Disagreement drawn;
  drawn.seed = seed;
  drawn.rank_count = random.chance(50) ? 2 : 3 + static_cast<int>(random.below(2));
  drawn.config.timeout_ms = timeout_ms;
  drawn.config.protocol =
      random.pick({RONDO_PROTOCOL_AUTO, RONDO_PROTOCOL_AUTO, RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL});
  drawn.config.algorithm = random.pick({RONDO_ALGORITHM_AUTO, RONDO_ALGORITHM_AUTO, RONDO_ALGORITHM_RING});
  for (uint32_t left = random.below(3); left != 0; --left)
    drawn.before.push_back(draw_call(random, drawn.rank_count, blocks));
  draw_parting(random, drawn, blocks);
  const uint32_t after_count = random.chance(50) ? 0 : random.below(random.pick({3u, 20u}));
  for (uint32_t left = after_count; left != 0; --left)
    drawn.after.push_back(draw_call(random, drawn.rank_count, blocks));
  for (int rank = 0; rank < drawn.rank_count; ++rank) {
    drawn.in_place.push_back(random.chance(40) ? 1 : 0);
    drawn.mapped.push_back(random.chance(40) ? 1 : 0);
  }
  return drawn;
}

size_t buffer_bytes(const Disagreement &drawn) {
  size_t elements = 1;
  for (size_t rank = 0; rank < drawn.parting.size(); ++rank)
    for (const DrawnCall &call : calls_of(drawn, rank)) elements = std::max(elements, call.elements(drawn.rank_count));
  return elements * element_bytes_max;
}

Told live_disagreement(const Disagreement &drawn, const RankPart &part) {
  const auto rank = static_cast<size_t>(part.rank);
  const std::vector<DrawnCall> calls = calls_of(drawn, rank);
  Told told;
  rondo_status_t status = RONDO_OK;
  for (size_t number = 0; number < calls.size() && status == RONDO_OK; ++number) {
    status = make_call(calls[number], part, drawn.in_place[rank] != 0);
    if (status == RONDO_OK && part.settle) status = part.settle();
    const bool parted = number > drawn.before.size();
    if (status == RONDO_OK && parted && calls[number].waits_for_all()) ++told.silent_exchanges;
  }
  if (status == RONDO_OK) {
    status = rondo_comm_finalize(part.comm);
    if (status == RONDO_OK) ++told.silent_exchanges;
  }
  if (status != RONDO_OK) static_cast<void>(rondo_comm_last_error(part.comm, &told.error));
  told.error.status = status;  // the call's status, even if the recorded error has another one
  return told;
}

std::string judge_disagreement(const Disagreement &drawn, const std::vector<Told> &told) {
  for (size_t rank = 0; rank < told.size(); ++rank) {
    const rondo_error_t &error = told[rank].error;
    const std::string who = "rank " + std::to_string(rank);
    if (told[rank].silent_exchanges != 0)
      return who + " was told nothing at " + std::to_string(told[rank].silent_exchanges) + " exchanges of all ranks";
    if (error.status != RONDO_ERROR_MISMATCH)
      return who + " got '" + rondo_status_string(error.status) + "': " + error.message;
    const size_t finder = static_cast<size_t>(error.rank), other = static_cast<size_t>(error.peer);
    if (finder >= told.size() || other >= told.size()) return who + ": no two ranks are named: " + error.message;
    const DrawnCall &one = drawn.parting[finder], &two = drawn.parting[other];
    if (one.same_as(two)) return who + ": ranks are named that agree: " + error.message;
    for (const std::string &part : {"rank " + std::to_string(finder) + " called " + one.text(),
                                    "rank " + std::to_string(other) + " (host ", "called " + two.text(),
                                    "operation " + std::to_string(drawn.before.size() + 1) + " differs between ranks:"})
      if (!holds(error.message, part)) return who + ": the message lacks '" + part + "': " + error.message;
    if (error.operation != drawn.before.size() + 1)
      return who + ": operation " + std::to_string(error.operation) + " is named: " + error.message;
  }
  return {};
}

}  // namespace rondo_test
