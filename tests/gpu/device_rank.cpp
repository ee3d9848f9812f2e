// SPDX-License-Identifier: Apache-2.0
// One rank of a job on a device, for tests of whole processes: `device_rank SCENARIO`. Checks every result, and prints
// one line of what it got:  rank R: STATUS peer P operation N: MESSAGE
// Where all is well the message is the executor that did it.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
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
constexpr int round_count = 6, death_round = 3;

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
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  if (status == RONDO_OK && rondo_comm_get_properties(self.comm, &properties) == RONDO_OK)
    std::snprintf(error.message, sizeof error.message, "%s", rondo_device_executor_string(properties.device_executor));
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

/// Gathers a part of each rank, then takes that of rank 1 in place of the first one; -1: a value is wrong.
int move_once(const Rank &self, int round) {
  const size_t part = count / static_cast<size_t>(self.size), own = part * static_cast<size_t>(self.rank);
  std::vector<int32_t> values(count, -1);
  for (size_t i = 0; i < part; ++i) values[own + i] = static_cast<int32_t>(i) + 1000 * self.rank + round;
  const ContextGuard guard(*self.cu, self.context.get().context);
  auto *const stream = self.stream.get().object;
  const DevicePointer at = self.buffer.get().object;
  if (self.cu->memcpy_htod_async(at, values.data(), count * sizeof(int32_t), stream) != CuStatus::success) return -1;
  auto *const pointer = reinterpret_cast<int32_t *>(at);
  const rondo_status_t gathered = rondo_all_gather(pointer + own, pointer, part, RONDO_INT32, self.comm, stream);
  if (gathered != RONDO_OK) return gathered;
  const rondo_status_t taken = rondo_broadcast(pointer + part, pointer, part, RONDO_INT32, 1, self.comm, stream);
  if (taken != RONDO_OK) return taken;
  if (self.cu->memcpy_dtoh_async(values.data(), at, count * sizeof(int32_t), stream) != CuStatus::success) return -1;
  if (self.cu->stream_synchronize(stream) != CuStatus::success) return -1;
  rondo_status_t state = RONDO_OK;
  if (rondo_comm_get_async_error(self.comm, &state) != RONDO_OK || state != RONDO_OK) return state;
  for (size_t i = 0; i < part * static_cast<size_t>(self.size); ++i) {
    const size_t owner = i < part ? 1 : i / part;
    if (values[i] != static_cast<int32_t>(i % part) + 1000 * static_cast<int32_t>(owner) + round) return -1;
  }
  return RONDO_OK;
}

}  // namespace

int main(int argument_count, char **arguments) {
  const std::string scenario = argument_count > 1 ? arguments[1] : "sums";
  Rank self;
  if (const auto ready = set_up(self); !ready.ok()) {
    std::fprintf(stderr, "%s\n", ready.error().message.c_str());
    return 2;
  }
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = 0;
  config.timeout_ms = scenario == "silent" ? 500 : 20'000;
  const rondo_status_t made = rondo_comm_init_env(&self.comm, &config);
  if (made != RONDO_OK) return report(self, made);
  static_cast<void>(rondo_comm_rank(self.comm, &self.rank));
  static_cast<void>(rondo_comm_size(self.comm, &self.size));
  int outcome = RONDO_OK;
  for (int round = 1; round <= round_count && outcome == RONDO_OK; ++round) {
    if (round == death_round && self.rank == 1 && scenario == "kill") ::raise(SIGKILL);
    if (round == death_round && self.rank == 1 && scenario == "silent")
      std::this_thread::sleep_for(std::chrono::seconds(3));
    outcome = scenario == "moves" ? move_once(self, round) : sum_once(self, round);
  }
  if (outcome == -1) {
    std::printf("rank %d: WRONG VALUES\n", self.rank);
    return 3;
  }
  if (outcome == RONDO_OK) outcome = rondo_comm_finalize(self.comm);
  const int status = report(self, static_cast<rondo_status_t>(outcome));
  static_cast<void>(rondo_comm_destroy(self.comm));
  return status;
}
