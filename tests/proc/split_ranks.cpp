// SPDX-License-Identifier: Apache-2.0
// This program is one rank of a job that splits its communicator: `split_ranks SCENARIO [ARGUMENTS]`. It uses only the
// public interface, and prints one line with its result like rank_program.
//     parts [WAITS]        splits in many ways, and sums on every part; WAITS 0: nonblocking
//     many N               N splits one after another, each destroyed; no descriptor, thread or mapping may be left
//     time N               N splits; rank 0 prints the median
//     dead RANK, late RANK, other RANK, config RANK
//                          that rank dies first, comes after the others' deadline, calls another collective, or gives
//                          another configuration
//     strike RANK COLORS   that rank dies as it connects to the store of its part; ranks of one part have equal
//                          rank % COLORS
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/proc/part_program.h"

namespace {

rondo_status_t wait_until_made(rondo_comm_t comm) {
  rondo_status_t status = RONDO_NOT_READY;
  while (status == RONDO_NOT_READY) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (rondo_comm_get_async_error(comm, &status) != RONDO_OK) return RONDO_ERROR_INTERNAL;
  }
  return status;
}

/// Splits the communicator, and waits until the part is made.
rondo_status_t split(const Rank &self, int color, int key, const rondo_config_t *config, Rank *part) {
  part->comm = nullptr;
  const rondo_status_t status = rondo_comm_split(self.comm, color, key, config, &part->comm);
  if (status != RONDO_OK || part->comm == nullptr) return status;
  const rondo_status_t made = wait_until_made(part->comm);
  if (made != RONDO_OK) return made;
  const rondo_status_t ranked = rondo_comm_rank(part->comm, &part->rank);
  return ranked != RONDO_OK ? ranked : rondo_comm_size(part->comm, &part->size);
}

/// Sums on a part and on the parent, and checks both results.
int check_sums(const Rank &self, const Rank &part) {
  std::vector<int32_t> values(5000);
  for (int round = 0; round < 3; ++round) {
    if (part.comm != nullptr)
      if (const int outcome = sum_once(part, values.data(), values.size(), round); outcome != 0) return outcome;
    if (const int outcome = sum_once(self, values.data(), values.size(), round); outcome != 0) return outcome;
  }
  return 0;
}

struct Way {
  int color, key, rank, size;  ///< `rank` and `size` are the expected ones
};

/// Returns how this rank takes part in split number `which` of five.
Way way_of(const Rank &self, int which) {
  const int rank = self.rank, size = self.size, odd = rank % 2;
  const int half = (size + 1 - odd) / 2;
  switch (which) {
    case 0: return {odd, 0, rank / 2, half};
    case 1: return {odd, -rank, half - 1 - rank / 2, half};
    case 2: return {7, (rank + 1) % size - 100, (rank + 1) % size, size};
    case 3: return {rank, 5, 0, 1};
    default: return {rank == 0 ? RONDO_NO_COLOR : 3, 0, rank - 1, size - 1};
  }
}

int run_parts(const Rank &self, const Arguments &args) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.nonblocking = args.size() > 0 && args[0] == "0" ? 1 : 0;
  for (int which = 0; which < 5; ++which) {
    const Way way = way_of(self, which);
    Rank part;
    if (const auto status = split(self, way.color, way.key, config.nonblocking ? &config : nullptr, &part))
      return report(self, status);
    if ((part.comm == nullptr) != (way.color == RONDO_NO_COLOR)) return fail(self, "HANDLE");
    if (part.comm != nullptr && (part.rank != way.rank || part.size != way.size)) return fail(self, "RANK");
    if (const int outcome = check_sums(self, part)) return finish(self, outcome);
    if (part.comm == nullptr) continue;
    Rank inner;  // a split of a split
    if (const auto status = split(part, part.rank / 2, 0, nullptr, &inner)) return report(part, status);
    if (const int outcome = check_sums(part, inner)) return finish(part, outcome);
    if (rondo_comm_destroy(inner.comm) != RONDO_OK || rondo_comm_destroy(part.comm) != RONDO_OK)
      return fail(self, "DESTROY");
  }
  return report(self, rondo_comm_finalize(self.comm));
}

