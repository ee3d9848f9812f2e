// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/fibers.h"

#include <sys/mman.h>

#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/switch_stack.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOFT_CUDA_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SOFT_CUDA_ADDRESS_SANITIZER
#endif
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace soft_cuda {
namespace {

constexpr size_t stack_bytes = size_t{256} << 10;
constexpr size_t guard_bytes = size_t{64} << 10;  // larger than any frame, so that none skips it

struct Fiber {
  std::byte *stack = nullptr;  ///< lowest address; the first fiber has the host thread's stack instead
  rondo_test::StackContext context;
  bool ended = false;
  // These are for AddressSanitizer, which keeps some variables in a second stack, and must know the current stack.
  void *apart = nullptr;
  const void *bottom = nullptr;
  size_t bytes = 0;
};

/// The fibers of one host thread.
struct Fibers {
  std::vector<Fiber> all;
  uint32_t count = 0;  ///< fibers of the present run, or 0
  uint32_t running = 0;
  uint32_t left = 0;        ///< fibers that have not ended
  uint32_t looks = 0;       ///< polls in vain since the last hand-over of the core
  uint32_t at_barrier = 0;  ///< waits at barriers since the last hand-over of the core
  bool backwards = false;   ///< every other run begins with the last thread, so none always runs ahead
  const std::function<void(uint32_t)> *body = nullptr;

  [[nodiscard]] uint32_t index() const { return backwards ? count - 1 - running : running; }
  void call() const { (*body)(index()); }
};

thread_local Fibers fibers;
thread_local uint32_t looks_in_vain = 0;  ///< polls in vain since the kernel began

/// Hands the core over after a poll that found nothing. Threads that only yield delay all other work of the machine,
/// even threads of the operating system: on Linux 6.18 no packet is received for seconds. So a thread sometimes sleeps,
/// and always if it waits for long. Tests are also faster, since yields took most of their time.
void hand_core_over() {
  constexpr uint32_t long_wait = 4096;
  const uint32_t looks = ++looks_in_vain;
  if (looks < long_wait && looks % 16 != 0)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(looks < long_wait ? 50 : 200));
}

/// Unused stacks of all host threads. They are never destroyed, because a process may end while blocks run.
struct Stacks {
  std::mutex mutex;
  std::vector<std::byte *> idle;
};

Stacks &stacks() {
  static Stacks *const all = new Stacks;
  return *all;
}

/// Makes a stack above inaccessible memory, so that the process ends at once if a fiber needs more.
std::byte *make_stack() {
  void *const begin = ::mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (begin == MAP_FAILED || ::mprotect(begin, guard_bytes, PROT_NONE) != 0) {
    std::perror("softcuda: no memory for the stack of a fiber");
    std::abort();
  }
  return static_cast<std::byte *>(begin) + guard_bytes;
}

void take_stacks(Fibers &own) {
  Stacks &shared = stacks();
  const std::lock_guard lock(shared.mutex);
  for (uint32_t index = 1; index < own.count; ++index) {
    std::byte *&stack = own.all[index].stack;
    if (shared.idle.empty()) {
      stack = make_stack();
    } else {
      stack = shared.idle.back();
      shared.idle.pop_back();
    }
  }
}

void give_stacks_back(Fibers &own) {
  Stacks &shared = stacks();
  const std::lock_guard lock(shared.mutex);
  for (uint32_t index = 1; index < own.count; ++index) shared.idle.push_back(own.all[index].stack);
}

/// Reports the stack to the sanitizer. A fiber calls this function as soon as it begins or continues.
void have_entered([[maybe_unused]] Fibers &own, [[maybe_unused]] const Fiber &self) {
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  const void *bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.apart, &bottom, &bytes);
  if (own.all[0].bottom != nullptr) return;
  own.all[0].bottom = bottom;  // the first fiber is entered from the host thread's stack
  own.all[0].bytes = bytes;
#endif
}

void enter(Fibers &own, uint32_t index) {
  Fiber &from = own.all[own.running], &to = own.all[index];
  own.running = index;
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(from.ended ? nullptr : &from.apart, to.bottom, to.bytes);
#endif
  rondo_test::StackContext::change(from.context, to.context);
  have_entered(own, from);
}

uint32_t next_of(const Fibers &own) {
  uint32_t index = own.running;
  do {
    index = index + 1 == own.count ? 0 : index + 1;
  } while (own.all[index].ended);
  return index;
}

/// Runs as the first function on a fiber's stack, so no function exists to which it could return.
[[noreturn]] void begin_fiber() noexcept {
  Fibers &own = fibers;
  Fiber &self = own.all[own.running];
  have_entered(own, self);
  own.call();
  self.ended = true;
  --own.left;
  own.looks = 0;  // this fiber's work may let others continue
  enter(own, next_of(own));
  std::abort();  // an ended fiber is not entered
}

void prepare(Fiber &fiber) {
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(fiber.stack, stack_bytes);  // earlier runs have left marks
#endif
  fiber.context.prepare(fiber.stack, stack_bytes, &begin_fiber);
  fiber.ended = false;
  fiber.apart = nullptr;
  fiber.bottom = fiber.stack;
  fiber.bytes = stack_bytes;
}

}  // namespace

void run_fibers(uint32_t count, const std::function<void(uint32_t index)> &body) {
  Fibers &own = fibers;
  assert(count != 0 && own.count == 0);
  if (own.all.size() < count) own.all.resize(count);
  own.count = own.left = count;
  own.running = own.looks = own.at_barrier = 0;
  own.backwards = !own.backwards;
  own.body = &body;
  looks_in_vain = 0;
  take_stacks(own);
  for (uint32_t index = 1; index < count; ++index) prepare(own.all[index]);
  own.call();
  --own.left;
  while (own.left != 0) enter(own, next_of(own));
  give_stacks_back(own);
  own.count = 0;
}

uint32_t fiber_index() { return fibers.index(); }

void begin_host_thread() { looks_in_vain = 0; }

void give_way(Waiting waiting) {
  constexpr uint32_t barriers_max = 64;  // for each fiber; then the core is handed over, in case a thread never arrives
  Fibers &own = fibers;
  if (own.count == 0) return hand_core_over();
  ++(waiting == Waiting::for_others ? own.looks : own.at_barrier);
  if (own.looks >= own.left || own.at_barrier >= barriers_max * own.left) {
    own.looks = own.at_barrier = 0;
    hand_core_over();
  }
  const uint32_t index = next_of(own);
  if (index != own.running) enter(own, index);
}

}  // namespace soft_cuda
