// SPDX-License-Identifier: Apache-2.0
// In this program, ranks disagree, as drawn from seeds. Every rank must get RONDO_ERROR_MISMATCH with both calls when
// it finalizes or earlier. Ranks are processes, or threads of one process.
//
//     disagree_ranks processes|threads [--count N] [--first-seed N]   RONDO_DISAGREEMENTS sets N, too
//     disagree_ranks processes|threads --seed N                       one of them again, and what was drawn
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "tests/disagreement.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

constexpr int ranks_max = 4;
constexpr uint64_t shown_max = 5;

struct Options {
  bool processes = true;
  uint64_t count = sanitized() ? 100 : 1'000;
  uint64_t first_seed = 1;
  std::optional<uint64_t> seed;
};

bool parse_number(const char *text, uint64_t &number) {
  const char *const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc{} && parsed.ptr == end && end != text;
}

std::optional<Options> parse(int argc, char **argv) {
  Options options;
  if (argc < 2) return std::nullopt;
  const std::string kind = argv[1];
  if (kind != "processes" && kind != "threads") return std::nullopt;
  options.processes = kind == "processes";
  const char *const wanted = std::getenv("RONDO_DISAGREEMENTS");
  if (wanted != nullptr && !parse_number(wanted, options.count)) return std::nullopt;
  for (int index = 2; index < argc; index += 2) {
    const std::string name = argv[index];
    uint64_t number = 0;
    if (index + 1 == argc || !parse_number(argv[index + 1], number)) return std::nullopt;
    if (name == "--count") {
      options.count = number;
    } else if (name == "--first-seed") {
      options.first_seed = number;
    } else if (name == "--seed") {
      options.seed = number;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

/// Memory that the processes share. It has rank 0's id for each communicator, and the error of each rank.
struct Board {
  pthread_barrier_t barriers[ranks_max + 1];  ///< by the number of ranks
  rondo_unique_id_t id;
  std::array<Told, ranks_max> told;
};

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};
struct FreeMapped {
  void operator()(void *memory) const { static_cast<void>(rondo_mem_free(memory)); }
};

Told live_on_host(const Disagreement &drawn, int rank, rondo_comm_t comm) {
  const size_t bytes = buffer_bytes(drawn);
  std::unique_ptr<void, Free> own;
  std::unique_ptr<void, FreeMapped> mapped;
  void *memory = nullptr;
  if (drawn.mapped[static_cast<size_t>(rank)] != 0 && rondo_mem_alloc(&memory, 2 * bytes) == RONDO_OK)
    mapped.reset(memory);
  if (memory == nullptr) own.reset(memory = std::calloc(2, bytes));
  auto *const first = static_cast<std::byte *>(memory);
  return live_disagreement(drawn, {rank, comm, first, first + bytes, nullptr, {}});
}

Told told_by_init(rondo_status_t status) {
  Told told;
  static_cast<void>(rondo_comm_last_error(nullptr, &told.error));
  told.error.status = status;
  return told;
}

std::string judge(const Disagreement &drawn, const std::array<Told, ranks_max> &told) {
  return judge_disagreement(drawn, {told.begin(), told.begin() + drawn.rank_count});
}

/// Runs one rank of a disagreement in its own process.
void take_part(Board &board, const Disagreement &drawn, int rank) {
  pthread_barrier_t &barrier = board.barriers[drawn.rank_count];
  if (rank == 0) static_cast<void>(rondo_get_unique_id(&board.id, nullptr));
  pthread_barrier_wait(&barrier);
  rondo_comm_t comm = nullptr;
  const rondo_status_t made = rondo_comm_init(&comm, &board.id, rank, drawn.rank_count, &drawn.config);
  Told &told = board.told[static_cast<size_t>(rank)];
  told = made == RONDO_OK ? live_on_host(drawn, rank, comm) : told_by_init(made);
  pthread_barrier_wait(&barrier);  // the last rank to fail must find the others alive
  if (comm != nullptr) static_cast<void>(rondo_comm_destroy(comm));
}

std::array<Told, ranks_max> run_threads(const Disagreement &drawn) {
  std::array<Told, ranks_max> told;
  std::array<rondo_comm_t, ranks_max> comms{};
  const std::vector<rondo_config_t> configs(static_cast<size_t>(drawn.rank_count), drawn.config);
  const rondo_status_t made = rondo_comm_init_all(comms.data(), drawn.rank_count, configs.data());
  if (made != RONDO_OK) {
    told.fill(told_by_init(made));
    return told;
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < drawn.rank_count; ++rank)
    threads.emplace_back([&, rank] {
      const auto index = static_cast<size_t>(rank);
      told[index] = live_on_host(drawn, rank, comms[index]);
    });
  for (std::thread &thread : threads) thread.join();
  for (int rank = 0; rank < drawn.rank_count; ++rank)
    static_cast<void>(rondo_comm_destroy(comms[static_cast<size_t>(rank)]));
  return told;
}

/// Counts disagreements that were not detected as promised.
class Tally {
 public:
  explicit Tally(const Options &options) : options_(options) {}

  void add(const Disagreement &drawn, const std::string &wrong) {
    if (options_.seed) std::printf("%s", drawn.text().c_str());
    if (wrong.empty()) return;
    const auto seed = static_cast<unsigned long long>(drawn.seed);
    if (++wrong_count_ <= shown_max)
      std::printf("seed %llu: %s\n  again: disagree_ranks %s --seed %llu\n", seed, wrong.c_str(),
                  options_.processes ? "processes" : "threads", seed);
    std::fflush(stdout);
  }
  [[nodiscard]] int end() const {
    std::printf("%llu disagreements of %s, of which %llu did not come to light as they should\n",
                static_cast<unsigned long long>(options_.count), options_.processes ? "processes" : "threads",
                static_cast<unsigned long long>(wrong_count_));
    std::fflush(stdout);
    return wrong_count_ == 0 ? 0 : 1;
  }

 private:
  const Options &options_;
  uint64_t wrong_count_ = 0;
};

int run_all_in_threads(const Options &options) {
  Tally tally(options);
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.count; ++seed) {
    const Disagreement drawn = draw_disagreement(seed, true);
    tally.add(drawn, judge(drawn, run_threads(drawn)));
  }
  return tally.end();
}

/// Runs the process of one rank. It takes part in every disagreement that has this rank. Rank 0 judges the errors.
int run_process(const Options &options, Board &board, int rank) {
  Tally tally(options);
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.count; ++seed) {
    const Disagreement drawn = draw_disagreement(seed, true);
    if (rank >= drawn.rank_count) continue;
    take_part(board, drawn, rank);
    pthread_barrier_wait(&board.barriers[drawn.rank_count]);  // all errors are in `told`
    if (rank == 0) tally.add(drawn, judge(drawn, board.told));
    pthread_barrier_wait(&board.barriers[drawn.rank_count]);
  }
  return rank == 0 ? tally.end() : 0;
}

