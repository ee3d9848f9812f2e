// SPDX-License-Identifier: Apache-2.0
// This test compares the memory accesses of the kernel load_store, one by one, with its program
// (src/plan/load_store_program.h). load_store_model_test.cpp runs all interleavings of the program. This test
// runs a mix of algorithms, and compares waits, outputs, counters, and operands in the order of their
// reduction.
#include <array>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "src/engine/load_store.h"
#include "src/plan/load_store_program.h"
#include "src/plan/plan.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/executor_world.h"
#include "tests/unit/rank_order_reference.h"

using namespace rondo;
using load_store::Bytes;
using load_store::Counter;
using load_store::Mark;
using load_store::Memory;

namespace {

constexpr uint32_t trace_chunk_bytes = 256, trace_post_bytes = 128;
constexpr uint64_t cache_bytes = 2 * trace_chunk_bytes;

struct RankBuffers {
  std::vector<std::byte> send, recv;
  bool in_place = false;
  [[nodiscard]] std::byte *target() { return in_place ? send.data() : recv.data(); }
};

std::string text_of(const Bytes &bytes) {
  static constexpr std::array names{"send", "recv", "announcement", "post", "contribution", "result"};
  std::ostringstream out;
  out << names[static_cast<size_t>(bytes.memory)] << bytes.rank << '.' << bytes.area << '[' << bytes.first << ".."
      << bytes.first + bytes.count << ')';
  return out.str();
}

std::string text_of(const Mark &mark) {
  static constexpr std::array names{"post", "contributed", "reduced", "gathered", "hops_done"};
  return std::string(names[static_cast<size_t>(mark.counter)]) + std::to_string(mark.rank) + "=" +
         std::to_string(mark.value);
}

template <class List>
std::string list_of(const List &list) {
  std::string text;
  for (const Bytes &bytes : list) text += " " + text_of(bytes);
  return text;
}

/// One text for each access, lane by lane, without the rank's own counters and without announcements.
using Accesses = std::array<std::vector<std::string>, 2>;

Accesses accesses_of(const load_store::Program &program, uint32_t rank) {
  Accesses all;
  for (size_t lane = 0; lane < program.lanes.size(); ++lane)
    for (const load_store::ProgramStep &step : program.lanes[lane]) {
      for (const Mark &mark : step.waits)
        if (mark.rank != rank) all[lane].push_back("wait " + text_of(mark));
      for (const load_store::Work &work : step.works) {
        const bool told = work.operands.empty() || work.outputs.empty();  // an announcement
        if (!told) all[lane].push_back("from" + list_of(work.operands) + " to" + list_of(work.outputs));
      }
      if (step.publish) all[lane].push_back("publish " + text_of(*step.publish));
    }
  return all;
}

/// Records one rank's accesses.
class Recorder final : public ExchangeTrace {
 public:
  Recorder(const ExchangeView &view, std::vector<RankBuffers> &buffers, bool has_lanes)
      : view_(view), buffers_(buffers), has_lanes_(has_lanes) {}

  void waited(const uint64_t &word, uint64_t value) override {
    group_.push_back("wait " + text_of(mark_of(word, value)));
  }
  void published(const uint64_t &word, uint64_t value) override {
    const Mark mark = mark_of(word, value);
    group_.push_back("publish " + text_of(mark));
    flush(has_lanes_ && mark.counter == Counter::gathered ? 1 : 0);
  }
  void copied(const std::byte *to, const std::byte *from, size_t bytes) override {
    group_.push_back("from " + text_of(bytes_of(from, bytes)) + " to " + text_of(bytes_of(to, bytes)));
  }
  void reduced(std::span<const std::byte *const> operands, std::span<std::byte *const> outputs, size_t bytes) override {
    std::vector<Bytes> from, to;
    for (const std::byte *operand : operands) from.push_back(bytes_of(operand, bytes));
    for (const std::byte *output : outputs) to.push_back(bytes_of(output, bytes));
    group_.push_back("from" + list_of(from) + " to" + list_of(to));
  }
  [[nodiscard]] Accesses take() {
    flush(0);
    return std::move(all_);
  }

