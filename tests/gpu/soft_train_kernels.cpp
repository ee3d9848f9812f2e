// SPDX-License-Identifier: Apache-2.0
// This library has the trainer's kernels for emulated blocks. The driver in software loads it in the same way as a
// device loads rondo-train's image.
#include "tests/soft_cuda/emulated_block.h"

#define RONDO_TRAIN_FUNCTION
#include "bench/trainer/cuda/kernels/list.h"

namespace {

/// The emulated counterpart of DeviceBlock in kernels.cu.
class EmulatedBlock {
 public:
  EmulatedBlock(soft_cuda::Block &block, uint32_t thread)
      : block_(block),
        group_{reinterpret_cast<soft_cuda::VotingBarrier *>(block.shared), thread, block.thread_count,
               block.give_way} {}

  [[nodiscard]] uint32_t thread() const { return group_.thread; }
  [[nodiscard]] uint32_t threads() const { return group_.thread_count; }
  [[nodiscard]] uint32_t index() const { return block_.index; }
  [[nodiscard]] uint32_t count() const { return block_.grid_size; }
  [[nodiscard]] std::byte *shared() const { return block_.shared + rondo::device::lane_control_bytes; }
  void sync() const { group_.sync(); }

 private:
  soft_cuda::Block &block_;
  soft_cuda::EmulatedGroup group_;
};

template <class Kernel>
void run(soft_cuda::Block &block, uint32_t thread, void *const *parameters) {
  static_cast<const Kernel *>(parameters[0])->run(EmulatedBlock(block, thread));
}

#define RONDO_SOFT_TRAIN_KERNEL(symbol, ...) {#symbol, run<__VA_ARGS__>, sizeof(__VA_ARGS__)},
constexpr soft_cuda::KernelEntry entries[] = {RONDO_TRAIN_KERNELS(RONDO_SOFT_TRAIN_KERNEL){nullptr, nullptr, 0}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const soft_cuda::KernelEntry *soft_cuda_kernels() { return entries; }