int run_many(const Rank &self, const Arguments &args) {
  Held before;
  for (int round = 0; round < std::stoi(args[0]); ++round) {
    if (round == 5) before = Held();  // the first splits make objects that stay
    Rank part;
    if (const auto status = split(self, self.rank % 2, self.rank, nullptr, &part)) return report(self, status);
    if (rondo_comm_finalize(part.comm) != RONDO_OK) return report(part, RONDO_ERROR_INTERNAL);
    if (rondo_comm_destroy(part.comm) != RONDO_OK) return fail(self, "DESTROY");
  }
  if (const auto status = rondo_barrier(self.comm, nullptr)) return report(self, status);
  Held after;
  const auto has_more = [&] {
    return after.descriptors > before.descriptors || after.threads > before.threads || after.mappings > before.mappings;
  };
  for (int look = 0; look < 600 && has_more(); ++look, after = Held())  // threads end by themselves
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::printf("rank %d: descriptors %ld then %ld, threads %ld then %ld, mappings %ld then %ld\n", self.rank,
              before.descriptors, after.descriptors, before.threads, after.threads, before.mappings, after.mappings);
  if (has_more()) return fail(self, "COUNT");
  return report(self, rondo_comm_finalize(self.comm));
}

int run_time(const Rank &self, const Arguments &args) {
  std::vector<double> ms;
  for (int round = 0; round < std::stoi(args[0]); ++round) {
    if (const auto status = rondo_barrier(self.comm, nullptr)) return report(self, status);
    const auto begun = std::chrono::steady_clock::now();
    Rank part;
    if (const auto status = split(self, self.rank % 2, self.rank, nullptr, &part)) return report(self, status);
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
    if (rondo_comm_destroy(part.comm) != RONDO_OK) return fail(self, "DESTROY");
  }
  std::ranges::sort(ms);
  if (self.rank == 0)
    std::printf("split: least %.2f, median %.2f, most %.2f ms\n", ms.front(), ms[ms.size() / 2], ms.back());
  return report(self, rondo_comm_finalize(self.comm));
}

int run_dead(const Rank &self, const Arguments &args) {
  if (self.rank == std::stoi(args[0])) ::raise(SIGKILL);
  Rank part;
  return report(self, split(self, 0, 0, nullptr, &part));
}

int run_late(const Rank &self, const Arguments &args) {
  rondo_status_t now = self.rank == std::stoi(args[0]) ? RONDO_OK : RONDO_NOT_READY;
  while (now == RONDO_OK && rondo_comm_get_async_error(self.comm, &now) == RONDO_OK)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Rank part;
  return report(self, split(self, 0, 0, nullptr, &part));
}

int run_other(const Rank &self, const Arguments &args) {
  int32_t value = 1;
  Rank part;
  return report(self, self.rank == std::stoi(args[0])
                          ? rondo_all_reduce(&value, &value, 1, RONDO_INT32, RONDO_SUM, self.comm, nullptr)
                          : split(self, 4, -2, nullptr, &part));
}

/// Fails the part, and then checks sums on the parent.
int run_config(const Rank &self, const Arguments &args) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.chunk_bytes = self.rank == std::stoi(args[0]) ? 8192 : 4096;
  Rank part;
  const int outcome = report(self, split(self, 0, 0, &config, &part));
  return outcome == 1 && part.comm == nullptr ? check_sums(self, part) : fail(self, "SPLIT");
}

/// Makes other parts. Reports the split's error: the parent's may come from ranks that still agree on the split.
int run_strike(const Rank &self, const Arguments &args) {
  strikes = self.rank == std::stoi(args[0]);
  Rank part;
  const rondo_status_t status = split(self, self.rank % std::stoi(args[1]), 0, nullptr, &part);
  if (status == RONDO_OK && rondo_comm_destroy(part.comm) != RONDO_OK) return fail(self, "DESTROY");
  return report({nullptr, self.rank, self.size}, status);
}

constexpr Scenario scenarios[]{{"parts", run_parts},   {"many", run_many},    {"time", run_time},
                               {"dead", run_dead},     {"late", run_late},    {"other", run_other},
                               {"config", run_config}, {"strike", run_strike}};

}  // namespace

int main(int argc, char **argv) { return run_scenario(argc, argv, scenarios); }
