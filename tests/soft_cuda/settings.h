// SPDX-License-Identifier: Apache-2.0
// The settings of SOFT_CUDA_*, read once by cuInit. docs/gpu-tests.md lists the variables.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/driver_api.h"

namespace soft_cuda {

using rondo::cuda::CuStatus;

/// A call that is to fail, `cuMemAlloc#3=2` in SOFT_CUDA_FAULTS. docs/gpu-tests.md explains all faults.
struct CallFault {
  std::string name;     ///< of the entry, as cuGetProcAddress knows it
  uint64_t number = 0;  ///< the call of that entry that fails, from 1
  CuStatus status = CuStatus::unknown;
};

struct Faults {
  uint64_t seed = 1;
  std::vector<CallFault> calls;
  double fail_share = 0;  ///< of the calls that may fail for want of something
  CuStatus fail_status = CuStatus::out_of_memory;
  double work_share = 0;     ///< of the pieces of work on streams; the error sticks in the context
  uint64_t work_number = 0;  ///< that piece of work, too, from 1; 0 for none
  CuStatus work_status = CuStatus::launch_failed;
  double delay_share = 0;  ///< of the pieces of work on streams
  uint64_t delay_us = 0;   ///< at most
};

/// The devices' answer about network cards that write into their memory. With `ordered` a kernel may read it when the
/// card says that it has written, with `flush` when the host has flushed it, too. With `unordered` it never may.
enum class GpuDirect { off, ordered, flush, unordered };

/// Which devices of the machine reach each other's memory.
struct Peers {
  bool all = true;
  std::set<std::pair<int, int>> pairs;  ///< otherwise these alone, the lesser first

  [[nodiscard]] bool reach(int from, int to) const {
    return all || from == to || pairs.contains({from < to ? from : to, from < to ? to : from});
  }
};

struct Settings {
  int device_count = 1;     ///< of the machine
  std::vector<int> visible;  ///< those that this process sees, in its order
  uint32_t resident_blocks = 64;  ///< of a device
  uint32_t blocks_per_multiprocessor = 1;  ///< small ones
  uint32_t claimed_blocks = 0;    ///< that it says it can hold; 0 for the real number
  uint32_t queue_count = 8;       ///< of a context
  uint32_t block_threads = 2;     ///< fibers or host threads that stand for a block's
  uint32_t launch_queue = 1024;   ///< pieces of work that a stream takes before the host waits
  uint64_t memory_bytes = uint64_t{8} << 30;
  bool queue_waits_for_end =
      true;                    ///< what stands behind a piece of work in its queue waits for its end, not its start
  bool mps = false;            ///< the devices say that processes share them by MPS
  bool vmm = true;             ///< the devices say that they have memory with descriptors
  bool nvlink = true;          ///< the devices say that NVLink is between them
  Peers peers;
  GpuDirect gpu_direct = GpuDirect::off;
  bool dmabuf = false;         ///< the devices say that they give out dmabufs, and what they give out is none
  bool host_reads = false;     ///< the driver says that the host reads memory of the devices at its addresses
  int capability = 90;         ///< compute capability, 90 for 9.0
  bool serial = false;         ///< kernels of a device run one by one, as some tools make them
  bool synchronising = true;   ///< what may synchronise the device does
  bool captures_waits = true;  ///< stream memory operations can be captured
  int version = 13'000;
  std::string kernels;     ///< path of a library of kernels
  std::string missing;     ///< an entry that this driver is to lack
  std::string turns_path;  ///< of the file by which processes take turns on a device, or empty
  uint64_t turn_ms = 0;    ///< of a turn
  Faults faults;
};

/// Returns false if a value cannot be used; `why` is one line then.
bool read_settings(Settings &settings, std::string &why);

/// Returns a number in [0, 1) that depends on the three alone.
double chance(uint64_t seed, uint64_t stream, uint64_t number);

}  // namespace soft_cuda
