// SPDX-License-Identifier: Apache-2.0
#include "src/engine/wait_cycle.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "src/links/message_boards.h"
#include "src/plan/collective.h"

namespace rondo {
namespace {

/// The operation that a rank is in. If two readings are equal, the rank was in no other operation between them.
struct Place {
  BatchCounts batches;
  uint64_t entered = 0;  ///< number of the latest collective
  uint64_t completed = 0;

  [[nodiscard]] bool in_batch() const { return batches.entered > batches.completed; }
  [[nodiscard]] bool in_collective() const { return entered > completed; }
  bool operator==(const Place &) const = default;
};

/// Returns whether `rank` cannot complete the call before `peer` has entered it.
bool needs(const Signature &call, uint32_t rank, uint32_t peer) {
  const Collective &traits = traits_of(static_cast<rondo_collective_t>(call.collective));
  if (traits.carrier == Carrier::messages) return false;
  if (!traits.has_data) return true;
  const bool moves = call.count != 0 || call.counts_hash == counts_of_pairs;  // counts_of_pairs: every pair moves slots
  if (traits.root == RootRole::sends) return moves && peer == call.root;
  if (traits.root == RootRole::receives) return moves && rank == call.root;
  if (traits.carrier == Carrier::blocks) return moves;
  return call.count != 0 && call.counts_hash == 0;  // uneven blocks may be empty, so they prove nothing
}

/// A view of the states that ranks publish. About ranks on other hosts it knows only collectives, with some delay. For
/// a rank on a device it reads one report, which stays true (src/engine/wait_cycle.h).
class NearView {
 public:
  NearView(const Ranks &ranks, const MessageBoards &boards, uint32_t rank_count)
      : ranks_(ranks), boards_(boards), devices_(rank_count) {}

  [[nodiscard]] bool knows(uint32_t rank) { return boards_.knows(rank); }
  [[nodiscard]] Place place_of(uint32_t rank) {
    if (const WaitReport *const report = device_of(rank)) return {report->batches, report->entered, report->completed};
    Place place;
    place.completed = ranks_.completed_operation(rank);  // read first, so it does not exceed `entered`
    place.entered = ranks_.latest_operation(rank);
    place.batches = boards_.batches(rank);
    return place;
  }
  [[nodiscard]] uint64_t latest_operation(uint32_t rank) {
    const WaitReport *const report = device_of(rank);
    return report != nullptr ? report->entered : ranks_.latest_operation(rank);
  }
  [[nodiscard]] PairCounts pair(uint32_t of, uint32_t with, bool sends) {
    const WaitReport *const report = device_of(of);
    if (report == nullptr) return boards_.pair(of, with, sends);
    return sends ? report->pairs[with].sends : report->pairs[with].receives;
  }
  [[nodiscard]] BlockedSend blocked(uint32_t of, uint32_t to) {
    const WaitReport *const report = device_of(of);
    return report != nullptr ? report->pairs[to].blocked : boards_.blocked(of, to);
  }
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t rank, uint64_t operation) const {
    return ranks_.entered(rank, operation);
  }

 private:
  struct Device {
    bool is_read = false;
    std::unique_ptr<WaitReport> report;
  };

  /// Returns the report of a rank on a device, or null if it has none. Each report is read once.
  [[nodiscard]] const WaitReport *device_of(uint32_t rank) {
    Device &device = devices_[rank];
    if (std::exchange(device.is_read, true)) return device.report.get();
    WaitReport report;
    if (boards_.device_waits(rank, report)) device.report = std::make_unique<WaitReport>(report);
    return device.report.get();
  }

  const Ranks &ranks_;
  const MessageBoards &boards_;
  std::vector<Device> devices_;  ///< by rank
};

/// This view also reads reports of ranks on other hosts. A rank without a report counts as waiting for nobody.
class FarView {
 public:
  FarView(const Ranks &ranks, MessageBoards &boards, uint32_t rank_count, uint64_t since_ns)
      : near_(ranks, boards, rank_count), boards_(boards), since_ns_(since_ns), reports_(rank_count) {}

  /// Returns whether all needed reports have arrived.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] bool knows(uint32_t rank) { return near_.knows(rank) || report_of(rank) != nullptr; }
  [[nodiscard]] Place place_of(uint32_t rank) {
    if (near_.knows(rank)) return near_.place_of(rank);
    const WaitReport *const report = report_of(rank);
    return report == nullptr ? Place{} : Place{report->batches, report->entered, report->completed};
  }
  /// Returns the number of the rank's latest operation. Without a report, returns the largest possible number.
  [[nodiscard]] uint64_t latest_operation(uint32_t rank) {
    if (near_.knows(rank)) return near_.latest_operation(rank);
    const WaitReport *const report = report_of(rank);
    return report == nullptr ? UINT64_MAX : report->entered;
  }
  [[nodiscard]] PairCounts pair(uint32_t of, uint32_t with, bool sends) {
    if (near_.knows(of)) return near_.pair(of, with, sends);
    const WaitReport::Pair pair = pair_of(of, with);
    return sends ? pair.sends : pair.receives;
  }
  [[nodiscard]] BlockedSend blocked(uint32_t of, uint32_t to) {
    return near_.knows(of) ? near_.blocked(of, to) : pair_of(of, to).blocked;
  }
  [[nodiscard]] std::optional<OperationInfo> entered(uint32_t rank, uint64_t operation) {
    auto call = near_.entered(rank, operation);
    complete_ = complete_ && call.has_value();
    return call;
  }

