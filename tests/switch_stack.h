// SPDX-License-Identifier: Apache-2.0
// Lets a thread continue on another stack, for tests that run fibers. The functions of <ucontext.h> do the same, but
// each switch makes a system call. They serve processors whose registers are unknown here.
#pragma once

#include <cstddef>

#if defined(__x86_64__)
// Saves the stack pointer and the registers that a called function must keep, and continues on the other stack. Modes
// of floating point are not saved, as no fiber changes them. Shadow stacks, which are opt-in, are not supported.
extern "C" void rondo_test_switch_stack(void **left, void *entered);
asm(R"(
  .pushsection .text.rondo_test_switch_stack, "axG", @progbits, rondo_test_switch_stack, comdat
  .type rondo_test_switch_stack, @function
  .hidden rondo_test_switch_stack
  .weak rondo_test_switch_stack
rondo_test_switch_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pushq %r12
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r12, 0
  pushq %r13
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r13, 0
  pushq %r14
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r14, 0
  pushq %r15
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r15, 0
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r15
  popq %r14
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r14
  popq %r13
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r13
  popq %r12
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r12
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  ret
  .cfi_endproc
  .size rondo_test_switch_stack, . - rondo_test_switch_stack
  .popsection
)");
#else
#include <ucontext.h>
#endif

namespace rondo_test {

/// Where a fiber continues, while it does not run.
class StackContext {
 public:
  /// Makes the next switch to this context call `body`, which must not return, on the stack that begins at `stack`.
  void prepare(std::byte *stack, size_t bytes, void (*body)()) {
#if defined(__x86_64__)
    constexpr size_t kept_registers = 6;  // number of registers that rondo_test_switch_stack saves
    // The stack is as if body() had called rondo_test_switch_stack in its first instruction.
    auto *const top = reinterpret_cast<void **>(stack + bytes);
    top[-1] = nullptr;  // instead of a return address
    top[-2] = reinterpret_cast<void *>(body);
    for (size_t index = 0; index < kept_registers; ++index) top[-3 - static_cast<std::ptrdiff_t>(index)] = nullptr;
    pointer_ = top - 2 - kept_registers;
#else
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    ::makecontext(&context_, body, 0);
#endif
  }
  /// Saves the caller in `left`, and continues in `entered`.
  static void change(StackContext &left, StackContext &entered) {
#if defined(__x86_64__)
    rondo_test_switch_stack(&left.pointer_, entered.pointer_);
#else
    ::swapcontext(&left.context_, &entered.context_);
#endif
  }

 private:
#if defined(__x86_64__)
  void *pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

}  // namespace rondo_test
