// SPDX-License-Identifier: Apache-2.0
// This library has the few functions of nccl.h's interface that `rondo perf --against` calls. It calls librondo, so
// tests can use the option on any driver. FAKE_NCCL=wrong moves nothing, and FAKE_NCCL=fails refuses calls. With
// FAKE_NCCL=hangs, rank 0 makes no call.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "rondo/rondo.h"
#include "tests/soft_cuda/soft_cuda.h"

namespace {

constexpr int success = 0, internal_error = 3;
constexpr rondo_type_t types[] = {RONDO_INT8,    RONDO_UINT8,    RONDO_INT32,       RONDO_UINT32,
                                  RONDO_INT64,   RONDO_UINT64,   RONDO_FLOAT16,     RONDO_FLOAT32,
                                  RONDO_FLOAT64, RONDO_BFLOAT16, RONDO_FLOAT8_E4M3, RONDO_FLOAT8_E5M2};
constexpr rondo_op_t ops[] = {RONDO_SUM, RONDO_PROD, RONDO_MAX, RONDO_MIN, RONDO_AVG};

int result_of(rondo_status_t status) { return status == RONDO_OK ? success : internal_error; }

std::string mode() {
  const char *const text = std::getenv("FAKE_NCCL");
  return text != nullptr ? text : "";
}

/// Returns the device whose context is current, as the CUDA runtime in a real library does.
int current_device() {
  void *const driver = ::dlopen(std::getenv("RONDO_CUDA_LIBRARY"), RTLD_NOW);
  const auto ask = driver == nullptr ? nullptr : reinterpret_cast<int (*)(int *)>(::dlsym(driver, "cuCtxGetDevice"));
  int device = -1;
  return ask != nullptr && ask(&device) == 0 ? device : -1;
}

/// Returns the number of executable graphs of the driver in software, or 0 on another driver.
uint64_t graph_count() {
  void *const driver = ::dlopen(std::getenv("RONDO_CUDA_LIBRARY"), RTLD_NOW);
  const auto ask = driver == nullptr ? nullptr
                                     : reinterpret_cast<void (*)(SoftCudaLive *)>(::dlsym(driver, "soft_cuda_live"));
  SoftCudaLive live{};
  if (ask != nullptr) ask(&live);
  return live.graph_execs;
}

/// Returns whether a call goes on to librondo. If not, `result` is what the call must return.
bool goes_on(rondo_comm_t comm, int &result) {
  int rank = 0;
  result = mode() == "fails" ? internal_error : success;
  if (mode() == "hangs" && rondo_comm_rank(comm, &rank) == RONDO_OK) return rank != 0;
  return mode().empty();
}

struct Id {
  char bytes[RONDO_UNIQUE_ID_BYTES];
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int *version) {
  *version = 22105;
  return success;
}
EXPORT const char *ncclGetErrorString(int result) { return result == success ? "no error" : "internal error"; }
EXPORT int ncclGetUniqueId(Id *id) {
  rondo_unique_id_t made;
  const int result = result_of(rondo_get_unique_id(&made, nullptr));
  std::memcpy(id->bytes, made.internal, sizeof id->bytes);
  return result;
}
EXPORT int ncclCommInitRank(rondo_comm_t *comm, int rank_count, Id id, int rank) {
  rondo_unique_id_t known;
  std::memcpy(known.internal, id.bytes, sizeof id.bytes);
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.device = current_device();
  if (config.device < 0) return internal_error;
  return result_of(rondo_comm_init(comm, &known, rank, rank_count, &config));
}
/// Waits while a graph exists, as NVIDIA's library waits for the graphs that have calls of the communicator. The driver
/// counts the graphs of all ranks, whose threads destroy them at different times. Fails if a graph stays.
EXPORT int ncclCommDestroy(rondo_comm_t comm) {
  constexpr int looks_max = 6000;
  bool has_graph = graph_count() != 0;
  for (int look = 0; has_graph && look < looks_max; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    has_graph = graph_count() != 0;
  }
  if (has_graph) std::fputs("fake_nccl: destroyed while there is a graph\n", stderr);
  const int result = result_of(rondo_comm_destroy(comm));
  return has_graph ? internal_error : result;
}
EXPORT int ncclCommAbort(rondo_comm_t comm) {
  const int result = result_of(rondo_comm_abort(comm));
  return ncclCommDestroy(comm) == success ? result : internal_error;
}
EXPORT int ncclCommGetAsyncError(rondo_comm_t comm, int *state) {
  rondo_status_t status = RONDO_OK;
  const int result = result_of(rondo_comm_get_async_error(comm, &status));
  *state = result_of(status);
  return result;
}
EXPORT int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, rondo_comm_t comm,
                         void *stream) {
  int result = success;
  if (!goes_on(comm, result)) return result;
  return result_of(rondo_all_reduce(send, recv, count, types[type], ops[op], comm, stream));
}
EXPORT int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, rondo_comm_t comm,
                             void *stream) {
  int result = success;
  if (!goes_on(comm, result)) return result;
  return result_of(rondo_reduce_scatter(send, recv, count, types[type], ops[op], comm, stream));
}
EXPORT int ncclAllGather(const void *send, void *recv, size_t count, int type, rondo_comm_t comm, void *stream) {
  int result = success;
  if (!goes_on(comm, result)) return result;
  return result_of(rondo_all_gather(send, recv, count, types[type], comm, stream));
}
EXPORT int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, rondo_comm_t comm,
                         void *stream) {
  int result = success;
  if (!goes_on(comm, result)) return result;
  return result_of(rondo_broadcast(send, recv, count, types[type], root, comm, stream));
}
EXPORT int ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root, rondo_comm_t comm,
                      void *stream) {
  int result = success;
  if (!goes_on(comm, result)) return result;
  return result_of(rondo_reduce(send, recv, count, types[type], ops[op], root, comm, stream));
}
