// SPDX-License-Identifier: Apache-2.0
// One rank of a job on a device, for tests of whole processes. Checks every result, and prints one line of what it got:
//   rank R: STATUS peer P operation N: MESSAGE
// device_rank sums | silent | kill RANK ROUND | kill_after RANK MICROSECONDS
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cuda/handles.h"
#include "rondo/rondo.h"
#include "src/base/config.h"

using namespace rondo;
using namespace rondo::cuda;

namespace {

constexpr size_t count = 100'003;
constexpr int round_count = 6, silent_round = 3;

/// What befalls which rank.
struct Scenario {
  std::string name = "sums";
  int victim = 1;
  int round = silent_round;
  long delay_us = 0;
};

Scenario scenario_of(int argument_count, char **arguments) {
  Scenario scenario;
  if (argument_count > 1) scenario.name = arguments[1];
  if (argument_count > 2) scenario.victim = std::atoi(arguments[2]);
  if (argument_count > 3 && scenario.name == "kill") scenario.round = std::atoi(arguments[3]);
  if (argument_count > 3 && scenario.name == "kill_after") scenario.delay_us = std::atol(arguments[3]);
  return scenario;
}

struct Rank {
  const CudaDriver *cu = nullptr;
  PrimaryContext context;
  Stream stream;
  DeviceMemory buffer;
  rondo_comm_t comm = nullptr;
  int rank = 0, size = 1;
};

int report(const Rank &self, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status != RONDO_OK) static_cast<void>(rondo_comm_last_error(self.comm, &error));
  std::printf("rank %d: %s peer %d operation %llu: %s\n", self.rank, rondo_status_string(status), error.peer,
              static_cast<unsigned long long>(error.operation), error.message);
  std::fflush(stdout);
  return status == RONDO_OK ? 0 : 1;
}

Result<void> set_up(Rank &self) {
  RONDO_TRY_ASSIGN(const Config config, read_config());
  RONDO_TRY_ASSIGN(self.cu, cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(self.context, retain_primary_context(*self.cu, 0));
  RONDO_TRY_ASSIGN(self.stream, make_stream(self.context));
  RONDO_TRY_ASSIGN(self.buffer, allocate_device_memory(self.context, count * sizeof(int32_t)));
  return {};
}

/// Copies, sums and copies back on the stream; -1: the sum is wrong.
int sum_once(const Rank &self, int round) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 1000) + self.rank + round;
  const ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const DevicePointer at = self.buffer.get().object;
  if (self.cu->memcpy_htod_async(at, values.data(), count * sizeof(int32_t), stream) != CuStatus::success) return -1;
  auto *const pointer = reinterpret_cast<void *>(at);
  const rondo_status_t status = rondo_all_reduce(pointer, pointer, count, RONDO_INT32, RONDO_SUM, self.comm, stream);
  if (status != RONDO_OK) return status;
  if (self.cu->memcpy_dtoh_async(values.data(), at, count * sizeof(int32_t), stream) != CuStatus::success) return -1;
  if (self.cu->stream_synchronize(stream) != CuStatus::success) return -1;
  rondo_status_t state = RONDO_OK;
  if (rondo_comm_get_async_error(self.comm, &state) != RONDO_OK || state != RONDO_OK) return state;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != (static_cast<int32_t>(i % 1000) + round) * self.size + self.size * (self.size - 1) / 2) return -1;
  return RONDO_OK;
}

/// Kills the process when the time has come, whatever it does then.
void kill_after(long delay_us) {
  std::thread([delay_us] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    ::raise(SIGKILL);
  }).detach();
}

int run_rounds(const Rank &self, const Scenario &scenario) {
  const bool is_victim = self.rank == scenario.victim;
  int outcome = RONDO_OK;
  // Who waits for a death goes on until it has come.
  for (int round = 1; (round <= round_count || scenario.name == "kill_after") && outcome == RONDO_OK; ++round) {
    if (round == scenario.round && is_victim && scenario.name == "kill") ::raise(SIGKILL);
    if (round == scenario.round && is_victim && scenario.name == "silent")
      std::this_thread::sleep_for(std::chrono::seconds(3));
    outcome = sum_once(self, round);
    // All ranks have finished their initialisation by then.
    if (is_victim && scenario.name == "kill_after" && round == 1) kill_after(scenario.delay_us);
  }
  return outcome;
}

}  // namespace

int main(int argument_count, char **arguments) {
  const Scenario scenario = scenario_of(argument_count, arguments);
  Rank self;
  if (const auto ready = set_up(self); !ready.ok()) {
    std::fprintf(stderr, "%s\n", ready.error().message.c_str());
    return 2;
  }
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = 0;
  config.timeout_ms = scenario.name == "silent" ? 500 : 20'000;
  const rondo_status_t made = rondo_comm_init_env(&self.comm, &config);
  if (made != RONDO_OK) return report(self, made);
  static_cast<void>(rondo_comm_rank(self.comm, &self.rank));
  static_cast<void>(rondo_comm_size(self.comm, &self.size));
  int outcome = run_rounds(self, scenario);
  if (outcome == -1) {
    std::printf("rank %d: WRONG SUM\n", self.rank);
    return 3;
  }
  if (outcome == RONDO_OK) outcome = rondo_comm_finalize(self.comm);
  const int status = report(self, static_cast<rondo_status_t>(outcome));
  static_cast<void>(rondo_comm_destroy(self.comm));
  return status;
}
