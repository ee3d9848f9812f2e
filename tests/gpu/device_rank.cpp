// SPDX-License-Identifier: Apache-2.0
// One rank of a job on a device, for device_process_test.py: `device_rank SCENARIO`. Checks every result, and prints
// one line of what it got.
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/gpu/device_process.h"

using namespace rondo_test;

namespace {

constexpr size_t count = 100'003;
constexpr int round_count = 6, death_round = 3;

}  // namespace

int main(int argument_count, char **arguments) {
  const std::string scenario = argument_count > 1 ? arguments[1] : "sums";
  DeviceProcess self;
  if (const auto ready = set_up(self, count); !ready.ok()) {
    std::fprintf(stderr, "%s\n", ready.error().message.c_str());
    return 2;
  }
  int outcome = join(self, scenario == "silent" ? 500 : 20'000);
  const bool made = outcome == RONDO_OK;
  for (int round = 1; round <= round_count && outcome == RONDO_OK; ++round) {
    if (round == death_round && self.rank == 1 && scenario == "kill") ::raise(SIGKILL);
    if (round == death_round && self.rank == 1 && scenario == "silent")
      std::this_thread::sleep_for(std::chrono::seconds(3));
    outcome = sum_once(self, round, count);
  }
  if (outcome == RONDO_OK) outcome = rondo_comm_finalize(self.comm);
  report(self, outcome);
  if (made) static_cast<void>(rondo_comm_destroy(self.comm));
  return outcome == RONDO_OK ? 0 : 1;
}
