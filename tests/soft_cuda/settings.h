// SPDX-License-Identifier: Apache-2.0
// This file declares the settings SOFT_CUDA_*, which cuInit reads once. tests/soft_cuda/README.md lists them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver/driver_api.h"

namespace soft_cuda {

using rondo::cuda::CuStatus;

/// A call that must fail, such as `cuMemAlloc#3=2` in SOFT_CUDA_FAULTS. tests/soft_cuda/README.md explains all faults.
struct CallFault {
  std::string name;     ///< name of the entry in cuGetProcAddress
  uint64_t number = 0;  ///< which call of that entry fails, from 1
  CuStatus status = CuStatus::unknown;
};

struct Faults {
  uint64_t seed = 1;
  std::vector<CallFault> calls;
  double fail_share = 0;  ///< share of calls that fail, among those that may lack a resource
  CuStatus fail_status = CuStatus::out_of_memory;
  double work_share = 0;     ///< share of pieces of work on streams that fail; the error sticks in the context
  uint64_t work_number = 0;  ///< this piece of work fails, too, from 1; 0 for none
  CuStatus work_status = CuStatus::launch_failed;
  double delay_share = 0;  ///< share of pieces of work on streams that are delayed
  uint64_t delay_us = 0;   ///< the longest delay
};

/// The answer of devices about network cards that write into device memory. With `ordered`, a kernel may read data once
/// the card reports that the data were written. With `flush`, the host must flush the data before that. With
/// `unordered`, a kernel may never read them.
enum class GpuDirect { off, ordered, flush, unordered };

/// The pairs of devices in the machine that reach each other's memory.
struct Peers {
  bool all = true;
  std::set<std::pair<int, int>> pairs;  ///< if not `all`: the pairs, each with the lesser number first

  [[nodiscard]] bool reach(int from, int to) const {
    return all || from == to || pairs.contains({from < to ? from : to, from < to ? to : from});
  }
};

struct Settings {
  int device_count = 1;     ///< devices of the machine
  std::vector<int> visible;  ///< devices that this process sees, in its order
  uint32_t resident_blocks = 64;  ///< blocks that can be resident on a device
  uint32_t blocks_per_multiprocessor = 1;  ///< small blocks that one multiprocessor holds
  uint32_t claimed_blocks = 0;    ///< resident blocks that the device claims to hold; 0 for the real number
  uint32_t queue_count = 8;       ///< hardware queues of a context
  uint32_t block_threads = 2;     ///< fibers or host threads that represent a block's threads
  uint32_t launch_queue = 1024;   ///< pieces of work that a stream takes before the host waits
  uint64_t memory_bytes = uint64_t{8} << 30;
  bool queue_waits_for_end =
      true;                    ///< later work in a hardware queue waits for the end of earlier work, not its start
  bool mps = false;            ///< the devices say that processes share them by MPS
  bool vmm = true;             ///< the devices say that they have memory with descriptors
  bool nvlink = true;          ///< the devices say that NVLink is between them
  Peers peers;
  GpuDirect gpu_direct = GpuDirect::off;
  bool dmabuf = false;         ///< devices report that they export dmabufs, but export memfds
  bool host_reads = false;     ///< the driver reports that the host can read device memory at its addresses
  int capability = 90;         ///< compute capability, 90 for 9.0
  bool serial = false;         ///< kernels of a device run one after another, as under some tools
  bool synchronising = true;   ///< calls that may synchronise the device do so
  bool captures_waits = true;  ///< stream memory operations can be captured
  int version = 13'000;
  std::string kernels;     ///< path of a library of kernels
  std::string missing;     ///< an entry that this driver lacks
  std::string turns_path;  ///< file through which processes take turns on a device, or empty
  uint64_t turn_ms = 0;    ///< length of a turn
  Faults faults;
};

/// Reads the settings. Returns false if a value is invalid, with one line in `why`.
bool read_settings(Settings &settings, std::string &why);

/// Returns a number in [0, 1) that depends only on the three arguments.
double chance(uint64_t seed, uint64_t stream, uint64_t number);

}  // namespace soft_cuda
