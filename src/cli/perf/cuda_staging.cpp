// SPDX-License-Identifier: Apache-2.0
#include "src/cli/perf/cuda_staging.h"

#include <algorithm>

namespace rondo::cli {
namespace {

using namespace cuda;

constexpr size_t chunk_bytes = size_t{1} << 20;  // a whole number of elements of any type

struct Chunk {
  size_t begin, bytes;
};

Chunk chunk_of(size_t number, size_t all_bytes) {
  const size_t begin = number * chunk_bytes;
  return {begin, std::min(chunk_bytes, all_bytes - begin)};
}

size_t chunk_count(size_t bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

DevicePointer address(const std::byte *at) { return reinterpret_cast<DevicePointer>(at); }

}  // namespace

Result<void> CudaStaging::open(const PerfStreams &streams) {
  streams_ = streams;
  RONDO_TRY_ASSIGN(memory_, allocate_host_memory(*streams.context, halves_.size() * chunk_bytes));
  for (size_t half = 0; half < halves_.size(); ++half) {
    halves_[half].at = static_cast<std::byte *>(memory_.get().object) + half * chunk_bytes;
    RONDO_TRY_ASSIGN(halves_[half].copied, make_event(*streams.context));
  }
  return {};
}

Result<void> CudaStaging::note_copy(const Half &half) const {
  return streams_.with_context("cuEventRecord", [&](const CudaDriver &cu) {
    return cu.event_record(half.copied.get().object, streams_.calls);
  });
}

Result<void> CudaStaging::wait_for_copy(const Half &half) const {
  return streams_.with_context("cuEventSynchronize",
                               [&](const CudaDriver &cu) { return cu.event_synchronize(half.copied.get().object); });
}

Result<void> CudaStaging::fill(std::byte *to, size_t bytes, const perf::MakeChunk &make) {
  for (size_t number = 0; number < chunk_count(bytes); ++number) {
    const Half &half = halves_[number % halves_.size()];
    if (number >= halves_.size()) RONDO_TRY(wait_for_copy(half));
    const Chunk chunk = chunk_of(number, bytes);
    make(half.at, chunk.begin, chunk.bytes);
    RONDO_TRY(streams_.with_context("copying inputs to the device", [&](const CudaDriver &cu) {
      return cu.memcpy_htod_async(address(to + chunk.begin), half.at, chunk.bytes, streams_.calls);
    }));
    RONDO_TRY(note_copy(half));
  }
  for (const Half &half : halves_) RONDO_TRY(wait_for_copy(half));
  return {};
}

Result<void> CudaStaging::look(const std::byte *from, size_t bytes, const perf::SeeChunk &see) {
  const size_t count = chunk_count(bytes);
  for (size_t number = 0; number <= count; ++number) {
    if (number < count) {
      const Half &half = halves_[number % halves_.size()];
      const Chunk chunk = chunk_of(number, bytes);
      RONDO_TRY(streams_.with_context("copying results from the device", [&](const CudaDriver &cu) {
        return cu.memcpy_dtoh_async(half.at, address(from + chunk.begin), chunk.bytes, streams_.calls);
      }));
      RONDO_TRY(note_copy(half));
    }
    if (number == 0) continue;
    const Half &before = halves_[(number - 1) % halves_.size()];
    RONDO_TRY(wait_for_copy(before));
    const Chunk chunk = chunk_of(number - 1, bytes);
    see(before.at, chunk.begin, chunk.bytes);
  }
  return {};
}

}  // namespace rondo::cli