 private:
  /// Returns the report of a rank on another host, or null if it is missing. Each report is read once.
  [[nodiscard]] const WaitReport *report_of(uint32_t rank) {
    if (reports_[rank] != nullptr) return reports_[rank].get();
    auto report = std::make_unique<WaitReport>();
    if (boards_.read_waits(rank, since_ns_, *report)) reports_[rank] = std::move(report);
    complete_ = complete_ && reports_[rank] != nullptr;
    return reports_[rank].get();
  }
  [[nodiscard]] WaitReport::Pair pair_of(uint32_t of, uint32_t with) {
    const WaitReport *const report = report_of(of);
    return report == nullptr || with >= report->pairs.size() ? WaitReport::Pair{} : report->pairs[with];
  }

  NearView near_;
  MessageBoards &boards_;
  const uint64_t since_ns_;
  std::vector<std::unique_ptr<const WaitReport>> reports_;  ///< by rank
  bool complete_ = true;
};

template <class View>
class Search {
 public:
  Search(View &view, uint32_t rank, uint32_t rank_count)
      : view_(view), rank_(rank), rank_count_(rank_count), seen_(rank_count, false) {}

  /// Returns a circle through the rank, or no edges. It searches depth first and visits each rank once.
  std::vector<WaitEdge> run() {
    enter(rank_);
    while (!path_.empty()) {
      Visit &visit = path_.back();
      if (visit.next == rank_count_) {
        path_.pop_back();
        continue;
      }
      const uint32_t peer = visit.next++;
      if (peer == visit.edge.rank || (peer != rank_ && seen_[peer])) continue;
      if (!waits_for(visit, peer)) continue;
      visit.edge.peer = peer;
      if (peer == rank_) return confirmed();
      enter(peer);
    }
    return {};
  }

 private:
  struct Visit {
    Place place;
    uint32_t next = 0;  ///< the rank to visit next
    WaitEdge edge;
  };

  void enter(uint32_t rank) {
    seen_[rank] = true;
    Visit visit;
    visit.place = view_.place_of(rank);
    visit.edge.rank = rank;
    path_.push_back(visit);
  }

  /// Returns whether the rank of `visit` waits for `peer`. If so, visit.edge describes the operation in which it waits.
  [[nodiscard]] bool waits_for(Visit &visit, uint32_t peer) {
    const uint32_t rank = visit.edge.rank;
    if (visit.place.in_batch()) {
      visit.edge.batch = visit.place.batches.entered;
      const PairCounts receives = view_.pair(rank, peer, false), sends = view_.pair(rank, peer, true);
      const BlockedSend blocked = view_.blocked(rank, peer);
      const bool receiving = receives.entered > receives.completed;
      const bool sending = sends.entered > sends.completed && blocked.message == sends.completed + 1;
      if ((!receiving && !sending) || !view_.knows(peer)) return false;
      if (receiving && view_.pair(peer, rank, true).entered <= receives.completed) {
        visit.edge.kind = WaitEdge::Kind::receive;
        visit.edge.number = receives.completed + 1;
        return true;
      }
      if (!sending || view_.pair(peer, rank, false).entered >= blocked.needed) return false;
      visit.edge.kind = WaitEdge::Kind::send;
      visit.edge.number = blocked.message;
      return true;
    }
    if (!visit.place.in_collective() || view_.latest_operation(peer) >= visit.place.entered) return false;
    const auto call = view_.entered(rank, visit.place.entered);
    visit.edge.kind = WaitEdge::Kind::collective;
    visit.edge.number = visit.place.entered;
    visit.edge.batch = 0;
    return call && needs(call->signature, rank, peer);
  }

  [[nodiscard]] std::vector<WaitEdge> confirmed() {
    std::vector<WaitEdge> cycle;
    for (const Visit &visit : path_) {  // reads again, because each edge was read before its peer's operation
      Visit again = visit;
      if (!waits_for(again, visit.edge.peer)) return {};
      cycle.push_back(again.edge);
    }
    for (const Visit &visit : path_)
      if (view_.place_of(visit.edge.rank) != visit.place) return {};
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end(), by_rank), cycle.end());
    return cycle;
  }

  static bool by_rank(const WaitEdge &a, const WaitEdge &b) { return a.rank < b.rank; }

  View &view_;
  const uint32_t rank_;
  const uint32_t rank_count_;
  std::vector<bool> seen_;
  std::vector<Visit> path_;
};

std::string name_of(const WaitEdge &edge, const Ranks &ranks) {
  const std::string number = std::to_string(edge.number), peer = std::to_string(edge.peer);
  if (edge.kind == WaitEdge::Kind::send) return "send " + number + " to rank " + peer;
  if (edge.kind == WaitEdge::Kind::receive) return "receive " + number + " from rank " + peer;
  const auto call = ranks.entered(edge.rank, edge.number);
  return "operation " + number + (call ? " (" + describe(call->signature) + ")" : "") + " for rank " + peer;
}

}  // namespace

std::vector<WaitEdge> find_wait_cycle(const Ranks &ranks, const MessageBoards &boards, uint32_t rank,
                                      uint32_t rank_count) {
  NearView view(ranks, boards, rank_count);
  return Search(view, rank, rank_count).run();
}

FarSearch find_far_wait_cycle(const Ranks &ranks, MessageBoards &boards, uint32_t rank, uint32_t rank_count,
                              uint64_t since_ns) {
  FarView view(ranks, boards, rank_count, since_ns);
  std::vector<WaitEdge> cycle = Search(view, rank, rank_count).run();
  return {std::move(cycle), view.complete()};
}

std::string describe(const std::vector<WaitEdge> &cycle, const Ranks &ranks) {
  std::string text = "rank " + std::to_string(cycle.front().rank);
  for (size_t each = 0; each < cycle.size(); ++each)
    text += (each == 0 ? " waits in " : ", which waits in ") + name_of(cycle[each], ranks);
  return text;
}

}  // namespace rondo
