// SPDX-License-Identifier: Apache-2.0
#include "tests/proc/part_program.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "tests/living_threads.h"

std::atomic<bool> strikes{false};
Awaited awaited;

namespace {

thread_local std::string arrival;          // the file that note_arrival() makes
thread_local int sent_since_connect = -1;  // -1: this thread has not connected

std::string arrival_path(const std::string &folder, int rank) { return folder + "/came" + std::to_string(rank); }

template <class Function>
Function *real(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// These functions replace functions of the C library, and then call them.
extern "C" {

/// The victim of the scenario `strike` dies here.
int connect(int socket, const sockaddr *address, socklen_t bytes) {
  if (strikes) {
    if (!awaited.folder.empty()) wait_for_arrivals(awaited.folder, awaited.own_rank, awaited.rank_count);
    ::raise(SIGKILL);
  }
  sent_since_connect = 0;
  static auto *const call = real<int(int, const sockaddr *, socklen_t)>("connect");
  return call(socket, address, bytes);
}
ssize_t send(int socket, const void *data, size_t bytes, int flags) {
  static auto *const call = real<ssize_t(int, const void *, size_t, int)>("send");
  const ssize_t sent = call(socket, data, bytes, flags);
  if (sent > 0 && sent_since_connect >= 0) ++sent_since_connect;
  return sent;
}
int poll(pollfd *entries, nfds_t count, int timeout_ms) {
  // The second message to a store has the rank.
  if (!arrival.empty() && sent_since_connect >= 2) std::ofstream(std::exchange(arrival, "")) << "came";
  static auto *const call = real<int(pollfd *, nfds_t, int)>("poll");
  return call(entries, count, timeout_ms);
}

}  // extern "C"

void note_arrival(const std::string &folder, int rank) {
  sent_since_connect = -1;
  arrival = arrival_path(folder, rank);
}

bool wait_for_arrivals(const std::string &folder, int own_rank, int rank_count) {
  int come = 0;
  for (int look = 0; look < 12'000 && come < rank_count; ++look) {
    while (come < rank_count && (come == own_rank || ::access(arrival_path(folder, come).c_str(), F_OK) == 0)) ++come;
    if (come < rank_count) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return come == rank_count;
}

int run_scenario(int argc, char **argv, std::span<const Scenario> scenarios) {
  if (argc < 2) return 2;
  Rank self;
  if (rondo_comm_init_env(&self.comm, nullptr) != RONDO_OK) return report(self, RONDO_ERROR_INTERNAL);
  if (rondo_comm_rank(self.comm, &self.rank) != RONDO_OK) return 2;
  if (rondo_comm_size(self.comm, &self.size) != RONDO_OK) return 2;
  for (const Scenario &scenario : scenarios) {
    if (std::strcmp(scenario.name, argv[1]) != 0) continue;
    const int outcome = scenario.run(self, Arguments(argv + 2, argv + argc));
    return rondo_comm_destroy(self.comm) == RONDO_OK ? outcome : 2;
  }
  return 2;
}

int fail(const Rank &self, const char *what) {
  std::printf("rank %d: WRONG %s\n", self.rank, what);
  return 3;
}

namespace {

long entries_of(const char *folder) {
  const std::filesystem::directory_iterator entries(folder);
  return std::distance(begin(entries), end(entries));
}

}  // namespace

Held::Held()
    : descriptors(entries_of("/proc/self/fd")), threads(static_cast<long>(rondo_test::living_threads())) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) mappings += line.find("rondo") != std::string::npos ? 1 : 0;
}
