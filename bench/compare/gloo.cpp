// SPDX-License-Identifier: Apache-2.0
// This file makes Gloo a contender of bench/compare. It uses Gloo's ring over TCP, the transport in Gloo's packages.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/compare/harness.h"

namespace {

/// The board on which ranks find each other. It is in memory that they share, so there are no files to clean up.
struct Board {
  struct Entry {
    std::atomic<bool> ready;
    char key[128];
    size_t data_bytes;
    char data[16 << 10];
  };
  std::atomic<size_t> entry_count;
  std::array<Entry, 2 * compare_ranks_max> entries;
};

class BoardStore final : public gloo::rendezvous::Store {
 public:
  explicit BoardStore(Board &board) : board_(board) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    const size_t index = board_.entry_count.fetch_add(1, std::memory_order_relaxed);
    if (index >= board_.entries.size()) throw std::runtime_error("more keys than the board has room for");
    Board::Entry &entry = board_.entries[index];
    if (key.size() >= sizeof entry.key || data.size() > sizeof entry.data)
      throw std::runtime_error("a key or its data is larger than an entry of the board: " + key);
    std::memcpy(entry.key, key.c_str(), key.size() + 1);
    std::copy(data.begin(), data.end(), entry.data);
    entry.data_bytes = data.size();
    entry.ready.store(true, std::memory_order_release);  // pairs with the acquire of find()
  }

  std::vector<char> get(const std::string &key) override {
    const Board::Entry *entry = find(key);
    while (entry == nullptr) {  // bounded by the alarm of compare_settle()
      (void)usleep(100);
      entry = find(key);
    }
    return {entry->data, entry->data + entry->data_bytes};
  }

  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys) (void)get(key);
  }

 private:
  const Board::Entry *find(const std::string &key) const {
    for (const Board::Entry &entry : board_.entries)
      if (entry.ready.load(std::memory_order_acquire) && key == entry.key) return &entry;  // pairs with set()
    return nullptr;
  }

  Board &board_;
};

struct Session {
  Board *board;
  std::shared_ptr<gloo::rendezvous::Context> context;
};

/// Connects a context. Older versions of Gloo take a reference to the store, newer ones take shared ownership of it.
template <class Context, class Device>
void connect(Context &context, const std::shared_ptr<BoardStore> &store, Device &device) {
  if constexpr (requires { context.connectFullMesh(*store, device); }) {
    context.connectFullMesh(*store, device);
  } else {
    std::shared_ptr<gloo::rendezvous::Store> shared = store;
    context.connectFullMesh(shared, device);
  }
}

void join(compare_job *job) try {
  auto *session = static_cast<Session *>(job->state);
  gloo::transport::tcp::attr attributes;
  attributes.iface = job->interface;
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  session->context = std::make_shared<gloo::rendezvous::Context>(job->rank, job->rank_count);
  connect(*session->context, std::make_shared<BoardStore>(*session->board), device);
} catch (const std::exception &error) {
  compare_fail(job, "cannot connect: %s", error.what());
}

void all_reduce(compare_job *job, const void *send, void *recv, size_t count) try {
  gloo::AllreduceOptions options(static_cast<Session *>(job->state)->context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  // setInput() takes a pointer to writable memory, but it does not write.
  if (send != recv) options.setInput(static_cast<float *>(const_cast<void *>(send)), count);
  options.setOutput(static_cast<float *>(recv), count);
  void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<float>;
  options.setReduceFunction(sum);
  gloo::allreduce(options);
} catch (const std::exception &error) {
  compare_fail(job, "allreduce: %s", error.what());
}

void leave(compare_job *job) { static_cast<Session *>(job->state)->context.reset(); }

}  // namespace

int main(int argc, char **argv) {
  compare_contender contender{};
  contender.name = "gloo";
  contender.busy_threads = 2;  // the caller's thread, and the one that moves data
  contender.only_float32 = true;
  contender.join = join;
  contender.all_reduce = all_reduce;
  contender.leave = leave;
  compare_job job;
  compare_parse(&job, &contender, argc, argv);
  // Zeroed memory is an empty board. Ranks that a launcher started must not empty it again.
  Session session{static_cast<Board *>(compare_shared_memory(&job, sizeof(Board))), nullptr};
  job.state = &session;
  compare_fork(&job);
  compare_settle(&job);
  compare_run(&job);
  return 0;
}
