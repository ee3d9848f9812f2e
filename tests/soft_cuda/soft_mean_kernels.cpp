// SPDX-License-Identifier: Apache-2.0
// This file has the kernels of integer means and of premul sums for emulated blocks. soft_kernels.cpp has the others.
#include "cuda/kernels/mean.h"
#include "cuda/kernels/scale.h"
#include "tests/soft_cuda/emulated_block.h"

namespace {

soft_cuda::EmulatedGrid grid_of(const soft_cuda::Block &block, uint32_t thread) {
  return {block.index * block.thread_count + thread, block.grid_size * block.thread_count};
}

template <class Direction>
void mean_emulated(soft_cuda::Block &block, uint32_t thread, void *const *parameters) {
  rondo::device::run_mean<Direction>(grid_of(block, thread),
                                     *static_cast<const rondo::device::MeanOperation *>(parameters[0]));
}

void scale_emulated(soft_cuda::Block &block, uint32_t thread, void *const *parameters) {
  rondo::device::run_scale<rondo::Float16Element>(grid_of(block, thread),
                                                  *static_cast<const rondo::device::ScaleOperation *>(parameters[0]));
}

#define RONDO_SOFT_MEAN(name, Direction) {#name, mean_emulated<Direction>, sizeof(rondo::device::MeanOperation)},
constexpr soft_cuda::KernelEntry entries[] = {
    RONDO_MEAN_KERNELS(RONDO_SOFT_MEAN){"rondo_scale", scale_emulated, sizeof(rondo::device::ScaleOperation)},
    {nullptr, nullptr, 0}};

}  // namespace

const soft_cuda::KernelEntry *soft_kernels_of_mean() { return entries; }
