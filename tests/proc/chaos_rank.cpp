// SPDX-License-Identifier: Apache-2.0
// One rank of a life with real processes, for chaos_test.py:
//   chaos_rank KIND VICTIM DELAY_US COUNT BUFFERS FOLDER with RONDO_CHAOS_RANK and RONDO_CHAOS_SIZE. All ranks sum over
//   communicator A until it fails. Meanwhile, all except the victim sum over communicator B on a second thread; B must
//   not be affected. A rank prints its events in lines of words:
//   RANK EVENT TIME_NS WORDS...
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rondo/rondo.h"
#include "tests/living_threads.h"

namespace {

constexpr int inner_rounds = 200;  // sums over B while A fails
constexpr int rounds_max = 10'000'000;
constexpr uint32_t patient_ms = 150'000;
constexpr int look_ms = 5;
constexpr int slow_ms = 1500;
constexpr long long id_patience_ns = 100'000'000'000;
constexpr long long idle_patience_ns = 120'000'000'000;

struct Options {
  std::string kind;
  int victim = 0;
  long delay_us = 0;
  size_t count = 0;
  std::string buffers;
  std::string folder;
  int rank = 0;
  int size = 1;
  int round = 0;
};

long long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// Prints a line by one write, so that lines of threads do not mix and a kill does not tear them.
void say(const Options &self, const char *event, const std::string &words = "") {
  const std::string line =
      std::to_string(self.rank) + " " + event + " " + std::to_string(now_ns()) + " " + words + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

void nap(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Counts the descriptors, the threads, and the mappings of shared memory of this process.
std::string held() {
  size_t descriptors = 0, mappings = 0;
  DIR *const folder = ::opendir("/proc/self/fd");
  while (folder != nullptr && ::readdir(folder) != nullptr) ++descriptors;
  if (folder != nullptr) ::closedir(folder);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) mappings += line.find("memfd:") != std::string::npos;
  return std::to_string(descriptors) + " " + std::to_string(rondo_test::living_threads()) + " " +
         std::to_string(mappings);
}

void report(const Options &self, const char *event, rondo_comm_t comm, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  static_cast<void>(rondo_comm_last_error(comm, &error));
  say(self, event, std::to_string(static_cast<int>(status)) + " " + std::to_string(error.peer) + " " +
                       std::to_string(error.operation) + " " + error.message);
}

/// Sums and checks. Returns false after a failure; a wrong sum is printed.
bool sum(const Options &self, rondo_comm_t comm, int rank, int size, int32_t *values, size_t count, int round,
         rondo_status_t &status) {
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 1000) + rank + round;
  status = rondo_all_reduce(values, values, count, RONDO_INT32, RONDO_SUM, comm, nullptr);
  if (status != RONDO_OK) return false;
  for (size_t i = 0; i < count; ++i)
    if (values[i] != (static_cast<int32_t>(i % 1000) + round) * size + size * (size - 1) / 2) {
      say(self, "wrong", "round " + std::to_string(round));
      break;
    }
  return true;
}

/// Exchanges the id of a communicator. If `makes`, this rank makes the id, and passes the id on as a file.
bool exchange_id(const Options &self, const std::string &name, bool makes, rondo_unique_id_t &id) {
  const std::string path = self.folder + "/" + name;
  if (makes) {
    if (rondo_get_unique_id(&id, nullptr) != RONDO_OK) return false;
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    return std::rename((path + ".new").c_str(), path.c_str()) == 0;
  }
  for (const long long until_ns = now_ns() + id_patience_ns; now_ns() < until_ns;) {
    // The file `gone` means that the id's maker has ended. If the maker completed the id, it is still read below.
    const bool gone = ::access((self.folder + "/gone").c_str(), F_OK) == 0;
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return true;
    if (gone) return false;
    nap(look_ms);
  }
  return false;
}

/// Does to the victim what the life's kind says, such as SIGKILL. Any thread may call this.
void strike(const Options &self, rondo_comm_t comm) {
  say(self, "strike", self.kind);
  if (self.kind == "kill") ::kill(::getpid(), SIGKILL);
  if (self.kind == "stop") ::kill(::getpid(), SIGSTOP);
  if (self.kind == "crash") std::abort();
  if (self.kind == "exit") ::_exit(0);
  if (self.kind == "abort") static_cast<void>(rondo_comm_abort(comm));
}

/// Makes no more collective calls, but polls for failures. Prints how long the slowest poll took.
rondo_status_t idle(const Options &self, rondo_comm_t comm) {
  rondo_status_t status = RONDO_OK;
  long long longest_ns = 0;
  for (const long long until_ns = now_ns() + idle_patience_ns; now_ns() < until_ns && status == RONDO_OK;) {
    const long long asked_ns = now_ns();
    if (rondo_comm_get_async_error(comm, &status) != RONDO_OK) break;
    longest_ns = std::max(longest_ns, now_ns() - asked_ns);
    nap(look_ms);
  }
  say(self, "answered", std::to_string(longest_ns));
  return status;
}

/// Calls a collective that no other rank calls. It may complete on this rank without a wait for other ranks.
rondo_status_t call_otherwise(const Options &self, rondo_comm_t comm, int32_t *values) {
  const size_t count = self.count + 1;
  const int next = (self.rank + 1) % self.size;
  rondo_status_t status = RONDO_ERROR_UNSUPPORTED;
  if (self.delay_us % 3 == 1) status = rondo_broadcast(values, values, count, RONDO_INT32, self.rank, comm, nullptr);
  if (self.delay_us % 3 == 2) status = rondo_reduce(values, values, count, RONDO_INT32, RONDO_MAX, next, comm, nullptr);
  if (status != RONDO_ERROR_UNSUPPORTED) return status;  // not every algorithm supports these
  return rondo_all_reduce(values, values, count, RONDO_INT32, RONDO_MAX, comm, nullptr);
}

/// Returns the descriptor of the newest region of this process.
int newest_region() {
  int newest = -1;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    char target[64] = {};
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0 && std::strstr(target, "memfd:rondo-region") != nullptr)
      newest = descriptor;
  }
  return newest;
}

