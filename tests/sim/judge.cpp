// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/judge.h"

#include <algorithm>

namespace rondo::sim {
namespace {

// These are the promised limits. Time for which a rank was stopped (Scheduler::lost_ns) does not count.
constexpr uint64_t departure_limit_ns = 2 * second;
constexpr uint64_t mismatch_limit_ns = 1 * second;
constexpr uint64_t told_limit_ns = 100 * ms;      // after the first record of the failure
constexpr uint64_t timeout_slack_ns = 1 * second;
constexpr uint64_t init_slack_ns = 3 * second;  // a silent store has 2 s more to name missing ranks
constexpr uint64_t readers_ns = 1 * second;     // a call waits for threads that still read its buffer
constexpr uint64_t race_ns = 100 * ms;            // a rank may arrive while another rank reports that it is missing

class Judge {
 public:
  Judge(const LifePlan &plan, const LifeRecord &record) : plan_(plan), record_(record) {}

  std::vector<std::string> run() {
    check_end();
    for (uint32_t rank = 0; rank < plan_.rank_count; ++rank) {
      check_init(rank);
      for (size_t call = 0; call < record_.ranks[rank].calls.size(); ++call) check_call(rank, call);
      if (!record_.ranks[rank].after_failure.empty()) complain(rank, record_.ranks[rank].after_failure);
      const bool left = record_.ranks[rank].aborted_ns != never_ns;  // its calls fail, without a failure of the others
      const bool recorded = record_.failure || left;
      if (record_.ranks[rank].noticed && !recorded) complain(rank, "noticed a failure that nobody recorded");
    }
    if (record_.failure) check_failure(*record_.failure);
    return std::move(complaints_);
  }

 private:
  void complain(uint32_t rank, const std::string &what) {
    complaints_.push_back("rank " + std::to_string(rank) + ": " + what);
  }

  [[nodiscard]] bool happened(FaultKind kind) const {
    return std::any_of(record_.happened.begin(), record_.happened.end(),
                       [&](uint32_t index) { return plan_.faults[index].kind == kind; });
  }
  [[nodiscard]] bool is_culprit(uint32_t rank) const {
    return std::any_of(record_.happened.begin(), record_.happened.end(),
                       [&](uint32_t index) { return plan_.faults[index].rank == rank; });
  }
  [[nodiscard]] bool survives(const RankRecord &rank) const {
    return rank.came && rank.died_ns == never_ns && rank.stopped_ns == never_ns;
  }
  /// Returns when the rank died or left.
  [[nodiscard]] static uint64_t departed_ns(const RankRecord &rank) {
    return std::min({rank.died_ns, rank.left_ns, rank.finalized_ns});
  }

  /// Returns whether the rank called rondo_comm_finalize() in place of the failed operation.
  [[nodiscard]] static bool finalizes(const RankRecord &rank, const FailureRecord &failure) {
    const uint64_t operation = failure.error.operation;
    if (operation == 0 || rank.calls.size() < operation) return false;
    const CallRecord &call = rank.calls[operation - 1];
    return call.signature == finalize_signature && call.called_ns <= failure.at_ns;
  }

  void check_end() {
    if (record_.outcome != Scheduler::Outcome::over)
      complaints_.push_back(record_.outcome == Scheduler::Outcome::hang ? "somebody waits for ever"
                                                                        : "somebody looks round for ever");
    for (uint32_t rank = 0; rank < plan_.rank_count; ++rank) {
      const RankRecord &it = record_.ranks[rank];
      if (survives(it) && !it.closed && !it.init_error) complain(rank, "its life did not end");
    }
  }

