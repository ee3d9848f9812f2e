// SPDX-License-Identifier: Apache-2.0
// Holds what a user may set: the environment, read once into a Config, and rondo_config_t over it. Both are passed down
// as plain data. Nothing else in the library reads the environment, with two exceptions. One is the description of a
// job by its launcher (src/bootstrap/launch/environment.h). The other is the log, which must work before there is a
// Config.
//
// One table has a line for each variable: its name, the values it takes, its meaning, how it is read and shown. The
// line also names the field of rondo_config_t that sets the same, and says whether ranks must agree on the value. The
// functions parse_config(), merge() and the comparison of ranks (src/core/group_info.cpp) use that table alone. A test
// checks that docs/environment.md has all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"

namespace rondo {

inline constexpr uint32_t channels_max = 8;           ///< on host memory
inline constexpr uint32_t device_channels_max = 128;  ///< each is a block
inline constexpr uint32_t max_ctas_max = 1024;
inline constexpr uint64_t chunk_bytes_min = 64;
inline constexpr uint64_t chunk_bytes_max = uint64_t{1} << 30;

/// A waiting rank hands its core over in one of these ways. automatic: it spins while there are cores for all ranks.
/// With more ranks than cores it yields, then sleeps on a futex.
enum class WaitMode { automatic, spin, yield, sleep };
[[nodiscard]] const char *wait_mode_string(WaitMode mode);

/// Which instructions the host's reducers use. automatic: the best that this processor has.
enum class SimdTarget { automatic, plain, avx2, avx512, avx512_bf16 };
[[nodiscard]] const char *simd_target_string(SimdTarget target);

/// The way in which device memory is handed to other processes. automatic: vmm if the devices of all ranks can,
/// otherwise ipc.
enum class DeviceHandles { automatic, ipc, vmm };
[[nodiscard]] const char *device_handles_string(DeviceHandles handles);

/// The way in which kernels are launched.
/// - own: one launch for each rank
/// - shared: one launch for all ranks that are threads of one process on one device
enum class DeviceLaunch { automatic, own, shared };
[[nodiscard]] const char *device_launch_string(DeviceLaunch launch);

/// The network that joins ranks of different hosts. automatic: tcp.
enum class NetworkChoice { automatic, tcp, ucx, verbs };
[[nodiscard]] const char *network_choice_string(NetworkChoice choice);

/// The memory that holds the payloads of a device rank's links to other hosts.
/// - on: the device's memory, which networks read and write themselves
/// - automatic: the device's memory if the network can use it
/// - off: the host's memory
enum class DeviceSlots { off, automatic, on };
[[nodiscard]] const char *device_slots_string(DeviceSlots slots);

/// The environment's wishes; a variable that is not set, or empty, leaves the default here.
struct Config {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
  uint32_t channels = 0;     ///< 0: the tuner chooses
  uint64_t chunk_bytes = 0;  ///< 0: the tuner chooses
  uint64_t timeout_ns = 300'000'000'000;
  uint64_t init_timeout_ns = 60'000'000'000;
  std::string network_interface;  ///< names or addresses, with commas; empty for any
  uint32_t sockets = 1;           ///< by TCP, to each rank of another host on each of these interfaces
  NetworkChoice network = NetworkChoice::automatic;
  uint64_t network_timeout_ns = 1'000'000'000;  ///< for which another host may be silent before its ranks are lost
  DeviceSlots device_slots = DeviceSlots::off;
  bool frame_tags = false;        ///< a tag on each frame over TCP that only the two ranks can make
  std::string tcp_congestion = "auto";  ///< of sockets between hosts: auto, system, or as the kernel calls it
  std::string ib_devices;     ///< for verbs, a rail each, e.g. "mlx5_0,mlx5_1:1"; empty for any
  int32_t ib_gid_index = -1;  ///< for verbs; -1 to choose by the host's address
  SimdTarget simd = SimdTarget::automatic;
  WaitMode wait = WaitMode::automatic;
  bool mapping = true;        ///< peers may map buffers of rondo_mem_alloc() and moved registrations
  bool cross_memory = true;   ///< peers may read buffers by process_vm_readv
  uint32_t slot_count = 0;    ///< of a connection, a power of two; 0 leaves it to the transport
  uint64_t slot_bytes = 0;    ///< a multiple of 64; 0 leaves it to the transport
  std::string topology_file;  ///< hwloc XML to use in place of this machine; empty to read this machine
  std::string tuning_file;    ///< of `rondo tune`; empty for the built-in tables
  std::string recorder_dir;   ///< where a failed communicator's flight recording is written; empty for nowhere
  std::string cuda_library = "libcuda.so.1";       ///< the CUDA driver
  std::string nvml_library = "libnvidia-ml.so.1";  ///< what knows NVLinks; missing, they are unknown
  rondo_device_executor_t device_executor = RONDO_DEVICE_EXECUTOR_AUTO;
  DeviceHandles device_handles = DeviceHandles::automatic;
  DeviceLaunch device_launch = DeviceLaunch::automatic;
  uint32_t max_ctas = 0;  ///< blocks of a collective on a device, at most; 0 for no limit
  std::string log = "warning";
  std::string log_file;  ///< empty: standard error
  std::vector<std::string> given;  ///< the variables that were set, in the order of the table
};

/// The settings in force for one communicator: Config, overridden by the caller's rondo_config_t.
struct Settings : Config {
  int32_t device = RONDO_DEVICE_HOST;
  bool nonblocking = false;  ///< the initialisation
  uint64_t tuning_hash = 0;  ///< of the table in tuning_file, which src/core reads; 0 if none
};

/// The field of rondo_config_t that sets the same as a variable.
struct CallerField {
  const char *name = nullptr;  ///< null: there is none
  size_t offset = 0;           ///< a caller whose struct ends there, or before, does not know the field
  /// A field at its default leaves `config` as it is. `name` is for the error.
  Result<void> (*take)(const rondo_config_t &caller, const char *name, Config &config) = nullptr;
};

/// A setting as the number that ranks compare.
struct SharedNumber {
  uint64_t (*get)(const Config &config) = nullptr;  ///< null: ranks need not agree on the setting
  void (*put)(Config &config, uint64_t number) = nullptr;
};

struct ConfigVariable {
  const char *name;
  const char *values;   ///< what it takes, for people
  const char *meaning;  ///< one line
  Result<void> (*parse)(std::string_view text, Config &config);
  std::string (*show)(const Config &config);  ///< as the variable would be written; "" for none
  SharedNumber shared{};
  CallerField field{};
};

[[nodiscard]] std::span<const ConfigVariable> config_variables();

/// A variable's value, or null where it is not set.
using EnvironmentLookup = std::function<const char *(const char *name)>;

/// Parses all variables without I/O. RONDO_ERROR_INVALID_ARGUMENT names the variable, its value and the values it
/// takes.
[[nodiscard]] Result<Config> parse_config(const EnvironmentLookup &lookup);

/// Calls parse_config() on this process's environment; the log's file must be open, too.
[[nodiscard]] Result<Config> read_config();

/// Returns a line for each variable of `entries` ("NAME=VALUE") that begins with RONDO_ and that nothing of ours knows.
/// The line names the variable that may be meant.
[[nodiscard]] std::vector<std::string> unknown_variables(std::span<const std::string> entries);

/// Logs the unknown variables of this process's environment as warnings, once, however often it is called. A rank that
/// `rondo run` started leaves them to rank 0, which has the same environment.
void warn_of_unknown_variables();

/// Merges the settings of a communicator. A field of `caller` at its default leaves the environment's value. `caller`
/// may be null (all defaults). Its size may be that of an earlier version, or of a later one if the tail that this
/// version does not know is zero. RONDO_ERROR_INVALID_ARGUMENT names the field.
[[nodiscard]] Result<Settings> merge(const rondo_config_t *caller, const Config &environment);

}  // namespace rondo
