// SPDX-License-Identifier: Apache-2.0
// This program is one rank of a job that grows a communicator: `grow_ranks SCENARIO NEW MAKER [VICTIM FOLDER]`. The
// last NEW ranks of the job are new, and the others are the parent. MAKER makes the id, and the job's communicator
// passes it on. The program uses only the public interface, and prints one line with its result like rank_program.
//     grow    all ranks grow the parent, compute, and do so once more
//     wait    VICTIM, a new rank, dies while all wait for the last new rank, which never calls
//     strike  VICTIM, an old rank, dies as it connects to the store, where the others wait
//     absent  the last new rank never calls
// Ranks that wait at the store make files in FOLDER. The victim waits for these files.
#include <signal.h>

#include <thread>

#include "tests/proc/part_program.h"
#include "tests/sanitized.h"

namespace {

constexpr uint32_t init_timeout_ms = 10'000;  // for ranks that wait for one that never calls

struct Roles {
  Roles(const Rank &self, const Arguments &args)
      : job(self), old_count(self.size - std::stoi(args[0])), maker(std::stoi(args[1])),
        victim(args.size() > 2 ? std::stoi(args[2]) : -1), folder(args.size() > 3 ? args[3] : "") {}
  [[nodiscard]] bool is_new() const { return job.rank >= old_count; }
  [[nodiscard]] bool is_last() const { return job.rank == job.size - 1; }

  const Rank job;
  const int old_count, maker, victim;
  const std::string folder;
  bool has_split = false;
  Rank parent;  ///< without a communicator on a new rank
  rondo_unique_id_t id{};
};

/// Makes the parent. If this rank is the maker, it also makes the id. Passes the id to all ranks.
rondo_status_t prepare(Roles &roles) {
  const Rank &job = roles.job;
  if (!roles.has_split) {
    roles.has_split = true;
    const int color = roles.is_new() ? RONDO_NO_COLOR : 0;
    if (const auto status = rondo_comm_split(job.comm, color, 0, nullptr, &roles.parent.comm)) return status;
    roles.parent.rank = job.rank;
    roles.parent.size = roles.old_count;
  }
  if (job.rank == roles.maker)
    if (const auto status = rondo_comm_grow_id(roles.parent.comm, &roles.id)) return status;
  return rondo_broadcast(roles.id.internal, roles.id.internal, sizeof roles.id.internal, RONDO_UINT8, roles.maker,
                         job.comm, nullptr);
}

rondo_status_t grow(const Roles &roles, const rondo_config_t *config, Rank *grown) {
  *grown = roles.job;
  grown->comm = nullptr;
  if (roles.is_new())
    return rondo_comm_grow(nullptr, &roles.id, roles.job.rank, roles.job.size, config, &grown->comm);
  return rondo_comm_grow(roles.parent.comm, nullptr, -1, roles.job.size, config, &grown->comm);
}

int some_sums(const Rank &self) {
  std::vector<int32_t> values(5000);
  int outcome = RONDO_OK;
  for (int round = 0; round < 3 && outcome == RONDO_OK; ++round)
    outcome = sum_once(self, values.data(), values.size(), round);
  return outcome;
}

/// Reports a failed grow. If all ranks of the parent live, computes on the parent. Returns the exit status.
int end_failed(const Roles &roles, rondo_status_t status) {
  report({nullptr, roles.job.rank, roles.job.size}, status);
  if (roles.is_new()) return 0;
  if (roles.victim < 0 || roles.victim >= roles.old_count)
    if (some_sums(roles.parent) != RONDO_OK) return fail(roles.job, "PARENT");
  return rondo_comm_destroy(roles.parent.comm) == RONDO_OK ? 0 : fail(roles.job, "DESTROY");
}

int run_grow(const Rank &self, const Arguments &args) {
  Roles roles(self, args);
  for (int time = 0; time < 2; ++time) {
    if (const auto status = prepare(roles)) return report(self, status);
    Rank grown;
    if (const auto status = grow(roles, nullptr, &grown)) return report({nullptr, self.rank, self.size}, status);
    int rank = -1, size = -1;
    if (rondo_comm_rank(grown.comm, &rank) != RONDO_OK || rondo_comm_size(grown.comm, &size) != RONDO_OK ||
        rank != self.rank || size != self.size)
      return fail(self, "RANK");
    if (const int outcome = some_sums(grown); outcome != RONDO_OK) return finish(grown, outcome);
    if (!roles.is_new() && some_sums(roles.parent) != RONDO_OK) return fail(self, "PARENT");
    if (rondo_comm_finalize(grown.comm) != RONDO_OK || rondo_comm_destroy(grown.comm) != RONDO_OK)
      return fail(self, "DESTROY");
  }
  if (!roles.is_new() && rondo_comm_destroy(roles.parent.comm) != RONDO_OK) return fail(self, "DESTROY");
  return report(self, rondo_comm_finalize(self.comm));
}

int run_wait(const Rank &self, const Arguments &args) {
  Roles roles(self, args);
  if (const auto status = prepare(roles)) return report(self, status);
  if (roles.is_last()) return 0;
  note_arrival(roles.folder, self.rank);
  if (self.rank == roles.victim)
    std::thread([folder = roles.folder, count = self.size - 1] {
      if (wait_for_arrivals(folder, -1, count)) ::raise(SIGKILL);
    }).detach();
  Rank grown;
  return end_failed(roles, grow(roles, nullptr, &grown));
}

int run_strike(const Rank &self, const Arguments &args) {
  Roles roles(self, args);
  if (const auto status = prepare(roles)) return report(self, status);
  note_arrival(roles.folder, self.rank);
  awaited = {roles.folder, self.rank, self.size};
  strikes = self.rank == roles.victim;
  Rank grown;
  return end_failed(roles, grow(roles, nullptr, &grown));
}

int run_absent(const Rank &self, const Arguments &args) {
  Roles roles(self, args);
  if (const auto status = prepare(roles)) return report(self, status);
  if (roles.is_last()) return 0;
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.init_timeout_ms = rondo_test::sanitized() ? 4 * init_timeout_ms : init_timeout_ms;
  Rank grown;
  return end_failed(roles, grow(roles, &config, &grown));
}

constexpr Scenario scenarios[]{
    {"grow", run_grow}, {"wait", run_wait}, {"strike", run_strike}, {"absent", run_absent}};

}  // namespace

int main(int argc, char **argv) { return run_scenario(argc, argv, scenarios); }