  void check_init(uint32_t rank) {
    const RankRecord &it = record_.ranks[rank];
    if (!it.came || it.init_returned_ns == never_ns) return;
    const uint64_t took_ns = it.init_returned_ns - it.init_called_ns;
    if (took_ns > it.init_lost_ns + plan_.settings.init_timeout_ns + init_slack_ns)
      complain(rank, "initialisation took " + std::to_string(took_ns / ms) + " ms");
    check_death_in_init(rank);
    if (!it.init_error) return;
    const Error &error = *it.init_error;
    const bool cause = happened(FaultKind::kill) || happened(FaultKind::stop) || happened(FaultKind::absent) ||
                       happened(FaultKind::partition) || happened(FaultKind::other_settings);
    if (!cause) complain(rank, "initialisation failed without a cause: " + error.message);
    const bool differs = happened(FaultKind::other_settings);
    if (differs && record_.happened.size() == 1 && error.status != RONDO_ERROR_MISMATCH)
      complain(rank, "settings differ, but it got: " + error.message);
    if (error.status == RONDO_ERROR_MISMATCH) {
      if (!differs || error.message.find("RONDO_SLOT_COUNT") == std::string::npos)
        complain(rank, "initialisation found another difference: " + error.message);
      return;
    }
    if (error.status != RONDO_ERROR_TIMEOUT && error.status != RONDO_ERROR_REMOTE)
      return complain(rank, "initialisation: status " + std::string(rondo_status_string(error.status)) + ": " +
                                error.message);
    if (error.peer < 0 || record_.cut) return;
    const auto peer = static_cast<uint32_t>(error.peer);
    const RankRecord &named = record_.ranks[peer];
    if (!is_culprit(peer) && !(named.init_error && named.init_returned_ns <= it.init_returned_ns))
      complain(rank, "initialisation blames rank " + std::to_string(peer) + ": " + error.message);
  }

  /// Checks, if only deaths occurred, that an initialisation ended in time and named a dead rank.
  void check_death_in_init(uint32_t rank) {
    const RankRecord &it = record_.ranks[rank];
    const bool only_deaths = std::all_of(record_.happened.begin(), record_.happened.end(), [&](uint32_t index) {
      return plan_.faults[index].kind == FaultKind::kill;
    });
    for (uint32_t peer = 0; peer < plan_.rank_count && only_deaths; ++peer) {
      const RankRecord &dead = record_.ranks[peer];
      if (peer == rank || dead.died_ns == never_ns || dead.entered_init_ns >= dead.died_ns) continue;
      if (it.init_returned_ns <= dead.died_ns) continue;
      const uint64_t since_ns = std::max(dead.died_ns, it.init_called_ns);
      if (it.init_returned_ns > since_ns + departure_limit_ns + it.init_lost_ns)
        complain(rank, "initialisation ended " + std::to_string((it.init_returned_ns - since_ns) / ms) +
                           " ms after rank " + std::to_string(peer) + " had died");
      if (!it.init_error) continue;  // all ranks had met
      const int32_t named = it.init_error->peer;
      const bool is_dead = named >= 0 && record_.ranks[static_cast<uint32_t>(named)].died_ns != never_ns;
      // If the rank entered after the death had made rank 0 give up, the error names rank 0, which ran the store.
      const bool too_late = named == 0 && it.entered_init_ns == never_ns && record_.ranks[0].init_error;
      if (it.init_error->status != RONDO_ERROR_REMOTE || (!is_dead && !too_late))
        complain(rank, "rank " + std::to_string(peer) + " died in initialisation, but: " + it.init_error->message);
    }
  }

  void check_failure(const FailureRecord &failure) {
    const Error &error = failure.error;
    const std::string place = " (operation " + std::to_string(error.operation) + "): " + error.message;
    const auto &calls = record_.ranks[failure.rank].calls;
    const bool in_call = error.operation >= 1 && error.operation <= calls.size() &&
                         calls[error.operation - 1].called_ns <= failure.at_ns &&
                         calls[error.operation - 1].returned_ns >= failure.at_ns;
    const bool between = record_.ranks[failure.rank].idle_ns <= failure.at_ns && error.operation == calls.size() + 1;
    // If ranks disagreed or finalized early, the error may name a later operation, which detected that.
    const bool parted = error.status == RONDO_ERROR_MISMATCH ||
                        (error.status == RONDO_ERROR_REMOTE && error.peer >= 0 &&
                         finalizes(record_.ranks[static_cast<uint32_t>(error.peer)], failure));
    const bool earlier = parted && error.operation < calls.size();
    if (!in_call && !between && !earlier && error.status != RONDO_ERROR_ABORTED)
      complain(failure.rank, "names an operation that it is not in" + place);
    switch (error.status) {
      case RONDO_ERROR_REMOTE:
        return check_remote(failure, place);
      case RONDO_ERROR_TIMEOUT:
        return check_timeout(failure, place);
      case RONDO_ERROR_MISMATCH:
        return check_mismatch(failure, place);
      case RONDO_ERROR_ABORTED:
        return check_aborted(failure, place);
      default:
        complain(failure.rank, "status " + std::string(rondo_status_string(error.status)) + place);
    }
  }