int run_all_in_processes(const Options &options) {
  void *const memory = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Board &board = *::new (memory) Board;
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  for (unsigned count = 1; count <= ranks_max; ++count) pthread_barrier_init(&board.barriers[count], &shared, count);
  std::array<pid_t, ranks_max> children{};
  for (int rank = 0; rank < ranks_max; ++rank) {
    children[static_cast<size_t>(rank)] = ::fork();
    if (children[static_cast<size_t>(rank)] == 0) std::_Exit(run_process(options, board, rank));
  }
  int outcome = 0;
  for (int left = ranks_max; left != 0; --left) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (ended > 0) *std::find(children.begin(), children.end(), ended) = 0;
    if (ended > 0 && status == 0) continue;
    if (outcome++ != 0) continue;
    for (const pid_t child : children)  // otherwise the other ranks would wait for the dead one for ever
      if (child > 0 && !WIFEXITED(status)) static_cast<void>(::kill(child, SIGKILL));
  }
  return outcome == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  auto options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: disagree_ranks processes|threads [--count N] [--first-seed N] | --seed N\n");
    return 2;
  }
  if (options->seed) {
    options->first_seed = *options->seed;
    options->count = 1;
  }
  return options->processes ? run_all_in_processes(*options) : run_all_in_threads(*options);
}
