// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/blocks.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "tests/soft_cuda/fibers.h"
#include "tests/soft_cuda/turns.h"

namespace soft_cuda {
namespace {

constexpr std::align_val_t shared_alignment{128};

/// Threads that each wait for a task. The pool is never destroyed, because a process may end while blocks run.
struct Pool {
  struct Worker {
    std::condition_variable wake;
    void (*task)(void *) = nullptr;
    void *argument = nullptr;
  };
  std::mutex mutex;
  std::vector<Worker *> idle;
};

Pool &pool() {
  static Pool *const instance = new Pool;
  return *instance;
}

void work(Pool &shared, Pool::Worker *self) {
  std::unique_lock lock(shared.mutex);
  for (;;) {
    self->wake.wait(lock, [&] { return self->task != nullptr; });
    const auto task = std::exchange(self->task, nullptr);
    lock.unlock();
    task(self->argument);
    lock.lock();
    shared.idle.push_back(self);
  }
}

struct SharedMemoryDeleter {
  void operator()(std::byte *bytes) const { ::operator delete(bytes, shared_alignment); }
};

/// The blocks of one launch that are running, and how many blocks of the launch are left.
struct Run {
  const Launch &launch;
  Places &places;
  std::mutex mutex;
  std::condition_variable ended;
  uint32_t blocks_left;
};

struct BlockRun {
  Block block;
  std::unique_ptr<std::byte, SharedMemoryDeleter> shared;
  uint32_t threads_left = 0;
  uint32_t has_waited = 0;  ///< whether any of its threads has waited for others
  uint32_t multiprocessor = 0;
};

/// Blocks that begin together, and that end one by one.
struct Batch {
  Run *run = nullptr;
  std::vector<BlockRun> blocks;
  std::mutex mutex;
};

void run_thread(Batch &batch, uint32_t index) {
  Run &run = *batch.run;
  const Launch &launch = run.launch;
  BlockRun &own = batch.blocks[index / launch.thread_count];
  await_turn();
  // Each thread has its own copy of the pointer, because kernels take their parameters by value.
  void *const parameters[] = {const_cast<std::byte *>(launch.parameters.data())};
  launch.function(own.block, index % launch.thread_count, parameters);
  {
    const std::lock_guard lock(batch.mutex);
    if (--own.threads_left != 0) return;
  }
  own.shared.reset();
  if (own.has_waited != 0) run.places.waiting_blocks.fetch_sub(1, std::memory_order_relaxed);
  run.places.release(own.multiprocessor, launch.need);
  // The notification is under the mutex, because the launch may end as soon as the mutex is free.
  const std::lock_guard lock(run.mutex);
  if (--run.blocks_left == 0) run.ended.notify_one();
}

/// The work of a host thread of the pool: one thread of a batch, or all threads of it as fibers.
struct HostThread {
  std::shared_ptr<Batch> batch;
  uint32_t index = 0;
};

thread_local const HostThread *host_thread = nullptr;  ///< for functions that a block on this thread calls

void run_host_thread(void *argument) {
  const std::unique_ptr<HostThread> self(static_cast<HostThread *>(argument));
  host_thread = self.get();
  Batch &batch = *self->batch;
  const Launch &launch = batch.run->launch;
  const auto count = static_cast<uint32_t>(batch.blocks.size()) * launch.thread_count;
  set_device_of_thread(launch.device);
  if (have_fibers) return run_fibers(count, [&batch](uint32_t index) { run_thread(batch, index); });
  begin_host_thread();
  run_thread(batch, self->index);
}

/// Counts the block of the calling thread or fiber as a waiting one.
void tell_waiting() {
  Batch &batch = *host_thread->batch;
  const uint32_t thread = have_fibers ? fiber_index() : host_thread->index;
  // Relaxed: only the first thread counts the block. run_thread() reads the flag under the mutex, when all have ended.
  std::atomic_ref has_waited(batch.blocks[thread / batch.run->launch.thread_count].has_waited);
  if (has_waited.load(std::memory_order_relaxed) != 0 || has_waited.exchange(1, std::memory_order_relaxed) != 0) return;
  batch.run->places.waiting_blocks.fetch_add(1, std::memory_order_relaxed);
}

void wait_for_turn(Waiting waiting) {
  if (waiting == Waiting::at_barrier) return give_way(waiting);
  tell_waiting();
  host_thread->batch->run->places.polls.fetch_add(1, std::memory_order_relaxed);
  do give_way(waiting);
  while (device_is_lost());  // bounded by the test, which resets it
  await_turn();
}

void add_block(Batch &batch, uint32_t index, uint32_t multiprocessor) {
  const Launch &launch = batch.run->launch;
  BlockRun &added = batch.blocks.emplace_back();
  added.multiprocessor = multiprocessor;
  if (launch.shared_bytes != 0) {
    added.shared.reset(static_cast<std::byte *>(::operator new(launch.shared_bytes, shared_alignment)));
    std::memset(added.shared.get(), 0, launch.shared_bytes);
  }
  added.threads_left = launch.thread_count;
  added.block = {launch.grid_size,    index,         launch.thread_count, added.shared.get(),
                 launch.shared_bytes, wait_for_turn, launch.device,       launch.find_memory};
}

}  // namespace

Places::Places(uint32_t count, uint32_t each)
    : multiprocessors_((count + each - 1) / each), count_(count), each_(each) {}

std::optional<uint32_t> Places::find(const SharedNeed &need) const {
  std::optional<uint32_t> best;
  if (taken_ == count_) return best;
  for (uint32_t index = 0; index < multiprocessors_.size(); ++index) {
    const Multiprocessor &it = multiprocessors_[index];
    if (it.blocks == 0) return index;
    const bool fits = it.blocks < each_ && it.used_bytes + need.block_bytes <= it.carveout_bytes;
    if (fits && (!best || it.blocks < multiprocessors_[*best].blocks)) best = index;
  }
  return best;
}

void Places::take(uint32_t multiprocessor, const SharedNeed &need) {
  Multiprocessor &it = multiprocessors_[multiprocessor];
  if (it.blocks++ == 0) it.carveout_bytes = need.carveout_bytes;
  it.used_bytes += need.block_bytes;
  ++taken_;
}

uint32_t Places::acquire(const SharedNeed &need) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  std::optional<uint32_t> found;
  changed_.wait(lock, [&] { return serving_ == ticket && (found = find(need)).has_value(); });
  take(*found, need);
  ++serving_;
  if (taken_ != count_) changed_.notify_all();
  return *found;
}

