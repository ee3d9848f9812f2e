// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/turns.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/soft_cuda/state.h"

namespace soft_cuda {
namespace {

/// The state of this process's turns. A turn is the lock of a file that all processes name, and ends with its process.
struct Turns {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t kernel_count = 0;      ///< kernels of this process in flight
  bool keeper = false;            ///< a thread runs keep_turns()
  std::atomic<bool> mine{false};  ///< this process has the turn, so its kernels may continue
};

Turns &turns() {
  static Turns *const all = new Turns;
  return *all;
}

bool taken() { return !state().settings.turns_path.empty(); }

/// A bit for each lost device, of at most 64 devices. A thread belongs to the device of its kernel.
std::atomic<uint64_t> lost_devices{0};
thread_local int device_of_thread = 0;

/// After a process gives the lock up, it waits this long, so that another process can take it.
constexpr std::chrono::milliseconds between_turns{1};

/// Takes the lock and gives it up again and again, while kernels are in flight.
void keep_turns() {
  const Settings &settings = state().settings;
  Turns &all = turns();
  const int file = ::open(settings.turns_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    std::fprintf(stderr, "SOFT_CUDA_TURNS: %s cannot be opened\n", settings.turns_path.c_str());
    std::abort();  // kernels would wait for ever
  }
  std::unique_lock lock(all.mutex);
  while (all.kernel_count != 0) {
    lock.unlock();
    const bool locked = ::flock(file, LOCK_EX) == 0;
    lock.lock();
    all.mine.store(locked, std::memory_order_relaxed);  // the mutex orders it for sleepers; others only poll
    all.changed.notify_all();
    all.changed.wait_for(lock, std::chrono::milliseconds(settings.turn_ms), [&] { return all.kernel_count == 0; });
    all.mine.store(false, std::memory_order_relaxed);
    lock.unlock();
    static_cast<void>(::flock(file, LOCK_UN));
    std::this_thread::sleep_for(between_turns);
    lock.lock();
  }
  static_cast<void>(::close(file));
  all.keeper = false;
}

}  // namespace

KernelInFlight::KernelInFlight() {
  if (!taken()) return;
  Turns &all = turns();
  const std::lock_guard lock(all.mutex);
  ++all.kernel_count;
  if (std::exchange(all.keeper, true)) return;
  std::thread(keep_turns).detach();
}

KernelInFlight::~KernelInFlight() {
  if (!taken()) return;
  Turns &all = turns();
  const std::lock_guard lock(all.mutex);
  if (--all.kernel_count == 0) all.changed.notify_all();
}

void set_device_of_thread(int device) { device_of_thread = device; }

void lose_device(uint32_t device, bool lost) {
  const uint64_t bit = uint64_t{1} << device;
  if (lost)
    lost_devices.fetch_or(bit, std::memory_order_relaxed);
  else
    lost_devices.fetch_and(~bit, std::memory_order_relaxed);
}

bool device_is_lost() {
  return (lost_devices.load(std::memory_order_relaxed) >> device_of_thread & 1) != 0;  // orders nothing
}

void await_turn() {
  if (!taken()) return;
  Turns &all = turns();
  if (all.mine.load(std::memory_order_relaxed)) return;
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return all.mine.load(std::memory_order_relaxed); });
}

}  // namespace soft_cuda