/// Sums once in memory whose descriptor now belongs to another file. If the buffer is exported, the sum must fail. If
/// the buffer is copied, the sum is right, and the victim ends the life by an abort.
rondo_status_t sum_replaced(const Options &self, rondo_comm_t comm) {
  void *memory = nullptr;
  if (rondo_mem_alloc(&memory, self.count * sizeof(int32_t)) != RONDO_OK) return RONDO_ERROR_INTERNAL;
  const int descriptor = newest_region();
  const int other = ::memfd_create("other", MFD_CLOEXEC);
  if (::ftruncate(other, static_cast<off_t>(self.count * sizeof(int32_t) + 4096)) != 0) return RONDO_ERROR_INTERNAL;
  ::dup3(other, descriptor, O_CLOEXEC);
  ::close(other);
  rondo_status_t status = RONDO_OK;
  if (sum(self, comm, self.rank, self.size, static_cast<int32_t *>(memory), self.count, self.round, status)) {
    static_cast<void>(rondo_comm_abort(comm));
    status = rondo_barrier(comm, nullptr);
  }
  if (rondo_mem_free(memory) != RONDO_OK) say(self, "wrong", "free");
  if (::close(descriptor) != 0) say(self, "wrong", "the other file was closed");
  return status;
}

/// Runs the victim's last round, if the fault is one of the victim's own calls.
bool misbehaves(const Options &self, rondo_comm_t comm, int32_t *values, rondo_status_t &status) {
  if (self.kind == "replaced") {
    say(self, "strike", self.kind);
    status = sum_replaced(self, comm);
    return true;
  }
  if (self.kind == "leave") {
    say(self, "strike", self.kind);
    std::exit(0);
  }
  if (self.kind == "silent") {
    say(self, "strike", self.kind);
    status = idle(self, comm);
    return true;
  }
  if (self.kind == "disagree") {
    say(self, "strike", self.kind);
    status = call_otherwise(self, comm, values);
    return status != RONDO_OK;  // otherwise it continues, and its next sum fails
  }
  return false;
}

