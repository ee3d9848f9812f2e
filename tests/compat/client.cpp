// SPDX-License-Identifier: Apache-2.0
// This program tests nccl.h on the driver that RONDO_CUDA_LIBRARY names. Usage: client SCENARIO [ARGUMENTS]. If all
// results are right, it prints "done" and ends with status 0.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

#include "tests/compat/client.h"

using namespace compat_test;

namespace {

int number_of(const char *name, int otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Runs every case on one rank, on this thread. The caller allocates `part` before it makes the communicator. A later
/// allocation might wait for another rank's kernel, which itself waits for this rank.
void run_rank(int rank, int rank_count, ncclComm_t comm, const DevicePart &part) {
  for (const Case &it : all_cases(rank_count)) {
    part.write(before(it, rank));
    for (int step = 0; step < it.steps(); ++step) NCCL(call(it, rank, part, comm, step));
    check_after(it, rank, part);
  }
}

/// Returns the id. Rank 0 writes it into a file, and the other ranks wait for the file.
ncclUniqueId shared_id(int rank, const std::string &path) {
  ncclUniqueId id;
  if (rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    std::FILE *const file = std::fopen((path + ".new").c_str(), "wb");
    CHECK(file != nullptr && std::fwrite(&id, sizeof id, 1, file) == 1 && std::fclose(file) == 0);
    CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0);
    return id;
  }
  for (int look = 0; look < 60'000; ++look) {  // a minute
    if (std::FILE *const file = std::fopen(path.c_str(), "rb")) {
      CHECK(std::fread(&id, sizeof id, 1, file) == 1);
      std::fclose(file);
      return id;
    }
    ::usleep(1000);
  }
  fail_test("there is no id", __FILE__, __LINE__, rank);
}

/// Checks the properties that a communicator reports.
void check_numbers(ncclComm_t comm, int rank, int rank_count, int device) {
  int value = -1;
  NCCL(ncclCommUserRank(comm, &value));
  CHECK(value == rank);
  NCCL(ncclCommCount(comm, &value));
  CHECK(value == rank_count);
  NCCL(ncclCommCuDevice(comm, &value));
  CHECK(value == device);
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
}

/// Runs one rank of a job of processes.
void process(const std::string &id_file) {
  const int rank = number_of("RANK", 0), rank_count = number_of("WORLD_SIZE", 1);
  const int device = rank % number_of("CLIENT_DEVICES", 1);
  const OnDevice current(device);
  const DevicePart part(device, 2 * half_bytes);
  const ncclUniqueId id = shared_id(rank, id_file);
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, rank_count, id, rank));
  check_numbers(comm, rank, rank_count, device);
  run_rank(rank, rank_count, comm, part);
  NCCL(ncclCommFinalize(comm));
  NCCL(ncclCommDestroy(comm));
}

/// Runs one rank of a job of processes. Rank 1 is killed before its second call.
void die(const std::string &id_file) {
  const int rank = number_of("RANK", 0), rank_count = number_of("WORLD_SIZE", 1);
  const OnDevice current(0);
  const DevicePart part(0, 2 * half_bytes);
  const ncclUniqueId id = shared_id(rank, id_file);
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, rank_count, id, rank));
  Case it;
  it.count = 1000;
  it.rank_count = rank_count;
  part.write(before(it, rank));
  NCCL(call(it, rank, part, comm));
  check_after(it, rank, part);
  if (rank == 1) ::raise(SIGKILL);
  NCCL(call(it, rank, part, comm));
  CHECK(wait_while(comm, ncclSuccess) == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(comm)).find("rank 1") != std::string::npos);
  NCCL(ncclCommAbort(comm));
}

/// Runs ranks that are threads. Each thread makes all calls of its rank.
void threads() {
  const int rank_count = number_of("CLIENT_RANKS", 2), devices = number_of("CLIENT_DEVICES", 1);
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> running;
  for (int rank = 0; rank < rank_count; ++rank)
    running.emplace_back([=] {
      const OnDevice current(rank % devices);
      const DevicePart part(rank % devices, 2 * half_bytes);
      ncclComm_t comm = nullptr;
      NCCL(ncclCommInitRank(&comm, rank_count, id, rank));
      check_numbers(comm, rank, rank_count, rank % devices);
      run_rank(rank, rank_count, comm, part);
      NCCL(ncclCommDestroy(comm));
    });
  for (std::thread &each : running) each.join();
}

