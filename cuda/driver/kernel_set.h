// SPDX-License-Identifier: Apache-2.0
// This file declares the kernels that a communicator may use, loaded on its device. Ranks that are threads of a process
// share the kernels of a device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/driver/handles.h"

namespace rondo::cuda {

/// Kernels that are loaded together.
enum class KernelFamily : uint8_t {
  plans,       ///< kernels that run plans by simple or ll, or run messages
  load_store,  ///< kernels of load_store, each of which is a whole collective
  joint,       ///< each of these kernels runs all ranks, and waits for none
  reduce,      ///< kernels that reduce slices for the copy executor, and wait for nobody
  operands,    ///< kernels that widen and narrow integers for a mean, or scale, and wait for nobody
};

/// Returns the kernels that a communicator with these settings uses. `kernel` is the requested kernel, or load_store if
/// the communicator uses load_store by default.
[[nodiscard]] std::vector<KernelFamily> kernel_families(rondo_device_executor_t executor, rondo_kernel_t kernel);
/// Returns the names of all kernels of a family.
[[nodiscard]] std::vector<std::string> kernel_names(KernelFamily family);

/// Returns the error for a driver that is too old for the image.
[[nodiscard]] Error image_needs_driver(int compiler_version, int driver_version);

struct LoadedKernel {
  CuFunction function = nullptr;
  int block_threads_max = 0;  ///< the most that its registers allow
  bool remote = false;        ///< launched in the remote memory-sync domain
};

struct LaunchSize {
  uint32_t blocks = 1;
  uint32_t threads = 0;       ///< of a block; fewer, if registers allow only fewer
  uint32_t shared_bytes = 0;  ///< of a block
};
/// Launches a kernel, which gets `parameter` by value. `what` describes the launch in errors. The stream's context must
/// be current.
[[nodiscard]] Result<void> launch_kernel(const CudaDriver &driver, const LoadedKernel &kernel, const LaunchSize &size,
                                         void *parameter, CuStream stream, const char *what);

class KernelSet {
 public:
  /// Loads all kernels of these families now, because a later load could wait for a collective on the device.
  /// RONDO_ERROR_UNSUPPORTED: this build has no kernels, or none for this device.
  [[nodiscard]] static Result<KernelSet> load(const PrimaryContext &context, const std::vector<KernelFamily> &families);

  [[nodiscard]] Result<LoadedKernel> find(const std::string &name) const;
  /// Returns how many blocks fit on a multiprocessor at once, for the largest kernel that waits for other ranks.
  /// `shared_bytes` is the most shared memory of such a block. The call also sets the carve-out of all these kernels
  /// for that many blocks, because a multiprocessor cannot change its carve-out while a block waits there. So a block
  /// with little shared memory never keeps out a block with more.
  [[nodiscard]] Result<int> resident_blocks(int block_threads, size_t shared_bytes) const;

 private:
  struct Loaded {
    std::shared_ptr<const Library> library;
    std::unordered_map<std::string, LoadedKernel> kernels;
    bool waits = true;  ///< it waits for other ranks
  };
  [[nodiscard]] static Result<std::shared_ptr<const Loaded>> load_family(const PrimaryContext &context,
                                                                         KernelFamily family);
  void fix_carveout(uint64_t bytes) const;

  const CudaDriver *driver_ = nullptr;
  CuContext context_ = nullptr;
  std::vector<std::shared_ptr<const Loaded>> families_;
};

}  // namespace rondo::cuda

namespace rondo::device {

// These are the compiled kernels (cuda/kernels/list.h), an image for cuLibraryLoadData().

struct KernelsImage {
  const void *data = nullptr;  ///< a fat binary, or null without a CUDA compiler
  size_t bytes = 0;
  const char *architectures = "";  ///< "80,90+ptx" is code for 8.0 and 9.0, and PTX of 9.0; PTX of
                                   ///< the lowest is always there
  int compiler_version = 0;        ///< 1000 * major + 10 * minor of CUDA, or 0
};

/// Returns the driver version that images of this compiler need: the first one with the same major version.
[[nodiscard]] constexpr int driver_needed_by(int compiler_version) { return compiler_version / 1000 * 1000; }
/// Returns the number of NVIDIA's first driver release with that version, such as 580 for CUDA 13.0, or 0 if it is
/// unknown.
[[nodiscard]] constexpr int driver_release_of(int driver_version) {
  if (driver_version >= 14000) return 0;
  return driver_version >= 13000 ? 580 : 535;  // 12.2 is the oldest possible
}

/// Writes where the image is. librondo.so exports it only for the command `rondo info`, which loads the library's
/// kernels. Nothing else is exported only for the command.
extern "C" [[gnu::visibility("default")]] void rondo_private_kernels_image(KernelsImage *image) noexcept;

[[nodiscard]] inline KernelsImage kernels_image() {
  KernelsImage image;
  rondo_private_kernels_image(&image);
  return image;
}

}  // namespace rondo::device
