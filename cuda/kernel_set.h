// SPDX-License-Identifier: Apache-2.0
// The kernels that a communicator may use, loaded on its device. All ranks of a process that are threads share those of
// a device; the kernels of ll128 and those of direct are beside the others, for who asks for them.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/handles.h"

namespace rondo::cuda {

/// True: its kernels are loaded for who asks for it alone.
[[nodiscard]] constexpr bool has_kernels_apart(rondo_protocol_t protocol) {
  return protocol == RONDO_PROTOCOL_LL128 || protocol == RONDO_PROTOCOL_DIRECT;
}

struct LoadedKernel {
  CuFunction function = nullptr;
  int block_threads_max = 0;  ///< as its registers allow
};

struct LaunchSize {
  uint32_t blocks = 1;
  uint32_t threads = 0;       ///< of a block; fewer, where its registers allow no more
  uint32_t shared_bytes = 0;  ///< of a block
};
/// `parameter`: what the kernel takes by value. `what`: for an error. The stream's context is current.
[[nodiscard]] Result<void> launch_kernel(const CudaDriver &driver, const LoadedKernel &kernel, const LaunchSize &size,
                                         void *parameter, CuStream stream, const char *what);

class KernelSet {
 public:
  /// Loads all kernels: later, while a collective waits on the device, loading one could wait for it. `protocol`: as
  /// asked for; if its kernels are apart, they are loaded, too. RONDO_ERROR_UNSUPPORTED: this build has none, or none
  /// for this device.
  [[nodiscard]] static Result<std::shared_ptr<const KernelSet>> load(const PrimaryContext &context,
                                                                     rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO);

  [[nodiscard]] Result<LoadedKernel> find(const std::string &name) const;
  /// Of kernels that wait for other ranks: blocks of the largest one that a multiprocessor holds at once.
  [[nodiscard]] Result<int> resident_blocks(int block_threads, size_t shared_bytes) const;

 private:
  using Kernels = std::unordered_map<std::string, LoadedKernel>;
  [[nodiscard]] static Result<std::shared_ptr<const KernelSet>> find_or_load(const PrimaryContext &context,
                                                                             rondo_protocol_t apart);
  [[nodiscard]] Result<void> find_ours();
  [[nodiscard]] Result<void> find_those_of(rondo_protocol_t apart);
  [[nodiscard]] Result<void> find_all(const Library &library, const std::vector<std::string> &names,
                                      Kernels &kernels) const;

  const CudaDriver *driver_ = nullptr;
  CuContext context_ = nullptr;
  std::shared_ptr<const KernelSet> others_;  ///< of kernels apart: all but those, and the library
  Library library_;
  Kernels waiting_;    ///< that run plans
  Kernels combining_;  ///< that end by themselves
};

}  // namespace rondo::cuda
