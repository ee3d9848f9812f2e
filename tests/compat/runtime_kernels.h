// SPDX-License-Identifier: Apache-2.0
// With this file, the kernels of a program are host functions. cudaLaunchKernel launches such a kernel as
// `soft_kernel(&kernel)`. The threads of a launch run one after another, so no thread may wait for another one.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <tuple>
#include <utility>

namespace soft_runtime {

/// Copies the arguments of a launch, and returns a function that runs all threads of the launch.
using PrepareLaunch = std::function<std::function<void()>(dim3 grid, dim3 block, void *const *arguments)>;

/// Adds a kernel. `function` names it in cudaLaunchKernel.
void add_kernel(const void *function, PrepareLaunch prepare);

/// The running thread's place in its launch.
struct Place {
  dim3 grid, block;
  uint3 block_index{}, thread_index{};
};
inline thread_local Place place;

/// Calls `visit` for each place of a grid or a block, and stores the place in `index`.
template <class Visit>
void for_each_place(dim3 extent, uint3 &index, const Visit &visit) {
  for (index.z = 0; index.z < extent.z; ++index.z)
    for (index.y = 0; index.y < extent.y; ++index.y)
      for (index.x = 0; index.x < extent.x; ++index.x) visit();
}

template <class... Parameters, size_t... Index>
PrepareLaunch prepare_launch(void (*kernel)(Parameters...), std::index_sequence<Index...> /*of the parameters*/) {
  return [kernel](dim3 grid, dim3 block, void *const *arguments) -> std::function<void()> {
    return [=, values = std::tuple<Parameters...>(*static_cast<Parameters *>(arguments[Index])...)] {
      place.grid = grid;
      place.block = block;
      for_each_place(grid, place.block_index,
                     [&] { for_each_place(block, place.thread_index, [&] { std::apply(kernel, values); }); });
    };
  };
}

}  // namespace soft_runtime

template <class... Parameters>
const void *soft_kernel(void (*kernel)(Parameters...)) {
  const auto *function = reinterpret_cast<const void *>(kernel);
  soft_runtime::add_kernel(function, soft_runtime::prepare_launch(kernel, std::index_sequence_for<Parameters...>()));
  return function;
}

#define gridDim (soft_runtime::place.grid)
#define blockDim (soft_runtime::place.block)
#define blockIdx (soft_runtime::place.block_index)
#define threadIdx (soft_runtime::place.thread_index)