 private:
  /// Ends a group. A group is all accesses up to a counter.
  void flush(size_t lane) {
    all_[lane].insert(all_[lane].end(), group_.begin(), group_.end());
    group_.clear();
  }
  [[nodiscard]] Mark mark_of(const uint64_t &word, uint64_t value) const {
    for (uint32_t rank = 0; rank < view_.geometry.rank_count; ++rank) {
      const ExchangePlace &place = view_.place(rank);
      for (const ExchangePost &post : place.posts)
        if (&post.flag == &word) return {Counter::post, rank, value >> 32};
      if (&place.contributed.value == &word) return {Counter::contributed, rank, value};
      if (&place.reduced.value == &word) return {Counter::reduced, rank, value};
      if (&place.gathered.value == &word) return {Counter::gathered, rank, value};
      if (&place.hops_done.value == &word) return {Counter::hops_done, rank, value};
    }
    return {Counter::post, UINT32_MAX, value};
  }
  [[nodiscard]] Bytes bytes_of(const std::byte *at, size_t bytes) const {
    for (uint32_t rank = 0; rank < buffers_.size(); ++rank) {
      const auto in = [&](const std::vector<std::byte> &memory) {
        return !memory.empty() && at >= memory.data() && at < memory.data() + memory.size();
      };
      const RankBuffers &own = buffers_[rank];
      if (in(own.recv)) return {Memory::recv, rank, 0, static_cast<uint64_t>(at - own.recv.data()), bytes};
      if (in(own.send))
        return {own.in_place ? Memory::recv : Memory::send, rank, 0, static_cast<uint64_t>(at - own.send.data()),
                bytes};
    }
    const auto offset = static_cast<uint64_t>(at - view_.base);
    const auto rank = static_cast<uint32_t>(offset / view_.geometry.stride());
    const uint64_t first = offset % view_.geometry.stride();
    const auto in_areas = [&](Memory memory, uint64_t begin, uint64_t size) -> Bytes {
      return {memory, rank, static_cast<uint32_t>((first - begin) / size), (first - begin) % size, bytes};
    };
    if (first < 2 * sizeof(ExchangePost))
      return {Memory::post, rank, static_cast<uint32_t>(first / sizeof(ExchangePost)),
              first % sizeof(ExchangePost) - offsetof(ExchangePost, payload), bytes};
    if (first >= view_.geometry.results_offset())
      return in_areas(Memory::result, view_.geometry.results_offset(), view_.geometry.result_bytes());
    if (first >= view_.geometry.contributions_offset())
      return in_areas(Memory::contribution, view_.geometry.contributions_offset(), view_.geometry.chunk_bytes);
    return in_areas(Memory::post, sizeof(ExchangePlace), view_.geometry.post_bytes);
  }

  const ExchangeView &view_;
  std::vector<RankBuffers> &buffers_;
  bool has_lanes_;
  std::vector<std::string> group_;
  Accesses all_;
};

/// One all-reduce of all ranks.
struct Drawn {
  PlanChoice choice;
  rondo_type_t type = RONDO_FLOAT32;
  uint64_t count = 0;
  std::vector<bool> offers_send, offers_recv, in_place;

  explicit Drawn(std::mt19937_64 &random, uint32_t rank_count) {
    static constexpr std::array algorithms{RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_RING};
    const rondo_algorithm_t algorithm = algorithms[random() % 3];
    choice = {algorithm, RONDO_PROTOCOL_AUTO, 1, random() % 2 == 0 ? 64u : trace_chunk_bytes, RONDO_KERNEL_LOAD_STORE};
    type = random() % 4 == 0 ? RONDO_FLOAT8_E4M3 : RONDO_FLOAT32;
    count = random() % (algorithm == RONDO_ALGORITHM_ONE_SHOT ? trace_post_bytes / rondo_type_size(type) + 1 : 3000);
    const uint64_t exporting = random() % 3, placement = random() % 3;  // no rank, all ranks, or each rank decides
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      in_place.push_back(placement == 1 || (placement == 2 && random() % 2 == 0));
      offers_send.push_back(exporting == 1 || (exporting == 2 && random() % 2 == 0));
      offers_recv.push_back(in_place.back() ? offers_send.back()
                                            : exporting == 1 || (exporting == 2 && random() % 2 == 0));
    }
  }
  [[nodiscard]] uint64_t bytes() const { return count * rondo_type_size(type); }
  [[nodiscard]] std::unique_ptr<Plan> plan_of(uint32_t rank, uint32_t rank_count) const {
    OperationKey key;
    key.signature = {RONDO_ALL_REDUCE, static_cast<uint32_t>(type), RONDO_SUM, 0, count, 0};
    key.in_place = in_place[rank];
    return build_plan(key, choice, ConnectionGeometry{4, 64, 64}, rank, rank_count).value();
  }
  /// Returns the operation with only the offered buffers that the kernel must export (docs/load-store.md).
  [[nodiscard]] load_store::Operation operation_of(uint32_t rank, const ExchangeGeometry &geometry, const Plan &plan,
                                                   bool wake) const {
    load_store::Operation it;
    it.algorithm = choice.algorithm;
    it.rank = rank;
    it.geometry = geometry;
    it.tiles = plan.lanes.front().program.partition;
    it.count = count;
    it.element_bytes = static_cast<uint32_t>(rondo_type_size(type));
    it.cheap = type == RONDO_FLOAT32;
    it.wake = wake;
    it.cache_bytes = cache_bytes;
    it.in_place = in_place;
    for (uint32_t peer = 0; peer < geometry.rank_count; ++peer) {
      const bool pair = choice.algorithm == RONDO_ALGORITHM_RING && geometry.rank_count == 2 && it.cheap;
      const bool worth = wake || in_place[peer] || pair || bytes() >= 4 * uint64_t{geometry.chunk_bytes};
      it.exports_send.push_back(offers_send[peer] && worth);
      it.exports_recv.push_back(offers_recv[peer] && worth);
    }
    return it;
  }
};

}  // namespace

