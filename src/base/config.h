// SPDX-License-Identifier: Apache-2.0
// This file holds the settings of a user: the environment, which is read once into a Config, and rondo_config_t, which
// overrides the Config. Both are passed down as plain data. Other code of the library reads no setting from the
// environment, except the log, which must work before a Config exists. The description of a job by its launcher is
// read, too (src/bootstrap/launch/environment.h).
//
// One table has a line for each variable: its name, its values, its meaning, and how it is read and shown. The line
// also names the field of rondo_config_t with the same meaning, and says whether ranks must agree on the value. No
// other list is used by parse_config(), merge() and the comparison of the ranks' settings (src/core/group_info.cpp). A
// test checks that docs/environment.md has every variable.
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

inline constexpr uint32_t channels_max = 8;           ///< most channels on host memory
inline constexpr uint32_t device_channels_max = 128;  ///< most channels on a device, where each is a block
inline constexpr uint32_t max_ctas_max = 1024;
inline constexpr uint64_t chunk_bytes_min = 64;
inline constexpr uint64_t max_memory_bytes_min = uint64_t{64} << 10;
inline constexpr uint64_t max_memory_bytes_max = uint64_t{1} << 40;
inline constexpr uint64_t chunk_bytes_max = uint64_t{1} << 30;

/// The behaviour of a waiting rank on its core. With `automatic`, a rank spins if the host has cores for all its ranks.
/// If not, the rank yields its core at first, then sleeps on a futex.
enum class WaitMode { automatic, spin, yield, sleep };
[[nodiscard]] const char *wait_mode_string(WaitMode mode);

/// The instructions that the host's reducers use. automatic: the best that this processor has.
enum class SimdTarget { automatic, plain, avx2, avx512, avx512_bf16 };
[[nodiscard]] const char *simd_target_string(SimdTarget target);

/// The method by which other processes get access to device memory. With `automatic`, it is vmm if the devices of all
/// ranks support vmm, and otherwise ipc.
enum class DeviceHandles { automatic, ipc, vmm };
[[nodiscard]] const char *device_handles_string(DeviceHandles handles);

/// The method by which kernels are launched.
/// - own: one launch for each rank
/// - shared: one launch for all ranks that are threads of one process on one device
enum class DeviceLaunch { automatic, own, shared };
[[nodiscard]] const char *device_launch_string(DeviceLaunch launch);

/// The network between ranks of different hosts. automatic: tcp.
enum class NetworkChoice { automatic, tcp, ucx, verbs };
[[nodiscard]] const char *network_choice_string(NetworkChoice choice);

/// The memory that holds the payloads of a device rank's links to other hosts.
/// - on: the device's memory, which the network reads and writes directly
/// - automatic: the device's memory if the network can use it
/// - off: the host's memory
enum class DeviceSlots { off, automatic, on };
[[nodiscard]] const char *device_slots_string(DeviceSlots slots);