  /// Checks that the named rank has aborted. If another rank raises the failure, it must need the named rank.
  void check_aborted(const FailureRecord &failure, const std::string &place) {
    const auto peer = static_cast<uint32_t>(failure.error.peer);
    if (failure.error.peer < 0 || peer >= plan_.rank_count || record_.ranks[peer].aborted_ns > failure.at_ns)
      return complain(failure.rank, "nobody aborted" + place);
    if (peer != failure.rank && record_.ranks[peer].completed >= failure.error.operation)
      complain(failure.rank, "names a rank that had completed the operation" + place);
  }

  void check_remote(const FailureRecord &failure, const std::string &place) {
    const auto peer = static_cast<uint32_t>(failure.error.peer);
    if (failure.error.peer < 0 || peer >= plan_.rank_count) return complain(failure.rank, "names no rank" + place);
    const RankRecord &named = record_.ranks[peer];
    if (departed_ns(named) > failure.at_ns && !finalizes(named, failure))
      complain(failure.rank, "names a rank that is there" + place);
    if (named.completed >= failure.error.operation)
      complain(failure.rank, "names a rank that had completed the operation" + place);
    if (failure.error.message.find("rank " + std::to_string(peer) + " (host sim, process ") == std::string::npos)
      complain(failure.rank, "does not say which process" + place);
  }

  void check_timeout(const FailureRecord &failure, const std::string &place) {
    const uint64_t operation = failure.error.operation;
    const RankRecord &own = record_.ranks[failure.rank];
    if (operation == 0 || own.entered_ns.size() < operation)
      return complain(failure.rank, "timed out in an operation that it did not enter" + place);
    if (failure.at_ns < own.entered_ns[operation - 1] + plan_.settings.timeout_ns)
      complain(failure.rank, "timed out early" + place);
    bool names_culprit = is_culprit(failure.rank);
    for (uint32_t rank = 0; rank < plan_.rank_count && !names_culprit; ++rank)
      names_culprit = is_culprit(rank) &&
                      failure.error.message.find("rank " + std::to_string(rank) + " (host") != std::string::npos;
    if (!names_culprit) complain(failure.rank, "does not name the rank that it waits for" + place);
    if (failure.error.peer < 0) return;
    const auto &entered = record_.ranks[static_cast<uint32_t>(failure.error.peer)].entered_ns;
    if (entered.size() >= operation && entered[operation - 1] + race_ns < failure.at_ns)
      complain(failure.rank, "says that a rank did not arrive which did" + place);
  }

  void check_mismatch(const FailureRecord &failure, const std::string &place) {
    const uint64_t operation = failure.error.operation;
    const auto &own = record_.ranks[failure.rank].calls;
    if (failure.error.peer < 0) return complain(failure.rank, "names no rank" + place);
    const auto peer = static_cast<uint32_t>(failure.error.peer);
    const auto &theirs = record_.ranks[peer].calls;
    if (operation == 0 || own.size() < operation || theirs.size() < operation)
      return complain(failure.rank, "disagrees with a rank that has not called" + place);
    const Signature &mine = own[operation - 1].signature;
    const Signature &other = theirs[operation - 1].signature;
    if (mine == other) complain(failure.rank, "disagrees with a rank that called the same" + place);
    if ((mine == finalize_signature) != (other == finalize_signature))
      complain(failure.rank, "takes a rank that finalizes for one that disagrees" + place);
    const std::string &text = failure.error.message;
    for (const std::string &part : {describe(mine), describe(other), "rank " + std::to_string(failure.rank) + " called",
                                    "rank " + std::to_string(peer) + " (host",
                                    "operation " + std::to_string(operation)})
      if (text.find(part) == std::string::npos) complain(failure.rank, "does not say '" + part + "'" + place);
  }

