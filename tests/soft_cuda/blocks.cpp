// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/blocks.h"

#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "tests/soft_cuda/turns.h"

namespace soft_cuda {
namespace {

constexpr std::align_val_t shared_alignment{128};

/// Threads that wait for a task each. Never destroyed: a process may end while blocks run.
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

/// The blocks of one launch that are in flight, and how many are left.
struct Run {
  const Launch &launch;
  Places &places;
  std::mutex mutex;
  std::condition_variable ended;
  uint32_t blocks_left;
};

struct BlockRun {
  Run *run = nullptr;
  Block block;
  std::unique_ptr<std::byte, SharedMemoryDeleter> shared;
  std::mutex mutex;
  uint32_t threads_left = 0;
};

struct ThreadRun {
  BlockRun *block = nullptr;
  uint32_t thread = 0;
};

void run_thread(void *argument) {
  const std::unique_ptr<ThreadRun> self(static_cast<ThreadRun *>(argument));
  BlockRun *const block = self->block;
  Run &run = *block->run;
  // Each thread has its own copy of the pointer, as kernels take their parameters by value.
  void *const parameters[] = {const_cast<std::byte *>(run.launch.parameters.data())};
  set_device_of_thread(run.launch.device);
  await_turn();
  run.launch.function(block->block, self->thread, parameters);
  {
    const std::lock_guard lock(block->mutex);
    if (--block->threads_left != 0) return;
  }
  delete block;
  run.places.release();
  // Notified under the mutex: the launch may end as soon as it is free.
  const std::lock_guard lock(run.mutex);
  if (--run.blocks_left == 0) run.ended.notify_one();
}

BlockRun *make_block(Run &run, uint32_t index) {
  auto made = std::make_unique<BlockRun>();
  const Launch &launch = run.launch;
  if (launch.shared_bytes != 0) {
    made->shared.reset(static_cast<std::byte *>(::operator new(launch.shared_bytes, shared_alignment)));
    std::memset(made->shared.get(), 0, launch.shared_bytes);
  }
  made->run = &run;
  made->threads_left = launch.thread_count;
  made->block = {launch.grid_size, index, launch.thread_count, made->shared.get(), launch.shared_bytes, await_turn,
                 launch.device, launch.find_memory};
  return made.release();
}

}  // namespace

void Places::acquire() {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return serving_ == ticket && free_ != 0; });
  --free_;
  ++serving_;
  if (free_ != 0) changed_.notify_all();
}

void Places::release() {
  const std::lock_guard lock(mutex_);
  ++free_;
  changed_.notify_all();
}

void run_on_pool(void (*task)(void *argument), void *argument) {
  Pool &shared = pool();
  const std::lock_guard lock(shared.mutex);
  if (shared.idle.empty()) {
    auto *const worker = new Pool::Worker;  // lives as long as its thread: for ever
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
  for (uint32_t index = 0; index < launch.grid_size; ++index) {
    places.acquire();
    BlockRun *const block = make_block(run, index);
    for (uint32_t thread = 1; thread < launch.thread_count; ++thread)
      run_on_pool(run_thread, new ThreadRun{block, thread});
    auto *const first = new ThreadRun{block, 0};
    // The last block's first thread is this one: a launch of one small block wakes nobody.
    if (index + 1 == launch.grid_size)
      run_thread(first);
    else
      run_on_pool(run_thread, first);
  }
  std::unique_lock lock(run.mutex);
  run.ended.wait(lock, [&] { return run.blocks_left == 0; });
}

}  // namespace soft_cuda