/// Makes communicators that are never destroyed. One has two ranks, of which only one makes its second call. The
/// program still ends, and the library prints nothing.
void leave() {
  const OnDevice current(0);
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  static Ranks *const ranks = new Ranks(2);
  ranks->check_usable();
  NCCL(call(ranks->sum(100), 0, ranks->part(0), ranks->comm(0)));
}

/// Runs ranks of ncclCommInitAll(), all on one thread by groups. Another test calls ncclCommInitRank() in a group.
void group() {
  const int rank_count = number_of("CLIENT_RANKS", 2), devices = number_of("CLIENT_DEVICES", 1);
  std::vector<int> places;
  std::vector<std::unique_ptr<DevicePart>> parts;
  for (int rank = 0; rank < rank_count; ++rank) {
    places.push_back(rank % devices);
    parts.push_back(std::make_unique<DevicePart>(rank % devices, 2 * half_bytes));
  }
  const auto of = [](int rank) { return static_cast<size_t>(rank); };
  std::vector<ncclComm_t> comms(of(rank_count));
  NCCL(ncclCommInitAll(comms.data(), rank_count, places.data()));
  for (const Case &it : all_cases(rank_count)) {
    for (int rank = 0; rank < rank_count; ++rank) parts[of(rank)]->write(before(it, rank));
    for (int step = 0; step < it.steps(); ++step) {
      NCCL(ncclGroupStart());
      for (int rank = 0; rank < rank_count; ++rank) NCCL(call(it, rank, *parts[of(rank)], comms[of(rank)], step));
      NCCL(ncclGroupEnd());
    }
    for (int rank = 0; rank < rank_count; ++rank) check_after(it, rank, *parts[of(rank)]);
  }
  for (int rank = 0; rank < rank_count; ++rank) check_numbers(comms[of(rank)], rank, rank_count, places[of(rank)]);
  NCCL(ncclGroupStart());
  for (const ncclComm_t comm : comms) NCCL(ncclCommDestroy(comm));
  NCCL(ncclGroupEnd());
}

struct Scenario {
  const char *name;
  void (*run)();
};

constexpr Scenario scenarios[] = {{"threads", threads},
                                  {"group", group},
                                  {"leave", leave},
                                  {"arguments", check_arguments},
                                  {"groups", check_groups},
                                  {"large groups", check_large_groups},
                                  {"life", check_life},
                                  {"shrink", check_shrink},
                                  {"grow", check_grow},
                                  {"suspend", check_suspend},
                                  {"memory", check_memory},
                                  {"graphs", check_graphs},
                                  {"group streams", check_group_streams},
                                  {"messages", check_messages},
                                  {"windows", check_windows},
                                  {"null windows", check_null_windows},
                                  {"configured", check_configured},
                                  {"parameters", check_parameters},
                                  {"properties", check_properties},
                                  {"refused interfaces", check_refused_interfaces},
                                  {"details", check_details},
                                  {"buffers", check_buffers},
                                  {"fork", check_fork},
                                  {"timeouts", check_timeouts},
                                  {"ops", check_ops},
                                  {"unsupported", check_unsupported},
                                  {"version", check_version},
                                  {"sum", check_sum},
                                  {"timeout", check_timeout},
                                  {"failed inits", check_failed_inits},
                                  {"blocking", check_blocking_variable}};

}  // namespace

int main(int argument_count, char **arguments) {
  const std::string name = argument_count > 1 ? arguments[1] : "";
  bool known = (name == "process" || name == "die") && argument_count > 2;
  if (known) (name == "die" ? die : process)(arguments[2]);
  for (const Scenario &each : scenarios) {
    if (name != each.name) continue;
    each.run();
    known = true;
  }
  if (!known) fail_test("unknown scenario", __FILE__, __LINE__, argument_count);
  std::puts("done");
  return 0;
}