TEST_CASE("load_store: what the kernel does, access by access, is its program") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  std::mt19937_64 random(seed);
  rondo_test::GateShare share("calls whose accesses are compared with the program");
  for (const uint32_t rank_count : {2u, 3u, 4u, 7u})
    for (const bool wake : {false, true}) {
      const ExchangeGeometry geometry{rank_count, trace_post_bytes, trace_chunk_bytes, exchange_area_count_min};
      std::vector<std::byte> memory(geometry.bytes() + cache_line_bytes);
      const uintptr_t aligned = (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64;
      const ExchangeView view{reinterpret_cast<std::byte *>(aligned), geometry};
      test::LocalPeers peers;
      const std::vector<uint32_t> readable(rank_count, kind_bit(PayloadKind::address));
      std::vector<ExchangeEnd> ends;
      for (uint32_t rank = 0; rank < rank_count; ++rank)
        ends.emplace_back(view, rank, readable, peers, wake, cache_bytes);
      load_store::Position position;
      for (int call = 0; call < 60; ++call) {
        const Drawn drawn(random, rank_count);
        if (!share.has_next()) continue;
        CAPTURE(rank_count, wake, call, rondo_algorithm_string(drawn.choice.algorithm), drawn.count,
                drawn.choice.chunk_bytes);
        std::vector<RankBuffers> buffers(rank_count);
        std::vector<Accesses> done(rank_count), expected;
        load_store::Position after;
        bool has_lanes = false;
        for (uint32_t rank = 0; rank < rank_count; ++rank) {
          buffers[rank] = {std::vector<std::byte>(drawn.bytes()),
                           std::vector<std::byte>(drawn.in_place[rank] ? 0 : drawn.bytes()), drawn.in_place[rank]};
          after = position;
          const auto plan = drawn.plan_of(rank, rank_count);
          const auto program = make_program(drawn.operation_of(rank, geometry, *plan, wake), after);
          has_lanes = program.lanes.size() == 2;
          expected.push_back(accesses_of(program, rank));
        }
        position = after;
        std::vector<std::thread> threads;
        for (uint32_t rank = 0; rank < rank_count; ++rank)
          threads.emplace_back([&, rank] {
            Recorder recorder(view, buffers, has_lanes);
            ends[rank].trace_to(recorder);
            const auto plan = drawn.plan_of(rank, rank_count);
            Buffers given{{buffers[rank].send.data(), 0, {}}, {buffers[rank].target(), 0, {}}, 7};
            given.send.handle.exported = drawn.offers_send[rank];
            given.recv.handle.exported = drawn.offers_recv[rank];
            const HostReducer reducer{reduce_function(drawn.type, RONDO_SUM), reduce_function(drawn.type, RONDO_SUM),
                                      0};
            test::Patience patience;
            Waiter waiter(WaitPolicy{4, 0, UINT32_MAX, false}, peers, patience);
            const RunOutcome outcome = ends[rank].run(*plan, given, reducer, waiter);
            if (outcome.kind == RunOutcome::Kind::done) done[rank] = recorder.take();
          });
        for (std::thread &thread : threads) thread.join();
        for (uint32_t rank = 0; rank < rank_count; ++rank) {
          CAPTURE(rank);
          REQUIRE(done[rank][0] == expected[rank][0]);
          REQUIRE(done[rank][1] == expected[rank][1]);
        }
      }
    }
}