std::optional<uint32_t> Places::try_acquire(const SharedNeed &need) {
  const std::lock_guard lock(mutex_);
  if (serving_ != next_ticket_) return std::nullopt;
  const auto found = find(need);
  if (found) take(*found, need);
  return found;
}

void Places::release(uint32_t multiprocessor, const SharedNeed &need) {
  const std::lock_guard lock(mutex_);
  Multiprocessor &it = multiprocessors_[multiprocessor];
  --it.blocks;
  it.used_bytes -= need.block_bytes;
  --taken_;
  changed_.notify_all();
}

uint64_t Places::waiting() {
  const std::lock_guard lock(mutex_);
  return next_ticket_ - serving_;
}

void run_on_pool(void (*task)(void *argument), void *argument) {
  Pool &shared = pool();
  const std::lock_guard lock(shared.mutex);
  if (shared.idle.empty()) {
    auto *const worker = new Pool::Worker;  // exists as long as its thread, for ever
    worker->task = task;
    worker->argument = argument;
    std::thread(work, std::ref(shared), worker).detach();
    return;
  }
  Pool::Worker *const worker = shared.idle.back();
  shared.idle.pop_back();
  worker->task = task;
  worker->argument = argument;
  worker->wake.notify_one();
}

void run_blocks(const Launch &launch, Places &places) {
  const KernelInFlight in_flight;
  Run run{launch, places, {}, {}, launch.grid_size};
  const uint32_t batch_size = (launch.grid_size + 1) / 2;  // both halves of a launch run concurrently
  for (uint32_t begun = 0; begun < launch.grid_size;) {
    const auto batch = std::make_shared<Batch>();
    batch->run = &run;
    std::optional<uint32_t> place = places.acquire(launch.need);
    do {
      add_block(*batch, begun++, *place);
      const bool takes_more = have_fibers && batch->blocks.size() < batch_size && begun < launch.grid_size;
      place = takes_more ? places.try_acquire(launch.need) : std::nullopt;
    } while (place);
    const uint32_t host_threads = have_fibers ? 1 : launch.thread_count;
    for (uint32_t index = 1; index < host_threads; ++index)
      run_on_pool(run_host_thread, new HostThread{batch, index});
    auto *const first = new HostThread{batch, 0};
    // This thread is the first one of the last batch, so a launch of few blocks wakes no other thread.
    if (begun == launch.grid_size)
      run_host_thread(first);
    else
      run_on_pool(run_host_thread, first);
  }
  std::unique_lock lock(run.mutex);
  run.ended.wait(lock, [&] { return run.blocks_left == 0; });
}

}  // namespace soft_cuda
