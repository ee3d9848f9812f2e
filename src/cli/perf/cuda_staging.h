// SPDX-License-Identifier: Apache-2.0
// Copies between the host and a device's memory through pinned memory. While a chunk is copied, the host makes the next
// one or checks the previous one. A chunk stays in the host's caches meanwhile, so the host does not need as much
// memory as the device has.
#pragma once

#include <array>

#include "bench/perf/device.h"
#include "cuda/driver/handles.h"
#include "src/cli/perf/cuda_streams.h"

namespace rondo::cli {

/// On the stream of calls, of its thread.
class CudaStaging {
 public:
  /// Opens the memory. It may wait for the device. `streams` must stay.
  Result<void> open(const PerfStreams &streams);

  /// These functions return when their copies are complete.
  Result<void> fill(std::byte *to, size_t bytes, const perf::MakeChunk &make);
  Result<void> look(const std::byte *from, size_t bytes, const perf::SeeChunk &see);

 private:
  /// One of two halves of the memory, and the end of its last copy.
  struct Half {
    std::byte *at = nullptr;
    cuda::Event copied;
  };

  Result<void> note_copy(const Half &half) const;
  Result<void> wait_for_copy(const Half &half) const;

  PerfStreams streams_;
  cuda::HostMemory memory_;
  std::array<Half, 2> halves_;
};

}  // namespace rondo::cli