struct Buffer {
  void *memory = nullptr;
  rondo_registration_t registration = nullptr;

  Buffer(const Options &self, rondo_comm_t comm) {
    const size_t bytes = (self.count + 1) * sizeof(int32_t);
    if (self.buffers == "alloc") {
      static_cast<void>(rondo_mem_alloc(&memory, bytes));
      return;
    }
    memory = std::malloc(bytes);
    if (self.buffers == "registered") static_cast<void>(rondo_comm_register(comm, memory, bytes, 0, &registration));
  }
  void free(const Options &self, rondo_comm_t comm) {
    if (registration != nullptr && rondo_comm_deregister(comm, registration) != RONDO_OK)
      say(self, "wrong", "deregister");
    if (self.buffers != "alloc") return std::free(memory);
    if (rondo_mem_free(memory) != RONDO_OK) say(self, "wrong", "free");
  }
};

/// Sums over A until it fails.
rondo_status_t sum_until_failure(Options self, rondo_comm_t comm, int32_t *values) {
  const long long strike_ns = now_ns() + self.delay_us * 1000LL;
  rondo_status_t status = RONDO_OK;
  bool struck = false;
  for (int round = 1; round < rounds_max; ++round) {
    self.round = round;
    if (self.rank == self.victim && now_ns() >= strike_ns && !std::exchange(struck, true) &&
        misbehaves(self, comm, values, status))
      return status;
    if (!sum(self, comm, self.rank, self.size, values, self.count, round, status)) return status;
  }
  return status;
}

void live_on(const Options &self, rondo_comm_t a, rondo_comm_t b) {
  std::thread other;
  const int inner_rank = self.rank > self.victim ? self.rank - 1 : self.rank;
  std::vector<int32_t> inner_values(100);
  const auto sum_inside = [&](int rounds) {
    rondo_status_t status = RONDO_OK;
    for (int round = 0; round < rounds; ++round)
      if (!sum(self, b, inner_rank, self.size - 1, inner_values.data(), inner_values.size(), round, status))
        return report(self, "disturbed", b, status);
  };
  if (b != nullptr) other = std::thread(sum_inside, inner_rounds);
  Buffer buffer(self, a);
  auto *const values = static_cast<int32_t *>(buffer.memory);
  const bool from_outside = self.kind == "kill" || self.kind == "stop" || self.kind == "crash" || self.kind == "exit" ||
                            self.kind == "abort";
  std::thread striker;  // this thread may strike while other ranks are in the barrier below
  if (self.rank == self.victim && from_outside)
    striker = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(self.delay_us));
      strike(self, a);
    });
  rondo_status_t status = RONDO_OK;
  if (self.kind != "early" && self.kind != "launcher") status = rondo_barrier(a, nullptr);  // now B exists
  if (status == RONDO_OK) status = sum_until_failure(self, a, values);
  report(self, "failed", a, status);
  const rondo_status_t again = rondo_barrier(a, nullptr);
  if (again != RONDO_ERROR_COMM_FAILED && self.kind != "silent") report(self, "wrong", a, again);
  if (striker.joinable()) striker.join();
  buffer.free(self, a);
  if (rondo_comm_destroy(a) != RONDO_OK) say(self, "wrong", "destroy");
  if (b == nullptr) return;
  other.join();
  sum_inside(20);
  if (rondo_comm_finalize(b) != RONDO_OK) say(self, "wrong", "finalize");
  if (rondo_comm_destroy(b) != RONDO_OK) say(self, "wrong", "destroy");
  say(self, "undisturbed");
}

