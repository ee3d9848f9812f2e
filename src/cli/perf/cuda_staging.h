// SPDX-License-Identifier: Apache-2.0
// This file copies between the host and a device's memory through pinned memory. While a chunk is copied, the host
// generates the next one or checks the previous one. Chunks fit into the host's caches, and the host needs less memory
// than the device has.
#pragma once

#include <array>

#include "bench/perf/device.h"
#include "cuda/driver/handles.h"
#include "src/cli/perf/cuda_streams.h"

namespace rondo::cli {

/// Copies on the stream of calls. Only that stream's thread uses it.
class CudaStaging {
 public:
  /// Allocates the pinned memory, which may wait for the device. What `streams` names must outlive this object.
  Result<void> open(const PerfStreams &streams);

  /// These functions return when their copies are complete.
  Result<void> fill(std::byte *to, size_t bytes, const perf::MakeChunk &make);
  Result<void> look(const std::byte *from, size_t bytes, const perf::SeeChunk &see);

 private:
  /// One half of the pinned memory, and the end of its last copy.
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
