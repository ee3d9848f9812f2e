// SPDX-License-Identifier: Apache-2.0
#include "tests/proc/part_program.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/living_threads.h"

std::atomic<bool> strikes{false};

namespace {

std::atomic<int> connected{-1};  // the latest socket that was connected, or -1
std::atomic<int> sent_count{0};  // the number of sends over it

}  // namespace

void forget_connections() { connected = -1, sent_count = 0; }

bool has_entered() { return sent_count >= 2; }  // a client sends its hello, and then its proof with its rank

/// Replaces the C library's connect(). The victim of the scenario `strike` dies here.
extern "C" int connect(int socket, const sockaddr *address, socklen_t bytes) {
  if (strikes) ::raise(SIGKILL);
  sent_count = 0;
  connected = socket;
  static const auto real = reinterpret_cast<int (*)(int, const sockaddr *, socklen_t)>(::dlsym(RTLD_NEXT, "connect"));
  return real(socket, address, bytes);
}

/// Replaces the C library's send(), and counts.
extern "C" ssize_t send(int socket, const void *data, size_t bytes, int flags) {
  static const auto real = reinterpret_cast<ssize_t (*)(int, const void *, size_t, int)>(::dlsym(RTLD_NEXT, "send"));
  const ssize_t sent = real(socket, data, bytes, flags);
  if (sent > 0 && socket == connected) ++sent_count;
  return sent;
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