int run(const Options &self) {
  say(self, "begins", held() + " " + std::to_string(::getpid()));
  std::thread early;
  if (self.kind == "early" && self.rank == self.victim)
    early = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(self.delay_us));
      say(self, "strike", self.kind);
      ::kill(::getpid(), SIGKILL);
    });
  rondo_unique_id_t id{};
  if (!exchange_id(self, "a", self.rank == 0, id)) {
    say(self, "no_id");
    return 1;
  }
  rondo_comm_t a = nullptr;
  say(self, "joins");
  rondo_status_t status = rondo_comm_init(&a, &id, self.rank, self.size, nullptr);
  if (status != RONDO_OK) {
    report(self, "no_init", nullptr, status);
  } else {
    rondo_comm_t b = nullptr;
    const int maker = self.victim == 0 ? 1 : 0;
    if (self.kind != "early" && self.kind != "launcher") {
      if (self.rank != self.victim) {
        const int inner_rank = self.rank > self.victim ? self.rank - 1 : self.rank;
        if (!exchange_id(self, "b", self.rank == maker, id)) return 1;
        rondo_config_t patient = RONDO_CONFIG_INIT;  // RONDO_TIMEOUT, which may be short, applies only to A
        patient.timeout_ms = patient_ms;
        status = rondo_comm_init(&b, &id, inner_rank, self.size - 1, &patient);
        if (status != RONDO_OK) report(self, "wrong", nullptr, status);
      }
    }
    say(self, "ready");
    live_on(self, a, b);
  }
  say(self, "ends", held());
  return 0;
}

/// Runs a bystander, which is a separate job that sums until a file appears.
int stand_by(const Options &self) {
  rondo_unique_id_t id{};
  rondo_comm_t comm = nullptr;
  if (!exchange_id(self, "bystander", self.rank == 0, id)) return 1;
  if (rondo_comm_init(&comm, &id, self.rank, self.size, nullptr) != RONDO_OK) return 1;
  std::vector<int32_t> values(self.count);
  rondo_status_t status = RONDO_OK;
  for (int round = 0, over = 0; over == 0; ++round) {
    if (!sum(self, comm, self.rank, self.size, values.data(), values.size(), round, status)) {
      report(self, "disturbed", comm, status);
      return 1;
    }
    over = ::access((self.folder + "/over").c_str(), F_OK) == 0;
    if (rondo_all_reduce(&over, &over, 1, RONDO_INT32, RONDO_MAX, comm, nullptr) != RONDO_OK) return 1;
    nap(look_ms);
  }
  say(self, "undisturbed");
  return rondo_comm_destroy(comm) == RONDO_OK ? 0 : 1;
}

int number_of(const char *first, const char *second) {
  const char *const own = std::getenv(first);
  const char *const launched = std::getenv(second);
  return own != nullptr ? std::atoi(own) : launched != nullptr ? std::atoi(launched) : 0;
}

}  // namespace

/// Replaces the C library's linkat(). Rondo names a complete flight recording by it. RONDO_CHAOS_SLOW simulates a slow
/// folder.
extern "C" int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) noexcept {
  if (std::getenv("RONDO_CHAOS_SLOW") != nullptr) nap(slow_ms);
  return static_cast<int>(::syscall(SYS_linkat, from_folder, from, to_folder, to, flags));
}

int main(int argc, char **argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: chaos_rank KIND VICTIM DELAY_US COUNT BUFFERS FOLDER, see the source\n");
    return 2;
  }
  Options self;
  self.kind = argv[1];
  self.victim = std::atoi(argv[2]);
  self.delay_us = std::atol(argv[3]);
  self.count = static_cast<size_t>(std::atol(argv[4]));
  self.buffers = argv[5];
  self.folder = argv[6];
  self.rank = number_of("RONDO_CHAOS_RANK", "RONDO_RANK");
  self.size = number_of("RONDO_CHAOS_SIZE", "RONDO_SIZE");
  return self.kind == "bystander" ? stand_by(self) : run(self);
}
