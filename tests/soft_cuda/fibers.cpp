// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

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

#if defined(__x86_64__)
// Saves what a called function must keep and the stack pointer, and goes on where the other stack was left.
extern "C" void soft_cuda_switch_stack(void **left, void *entered);
asm(R"(
  .pushsection .text
  .type soft_cuda_switch_stack, @function
  .hidden soft_cuda_switch_stack
  .globl soft_cuda_switch_stack
soft_cuda_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size soft_cuda_switch_stack, . - soft_cuda_switch_stack
  .popsection
)");
#else
static void soft_cuda_switch_stack(void **, void *) { std::abort(); }  // see have_fibers
#endif

namespace soft_cuda {
namespace {

constexpr size_t stack_bytes = size_t{256} << 10;
constexpr size_t kept_registers = 6;  // of soft_cuda_switch_stack

struct Fiber {
  std::byte *stack = nullptr;  ///< lowest address; null: the stack of the host thread
  void *pointer = nullptr;     ///< into its stack, while it does not run
  bool ended = false;
  // For AddressSanitizer, which keeps some variables apart from the stack, and must know which stack is in use.
  void *apart = nullptr;
  const void *bottom = nullptr;
  size_t bytes = 0;
};

/// The fibers of one host thread. Stacks are kept for the next launch.
struct Fibers {
  std::vector<Fiber> all;
  uint32_t count = 0;  ///< of what runs now; 0: no fibers
  uint32_t running = 0;
  uint32_t left = 0;  ///< that have not ended
  uint32_t waiting = 0;  ///< looks in vain, until all that are left may have looked
  const std::function<void(uint32_t)> *body = nullptr;

  Fibers() = default;
  Fibers(const Fibers &) = delete;
  Fibers &operator=(const Fibers &) = delete;
  ~Fibers();
};

thread_local Fibers fibers;
thread_local uint32_t looks_in_vain = 0;  ///< since the kernel began

/// Between two looks in vain. Threads that only yield keep the machine from all that comes after them, the kernel's own
/// threads included (Linux 6.18: seconds in which no packet is taken in), so now and then one sleeps, and each time
/// where its kernel waits for long. It makes tests quicker, too: most of their time was yielding.
void hand_core_over() {
  constexpr uint32_t long_wait = 4096;
  const uint32_t looks = ++looks_in_vain;
  if (looks < long_wait && looks % 16 != 0)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(looks < long_wait ? 50 : 200));
}

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

/// A stack with a page below it that nobody may touch: what needs more ends at once.
std::byte *make_stack() {
  const size_t guard = page_bytes();
  void *const begin = ::mmap(nullptr, guard + stack_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (begin == MAP_FAILED || ::mprotect(begin, guard, PROT_NONE) != 0) {
    std::perror("softcuda: no memory for the stack of a fiber");
    std::abort();
  }
  return static_cast<std::byte *>(begin) + guard;
}

void forget_stack_use([[maybe_unused]] const Fiber &fiber) {
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  ASAN_UNPOISON_MEMORY_REGION(fiber.stack, stack_bytes);
#endif
}

Fibers::~Fibers() {
  for (const Fiber &fiber : all) {
    if (fiber.stack == nullptr) continue;
    forget_stack_use(fiber);
    static_cast<void>(::munmap(fiber.stack - page_bytes(), page_bytes() + stack_bytes));
  }
}

/// By a fiber, as soon as it runs (again).
void have_entered([[maybe_unused]] Fibers &own, [[maybe_unused]] const Fiber &self) {
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  const void *bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.apart, &bottom, &bytes);
  if (own.all[0].bottom != nullptr) return;
  own.all[0].bottom = bottom;  // the first fiber that is entered comes from the host thread's stack
  own.all[0].bytes = bytes;
#endif
}

void enter(Fibers &own, uint32_t index) {
  Fiber &from = own.all[own.running], &to = own.all[index];
  own.running = index;
#if defined(SOFT_CUDA_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(from.ended ? nullptr : &from.apart, to.bottom, to.bytes);
#endif
  soft_cuda_switch_stack(&from.pointer, to.pointer);
  have_entered(own, from);
}

uint32_t next_of(const Fibers &own) {
  uint32_t index = own.running;
  do {
    index = index + 1 == own.count ? 0 : index + 1;
  } while (own.all[index].ended);
  return index;
}

/// The first function on a fiber's stack: it has nowhere to return to.
[[noreturn]] void begin_fiber() noexcept {
  Fibers &own = fibers;
  Fiber &self = own.all[own.running];
  have_entered(own, self);
  (*own.body)(own.running);
  self.ended = true;
  --own.left;
  enter(own, next_of(own));
  std::abort();  // an ended fiber is not entered
}

/// As if soft_cuda_switch_stack had been called at the beginning of begin_fiber().
void prepare(Fiber &fiber) {
  if (fiber.stack == nullptr) fiber.stack = make_stack();
  forget_stack_use(fiber);
  auto *const top = reinterpret_cast<void **>(fiber.stack + stack_bytes);
  top[-1] = nullptr;  // in place of a return address
  top[-2] = reinterpret_cast<void *>(&begin_fiber);
  fiber.pointer = std::fill_n(top - 2 - kept_registers, kept_registers, nullptr) - kept_registers;
  fiber.ended = false;
  fiber.apart = nullptr;
  fiber.bottom = fiber.stack;
  fiber.bytes = stack_bytes;
}

}  // namespace

void run_fibers(uint32_t count, const std::function<void(uint32_t index)> &body) {
  Fibers &own = fibers;
  if (own.all.size() < count) own.all.resize(count);
  own.count = own.left = count;
  own.running = own.waiting = 0;
  own.body = &body;
  looks_in_vain = 0;
  for (uint32_t index = 1; index < count; ++index) prepare(own.all[index]);
  body(0);
  --own.left;
  while (own.left != 0) enter(own, next_of(own));
  own.count = 0;
}

void begin_host_thread() { looks_in_vain = 0; }

void give_way(Waiting waiting) {
  Fibers &own = fibers;
  if (own.count == 0) return hand_core_over();
  if (waiting == Waiting::for_others && ++own.waiting >= own.left) {
    own.waiting = 0;
    hand_core_over();
  }
  const uint32_t index = next_of(own);
  if (index != own.running) enter(own, index);
}

}  // namespace soft_cuda
