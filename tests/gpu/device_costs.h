// SPDX-License-Identifier: Apache-2.0
// The parts of device_costs share this file: the device, its kernels, and the output of a cost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cuda/driver/handles.h"
#include "src/base/unique_handle.h"

namespace device_costs {

inline constexpr int run_count = 5;  ///< a cost is the median of these runs

struct Sizes {
  uint64_t rounds = 2000, launches = 200;
  uint64_t stream_launches = 200;  ///< launches in a graph on each of several streams; a second graph has twice as many
  uint64_t copy_bytes = uint64_t{512} << 20;
  uint64_t reduce_bytes = uint64_t{64} << 20;  ///< size of each operand
};

struct Bench {
  const rondo::cuda::CudaDriver *cu = nullptr;
  rondo::cuda::PrimaryContext context;
  rondo::cuda::Stream stream;
  rondo::cuda::Event begin, end;
  std::string image;  ///< the kernels, in the form that the driver loads
  rondo::cuda::Library kernels;
  std::map<std::string, rondo::cuda::CuFunction> functions;  ///< found before any measurement
  Sizes sizes;
  std::string path;  ///< file to which `document` is written after each cost, or ""
  nlohmann::ordered_json document;

  [[nodiscard]] rondo::cuda::CuStream handle() const { return stream.get().object; }
  [[nodiscard]] rondo::Result<void> check(rondo::cuda::CuStatus status, const char *what) const {
    return rondo::cuda::cuda_check(*cu, status, what);
  }
};

[[nodiscard]] inline uint64_t *words_at(rondo::cuda::DevicePointer address) {
  return reinterpret_cast<uint64_t *>(address);
}

/// Returns the median of run_count runs, after a run that does not count.
[[nodiscard]] rondo::Result<double> median_us(const std::function<rondo::Result<double>()> &once);

void tell(Bench &bench, const std::string &name, double value, const char *unit);

/// A process that exports device memory.
class Exporter {
 public:
  Exporter();  ///< must run before this process uses the driver, which a child of fork() cannot use afterwards
  Exporter(const Exporter &) = delete;
  Exporter &operator=(const Exporter &) = delete;
  ~Exporter();
  [[nodiscard]] rondo::Result<rondo::cuda::IpcMemoryHandle> handle() const;

 private:
  rondo::FileDescriptor to_, from_;
  pid_t process_ = -1;
};

/// Records which driver calls do not return while a kernel on the device waits.
[[nodiscard]] rondo::Result<void> measure_waits(Bench &bench, const Exporter &exporter);

/// Measures the time of a kernel on several streams, which begin together. Each stream runs one kernel after another.
[[nodiscard]] rondo::Result<void> measure_streams(Bench &bench);

}  // namespace device_costs