/// The settings of the environment. If a variable is not set, or empty, the default here applies.
struct Config {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
  uint32_t channels = 0;     ///< 0: the tuner chooses
  uint64_t chunk_bytes = 0;  ///< 0: the tuner chooses
  uint64_t timeout_ns = 300'000'000'000;
  uint64_t init_timeout_ns = 60'000'000'000;
  std::string network_interface;  ///< names or addresses, with commas; empty for any
  uint32_t sockets = 1;           ///< TCP connections to each rank of another host on each of these network interfaces
  NetworkChoice network = NetworkChoice::automatic;
  uint64_t network_timeout_ns = 1'000'000'000;  ///< longest silence of another host before its ranks count as lost
  DeviceSlots device_slots = DeviceSlots::off;
  bool frame_tags = false;        ///< true: each frame over TCP has a tag that only the two ranks can make
  std::string tcp_congestion = "auto";  ///< congestion control between hosts: auto, system, or an algorithm's name
  std::string ib_devices;     ///< for verbs, one device for each rail, such as "mlx5_0,mlx5_1:1"; empty for any
  int32_t ib_gid_index = -1;  ///< for verbs, index in the device's table of GIDs; -1 to choose by the host's address
  SimdTarget simd = SimdTarget::automatic;
  WaitMode wait = WaitMode::automatic;
  bool mapping = true;        ///< peers may map buffers of rondo_mem_alloc(), and registered buffers that were moved
  bool cross_memory = true;   ///< peers may read buffers by process_vm_readv
  uint32_t slot_count = 0;    ///< slots of a connection, a power of two; 0 lets the transport choose
  uint64_t slot_bytes = 0;    ///< bytes of a slot, a multiple of 64; 0 lets the transport choose
  std::string topology_file;  ///< hwloc XML to use in place of this machine; empty to read this machine
  std::string tuning_file;    ///< table of `rondo tune`; empty for the built-in tables
  std::string recorder_dir;   ///< folder for flight recordings of failed communicators; empty for none
  std::string cuda_library = "libcuda.so.1";       ///< the CUDA driver
  std::string nvml_library = "libnvidia-ml.so.1";  ///< library that knows NVLinks; without it NVLinks are unknown
  rondo_device_executor_t device_executor = RONDO_DEVICE_EXECUTOR_AUTO;
  DeviceHandles device_handles = DeviceHandles::automatic;
  DeviceLaunch device_launch = DeviceLaunch::automatic;
  uint32_t max_ctas = 0;  ///< most blocks of a collective on a device; 0 for no limit
  /// The most bytes of memory that a communicator uses on a host, and that a rank uses on a device. 0 for no limit.
  uint64_t max_memory_bytes = 0;
  std::string log = "warning";
  std::string log_file;  ///< empty for standard error
  std::vector<std::string> given;  ///< variables that were set, in the order of the table
};

/// The settings of one communicator: Config, overridden by the caller's rondo_config_t.
struct Settings : Config {
  int32_t device = RONDO_DEVICE_HOST;
  bool nonblocking = false;  ///< whether the call that initialises the communicator returns at once
  uint64_t tuning_hash = 0;  ///< hash of the table in tuning_file, set by src/core; 0 if none
};

/// The field of rondo_config_t that has the same meaning as a variable.
struct CallerField {
  const char *name = nullptr;  ///< null if there is no such field
  size_t offset = 0;           ///< if a caller's struct is no larger than this, it does not have the field
  /// Applies the field to `config`. A field with its default value changes nothing. `name` is for errors.
  Result<void> (*take)(const rondo_config_t &caller, const char *name, Config &config) = nullptr;
};

/// A setting as a number, which ranks compare.
struct SharedNumber {
  uint64_t (*get)(const Config &config) = nullptr;  ///< null if ranks need not agree on the setting
  void (*put)(Config &config, uint64_t number) = nullptr;
};

struct ConfigVariable {
  const char *name;
  const char *values;   ///< valid values, as text for people
  const char *meaning;  ///< one line for people
  Result<void> (*parse)(std::string_view text, Config &config);
  std::string (*show)(const Config &config);  ///< returns the variable's text; "" for none
  SharedNumber shared{};
  CallerField field{};
};

[[nodiscard]] std::span<const ConfigVariable> config_variables();

/// Returns the value of a variable, or null if it is not set.
using EnvironmentLookup = std::function<const char *(const char *name)>;

/// Parses all variables without I/O. RONDO_ERROR_INVALID_ARGUMENT names the variable, its value and the valid values.
[[nodiscard]] Result<Config> parse_config(const EnvironmentLookup &lookup);

/// Calls parse_config() on this process's environment. It also fails if the log's file could not be opened.
[[nodiscard]] Result<Config> read_config();

/// Returns a line for each entry ("NAME=VALUE") whose variable begins with RONDO_ and is unknown. The line names the
/// known variable that the user may have meant.
[[nodiscard]] std::vector<std::string> unknown_variables(std::span<const std::string> entries);

/// Logs the unknown variables of this process's environment as warnings. Only the first call logs. If `rondo run`
/// started this rank, only rank 0 logs, because all ranks have the same environment.
void warn_of_unknown_variables();

/// Merges the environment's settings with the caller's. If a field of `caller` has its default value, the environment's
/// value applies. `caller` may be null, which means all defaults. The struct may be of an earlier version. It may also
/// be of a later version if all fields that this library does not know are zero. RONDO_ERROR_INVALID_ARGUMENT names the
/// field.
[[nodiscard]] Result<Settings> merge(const rondo_config_t *caller, const Config &environment);

}  // namespace rondo
