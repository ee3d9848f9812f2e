// SPDX-License-Identifier: Apache-2.0
// This program is one rank of a job that shrinks its communicator: `shrink_ranks SCENARIO [ARGUMENTS]`. It uses only
// the public interface, and prints one line with its result like rank_program.
//     survive VICTIM... the VICTIMs die one after another, in the middle of sums; the others shrink and continue
//     chaos SEED DEATHS     DEATHS ranks die, each at any time, and the others shrink until they have a communicator
//     strike FIRST SECOND   FIRST dies; SECOND dies as it connects to the store of the shrunk communicator
//     differ RANK           that rank excludes rank 1 and the last one, the others exclude rank 1 alone
//     healthy               shrinks without a failure, beside sums on the parent
//     revoke RANK           that rank revokes while the others wait for it
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "tests/proc/part_program.h"

namespace {

rondo_status_t shrink(const Rank &self, const std::vector<int> &excluded, unsigned flags, Rank *rest) {
  rest->comm = nullptr;
  const rondo_status_t status =
      rondo_comm_shrink(self.comm, excluded.data(), static_cast<int>(excluded.size()), flags, nullptr, &rest->comm);
  if (status != RONDO_OK) return status;
  const rondo_status_t ranked = rondo_comm_rank(rest->comm, &rest->rank);
  return ranked != RONDO_OK ? ranked : rondo_comm_size(rest->comm, &rest->size);
}

int some_sums(const Rank &self, int rounds) {
  std::vector<int32_t> values(5000);
  int outcome = RONDO_OK;
  for (int round = 0; round < rounds && outcome == RONDO_OK; ++round)
    outcome = sum_once(self, values.data(), values.size(), round);
  return outcome;
}

/// Returns the rank that the last error of this thread names.
int lost_rank() {
  rondo_error_t error = RONDO_ERROR_INIT;
  static_cast<void>(rondo_comm_last_error(nullptr, &error));
  return error.peer;
}

/// Reports a call that failed without failing the communicator.
int report_call(const Rank &self, rondo_status_t status) { return report({nullptr, self.rank, self.size}, status); }

/// Shrinks once without a failure, because a process's first shrink makes objects that stay.
rondo_status_t warm_up(const Rank &self) {
  Rank rest;
  const rondo_status_t status = shrink(self, {}, 0, &rest);
  return status == RONDO_OK ? rondo_comm_destroy(rest.comm) : status;
}

/// Ends both communicators of a surviving rank. Checks that the communicators made since `before` have left nothing.
int end(const Rank &self, Rank now, const Held &before) {
  const int outcome = report(now, rondo_comm_finalize(now.comm));
  if (now.comm != self.comm && rondo_comm_destroy(now.comm) != RONDO_OK) return fail(self, "DESTROY");
  Held after;
  const auto has_more = [&] {
    return after.descriptors > before.descriptors || after.threads > before.threads || after.mappings > before.mappings;
  };
  for (int look = 0; look < 600 && has_more(); ++look, after = Held())  // threads end by themselves
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (!has_more()) return outcome;
  std::printf("rank %d: descriptors %ld then %ld, threads %ld then %ld, mappings %ld then %ld\n", self.rank,
              before.descriptors, after.descriptors, before.threads, after.threads, before.mappings, after.mappings);
  return fail(self, "COUNT");
}

int run_survive(const Rank &self, const Arguments &args) {
  if (const auto status = warm_up(self)) return report_call(self, status);
  Rank now = self;
  const Held before;
  for (const std::string &victim : args) {
    int outcome = some_sums(now, 3);  // the victim may die before its part of the last sum has left its host
    if (outcome == RONDO_OK && now.rank == std::stoi(victim)) ::raise(SIGKILL);
    if (outcome == RONDO_OK) outcome = some_sums(now, 1'000'000);
    const int lost = lost_rank();
    if (outcome != RONDO_ERROR_REMOTE || lost != std::stoi(victim)) return finish(now, outcome);
    Rank rest;
    if (const auto made = shrink(now, {lost}, RONDO_SHRINK_ABORT, &rest)) return report_call(now, made);
    if (rest.size != now.size - 1 || rest.rank != now.rank - (now.rank > lost ? 1 : 0)) return fail(self, "RANK");
    if (now.comm != self.comm && rondo_comm_destroy(now.comm) != RONDO_OK) return fail(self, "DESTROY");
    now = rest;
  }
  if (const int outcome = some_sums(now, 3); outcome != RONDO_OK) return finish(now, outcome);
  return end(self, now, before);
}

/// Shrinks without the lost rank and without all ranks that end meanwhile. Returns RONDO_OK or the failure.
rondo_status_t shrink_until_made(const Rank &now, int lost, Rank *rest) {
  std::vector<int> excluded{lost};
  rondo_status_t status = RONDO_ERROR_REMOTE;
  while (status == RONDO_ERROR_REMOTE) {
    status = shrink(now, excluded, RONDO_SHRINK_ABORT, rest);
    if (status == RONDO_ERROR_REMOTE) {
      const int peer = lost_rank();
      if (peer < 0 || std::ranges::find(excluded, peer) != excluded.end()) return status;
      excluded.push_back(peer);
    }
  }
  return status;
}

int run_chaos(const Rank &self, const Arguments &args) {
  if (const auto status = warm_up(self)) return report_call(self, status);
  std::mt19937_64 random(std::stoull(args[0]));
  std::vector<int> ranks(static_cast<size_t>(self.size)), delays_us;
  for (int rank = 0; rank < self.size; ++rank) ranks[static_cast<size_t>(rank)] = rank;
  std::ranges::shuffle(ranks, random);
  const int deaths = std::stoi(args[1]);
  for (int death = 0; death < deaths; ++death) delays_us.push_back(static_cast<int>(random() % 40'000));
  const auto place = std::ranges::find(ranks, self.rank) - ranks.begin();
  if (place < deaths)
    std::thread([delay_us = delays_us[static_cast<size_t>(place)]] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      ::raise(SIGKILL);
    }).detach();
  Rank now = self;
  const Held before;
  while (now.size > self.size - deaths) {
    const int outcome = some_sums(now, 1'000'000);
    if (outcome != RONDO_ERROR_REMOTE) return finish(now, outcome);
    const auto failed = std::chrono::steady_clock::now();
    Rank rest;
    if (const auto made = shrink_until_made(now, lost_rank(), &rest)) return report_call(now, made);
    if (now.comm != self.comm && rondo_comm_destroy(now.comm) != RONDO_OK) return fail(self, "DESTROY");
    now = rest;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - failed;
    std::printf("rank %d: shrunk to %d ranks in %.1f ms\n", self.rank, now.size, took.count());
  }
  if (const int outcome = some_sums(now, 3); outcome != RONDO_OK) return finish(now, outcome);
  return end(self, now, before);
}

int run_strike(const Rank &self, const Arguments &args) {
  const int first = std::stoi(args[0]), second = std::stoi(args[1]);
  int outcome = some_sums(self, 3);  // after these sums, all ranks are initialised
  if (outcome == RONDO_OK && self.rank == first) ::raise(SIGKILL);
  if (outcome == RONDO_OK) outcome = some_sums(self, 1'000'000);
  if (outcome != RONDO_ERROR_REMOTE) return finish(self, outcome);
  strikes = self.rank == second;
  Rank rest;
  const rondo_status_t status = shrink(self, {first}, RONDO_SHRINK_ABORT, &rest);
  report_call(self, status);
  if (status != RONDO_ERROR_REMOTE) return fail(self, "SHRINK");
  if (const auto made = shrink(self, {first, second}, RONDO_SHRINK_ABORT, &rest)) return report_call(self, made);
  if (const int sum = some_sums(rest, 3); sum != RONDO_OK) return finish(rest, sum);
  return rondo_comm_destroy(rest.comm) == RONDO_OK ? 0 : fail(self, "DESTROY");
}

int run_differ(const Rank &self, const Arguments &args) {
  if (self.rank == 1) return some_sums(self, 1) == RONDO_ERROR_REVOKED ? 0 : fail(self, "STATUS");
  std::vector<int> excluded{1};
  if (self.rank == std::stoi(args[0])) excluded.insert(excluded.begin(), self.size - 1);
  Rank rest;
  return report_call(self, shrink(self, excluded, RONDO_SHRINK_ABORT, &rest));
}

int run_healthy(const Rank &self, const Arguments &) {
  for (int round = 0; round < 3; ++round) {
    const int excluded = round % self.size;
    if (self.rank != excluded) {
      Rank rest;
      if (const auto made = shrink(self, {excluded, excluded}, 0, &rest)) return report_call(self, made);
      if (const int outcome = some_sums(rest, 3); outcome != RONDO_OK) return finish(self, outcome);
      if (rondo_comm_destroy(rest.comm) != RONDO_OK) return fail(self, "DESTROY");
    }
    if (const int outcome = some_sums(self, 3); outcome != RONDO_OK) return finish(self, outcome);
  }
  return report(self, rondo_comm_finalize(self.comm));
}

int run_revoke(const Rank &self, const Arguments &args) {
  const int before = some_sums(self, 3);  // the last sum may be revoked, since another rank may have completed it
  if (before != RONDO_OK && before != RONDO_ERROR_REVOKED) return finish(self, before);
  if (self.rank == std::stoi(args[0]) && rondo_comm_revoke(self.comm) != RONDO_OK) return fail(self, "REVOKE");
  for (int call = 0; call < 3; ++call)
    if (const int outcome = some_sums(self, 1); outcome != RONDO_ERROR_REVOKED) return finish(self, outcome);
  report(self, rondo_comm_flush(self.comm));
  Rank rest;
  if (const auto made = shrink(self, {}, 0, &rest)) return report_call(self, made);
  if (rest.size != self.size || some_sums(rest, 3) != RONDO_OK) return fail(self, "REST");
  return rondo_comm_destroy(rest.comm) == RONDO_OK ? 0 : fail(self, "DESTROY");
}

constexpr Scenario scenarios[]{{"survive", run_survive}, {"chaos", run_chaos},     {"strike", run_strike},
                               {"differ", run_differ},   {"healthy", run_healthy}, {"revoke", run_revoke}};

}  // namespace

int main(int argc, char **argv) { return run_scenario(argc, argv, scenarios); }