  void check_call(uint32_t rank, size_t index) {
    const CallRecord &call = record_.ranks[rank].calls[index];
    const std::string name = "operation " + std::to_string(index + 1) + " (" + describe(call.signature) + ")";
    if (!call.wrong.empty()) complain(rank, "WRONG RESULT of " + name + ": " + call.wrong);
    if (call.returned_ns == never_ns) return;  // killed, stopped, or a hang: see check_end()
    check_limits(rank, index, name);
    if (call.ok) return check_agreement(rank, index, name);
    const bool left = call.error.status == RONDO_ERROR_ABORTED && call.error.peer == static_cast<int32_t>(rank);
    if (left && record_.ranks[rank].aborted_ns <= call.returned_ns) return;
    if (!record_.failure) return complain(rank, name + " failed, but nobody recorded why: " + call.error.message);
    const Error &first = record_.failure->error;
    if (call.error.status != first.status || call.error.peer != first.peer ||
        call.error.operation != first.operation || call.error.message != first.message)
      complain(rank, name + ": not the first failure: " + call.error.message);
  }

  /// Checks that `rank` did not complete a call that waits for all ranks after another rank had made a different call.
  void check_agreement(uint32_t rank, size_t index, const std::string &name) {
    const auto &calls = record_.ranks[rank].calls;
    if (!waits_for_all(calls[index].signature)) return;
    for (uint32_t peer = 0; peer < plan_.rank_count; ++peer) {
      const auto &theirs = record_.ranks[peer].calls;
      for (size_t before = 0; before <= index && before < theirs.size(); ++before)
        if (theirs[before].signature != calls[before].signature)
          return complain(rank, name + " was completed, though rank " + std::to_string(peer) + " had called " +
                                    describe(theirs[before].signature) + " in place of " +
                                    describe(calls[before].signature) + " as operation " + std::to_string(before + 1));
    }
  }

  /// Checks that a call ended within each promised limit. Lost time does not count.
  void check_limits(uint32_t rank, size_t index, const std::string &name) {
    const CallRecord &call = record_.ranks[rank].calls[index];
    const auto within = [&](uint64_t from_ns, uint64_t limit_ns, const char *after) {
      const uint64_t begin_ns = std::max(from_ns, call.called_ns);
      if (from_ns == never_ns || call.returned_ns <= begin_ns + limit_ns + call.lost_ns) return;
      complain(rank, name + " ended " + std::to_string((call.returned_ns - begin_ns) / ms) + " ms after " + after +
                         ", of which " + std::to_string(call.lost_ns / ms) + " ms were not its own" +
                         (call.ok ? "" : ": " + call.error.message));
    };
    within(call.called_ns, plan_.settings.timeout_ns + timeout_slack_ns, "the call");
    const uint64_t readers = (plan_.readable_kinds & kind_bit(PayloadKind::address)) != 0 ? readers_ns : 0;
    if (record_.failure) within(record_.failure->at_ns, told_limit_ns + readers, "the failure was recorded");
    for (uint32_t peer = 0; peer < plan_.rank_count; ++peer) {
      const RankRecord &other = record_.ranks[peer];
      if (peer == rank) continue;
      if (other.completed <= index) within(departed_ns(other), departure_limit_ns + readers, "a rank had gone");
      const bool both = other.entered_ns.size() > index && other.calls.size() > index;
      if (both && other.calls[index].signature != call.signature)
        within(other.entered_ns[index], mismatch_limit_ns + readers, "a rank had called something else");
    }
  }

  const LifePlan &plan_;
  const LifeRecord &record_;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> judge(const LifePlan &plan, const LifeRecord &record) { return Judge(plan, record).run(); }

}  // namespace rondo::sim
