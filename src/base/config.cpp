// SPDX-License-Identifier: Apache-2.0
#include "src/base/config.h"

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "src/base/config_values.h"
#include "src/base/log.h"
#include "src/base/names.h"
#include "src/base/parse.h"

namespace rondo {
namespace {

using namespace config_values;

constexpr uint32_t sockets_max = 8;
constexpr uint64_t ns_per_ms = 1'000'000;

template <class Enum>
const char *name_in(std::span<const char *const> names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < names.size() ? names[index] : nullptr;
}

Error refused_field(const char *name, uint64_t value, const std::string &wanted) {
  return invalid_argument("rondo_config_t." + std::string(name) + " is " + std::to_string(value) + wanted);
}

/// Takes the value of a field of the caller's struct. The field is read as a number, because its value may be no
/// enumerator. 0 means "auto" and does not change the setting.
template <auto setting, auto field, auto enumerator_name>
Result<void> take_name(const rondo_config_t &caller, const char *name, Config &config) {
  using Enum = std::remove_reference_t<decltype(config.*setting)>;
  unsigned value = 0;
  static_assert(sizeof value == sizeof(Enum));
  std::memcpy(&value, &(caller.*field), sizeof value);
  for (unsigned known = 0; enumerator_name(static_cast<Enum>(known)) != nullptr; ++known) {
    if (known != value) continue;
    if (value != 0) config.*setting = static_cast<Enum>(value);
    return {};
  }
  return refused_field(name, value, ", which is none of: " + known_names<Enum>(enumerator_name));
}

/// Takes a number from a field of the caller's struct. 0 does not change the setting.
template <auto setting, auto field, uint64_t min, uint64_t max>
Result<void> take_number(const rondo_config_t &caller, const char *name, Config &config) {
  const auto value = caller.*field;
  if (value == 0) return {};
  if (value < min || value > max)
    return refused_field(name, value,
                         "; it takes 0 (automatic) or " + std::to_string(min) + " to " + std::to_string(max));
  config.*setting = value;
  return {};
}

/// Takes milliseconds from a field of the caller's struct. 0 does not change the setting.
template <auto setting, auto field>
Result<void> take_milliseconds(const rondo_config_t &caller, const char *, Config &config) {
  if (caller.*field != 0) config.*setting = caller.*field * ns_per_ms;
  return {};
}

Result<void> take_interface(const rondo_config_t &caller, const char *, Config &config) {
  const char *const text = caller.network_interface;
  if (text != nullptr && *text != '\0') config.network_interface = text;
  return {};
}

/// A setting that must be equal on all ranks.
template <auto setting>
constexpr SharedNumber shared{
    [](const Config &config) { return static_cast<uint64_t>(config.*setting); },
    [](Config &config, uint64_t number) {
      config.*setting = static_cast<std::remove_reference_t<decltype(config.*setting)>>(number);
    }};
constexpr SharedNumber not_shared{};

constexpr std::array variables{
    ConfigVariable{"RONDO_ALGORITHM",
                   "auto, ring, tree, halving_doubling, one_shot, two_shot, hierarchical, hierarchical_tree",
                   "the algorithm of every collective",
                   [](std::string_view text, Config &config) {
                     return set_name(config.algorithm, text, rondo_algorithm_string, "algorithm");
                   },
                   [](const Config &config) { return show_name(rondo_algorithm_string(config.algorithm)); },
                   shared<&Config::algorithm>,
                   {"algorithm", offsetof(rondo_config_t, algorithm),
                    take_name<&Config::algorithm, &rondo_config_t::algorithm, rondo_algorithm_string>}},
    ConfigVariable{"RONDO_PROTOCOL",
                   "auto, simple, ll",
                   "how the interpreter hands data over",
                   set_protocol,
                   [](const Config &config) { return show_name(rondo_protocol_string(config.protocol)); },
                   shared<&Config::protocol>,
                   {"protocol", offsetof(rondo_config_t, protocol),
                    take_name<&Config::protocol, &rondo_config_t::protocol, rondo_protocol_string>}},
    ConfigVariable{"RONDO_KERNEL",
                   "auto, interpreter, load_store",
                   "what runs the plan of a collective",
                   [](std::string_view text, Config &config) {
                     return set_name(config.kernel, text, rondo_kernel_string, "kernel");
                   },
                   [](const Config &config) { return show_name(rondo_kernel_string(config.kernel)); },
                   shared<&Config::kernel>,
                   {"kernel", offsetof(rondo_config_t, kernel),
                    take_name<&Config::kernel, &rondo_config_t::kernel, rondo_kernel_string>}},
    ConfigVariable{"RONDO_CHANNELS",
                   "auto, 1-128",
                   "parallel lanes of a collective",
                   [](std::string_view text, Config &config) {
                     return set_choice(config.channels, text, parse_number(text, 1, device_channels_max));
                   },
                   [](const Config &config) { return show_choice(config.channels, show_number); },
                   shared<&Config::channels>,
                   {"channels", offsetof(rondo_config_t, channels),
                    take_number<&Config::channels, &rondo_config_t::channels, 1, device_channels_max>}},
    ConfigVariable{"RONDO_CHUNK_BYTES",
                   "auto, 64-1G",
                   "the schedule's unit",
                   [](std::string_view text, Config &config) {
                     return set_choice(config.chunk_bytes, text, parse_bytes(text, chunk_bytes_min, chunk_bytes_max));
                   },
                   [](const Config &config) { return show_choice(config.chunk_bytes, show_bytes); },
                   shared<&Config::chunk_bytes>,
                   {"chunk_bytes", offsetof(rondo_config_t, chunk_bytes),
                    take_number<&Config::chunk_bytes, &rondo_config_t::chunk_bytes, chunk_bytes_min, chunk_bytes_max>}},
    ConfigVariable{"RONDO_TIMEOUT",
                   "seconds, 0.001-4000000",
                   "for each operation",
                   [](std::string_view text, Config &config) { return set(config.timeout_ns, parse_seconds(text)); },
                   [](const Config &config) { return show_seconds(config.timeout_ns); },
                   not_shared,
                   {"timeout_ms", offsetof(rondo_config_t, timeout_ms),
                    take_milliseconds<&Config::timeout_ns, &rondo_config_t::timeout_ms>}},
    ConfigVariable{
        "RONDO_INIT_TIMEOUT",
        "seconds, 0.001-4000000",
        "for the whole of initialisation",
        [](std::string_view text, Config &config) { return set(config.init_timeout_ns, parse_seconds(text)); },
        [](const Config &config) { return show_seconds(config.init_timeout_ns); },
        not_shared,
        {"init_timeout_ms", offsetof(rondo_config_t, init_timeout_ms),
         take_milliseconds<&Config::init_timeout_ns, &rondo_config_t::init_timeout_ms>}},
    ConfigVariable{"RONDO_INTERFACE",
                   "name or address, or several",
                   "the network interface to meet by, and the rails",
                   [](std::string_view text, Config &config) { return set_text(config.network_interface, text); },
                   [](const Config &config) { return config.network_interface; },
                   not_shared,
                   {"network_interface", offsetof(rondo_config_t, network_interface), take_interface}},
    ConfigVariable{
        "RONDO_SOCKETS", "1-8", "TCP connections, or queue pairs of verbs, with a rank of another host on each rail",
        [](std::string_view text, Config &config) { return set(config.sockets, parse_number(text, 1, sockets_max)); },
        [](const Config &config) { return std::to_string(config.sockets); }, shared<&Config::sockets>},
    ConfigVariable{"RONDO_FRAME_TAGS", "off, on", "whether each frame over TCP between hosts has a tag",
                   [](std::string_view text, Config &config) { return set_switch(config.frame_tags, text, "on"); },
                   [](const Config &config) { return show_switch(config.frame_tags, "on"); },
                   shared<&Config::frame_tags>},
    ConfigVariable{"RONDO_TCP_CONGESTION", "auto, system, or a name such as cubic",
                   "the congestion control of links over TCP",
                   [](std::string_view text, Config &config) { return set_text(config.tcp_congestion, text); },
                   [](const Config &config) { return config.tcp_congestion; }},
    ConfigVariable{"RONDO_NETWORK", "auto, tcp, ucx, verbs", "what joins ranks of different hosts",
                   [](std::string_view text, Config &config) {
                     return set_name(config.network, text, network_choice_string, "network");
                   },
                   [](const Config &config) { return show_name(network_choice_string(config.network)); },
                   shared<&Config::network>},
    ConfigVariable{
        "RONDO_NETWORK_TIMEOUT", "seconds, 1-600", "how long another host may be silent",
        [](std::string_view text, Config &config) { return set_network_timeout(config.network_timeout_ns, text); },
        [](const Config &config) { return show_seconds(config.network_timeout_ns); },
        shared<&Config::network_timeout_ns>},
    ConfigVariable{"RONDO_NETWORK_DEVICE_SLOTS", "off, auto, on",
                   "whether slots of links to other hosts are in memory of a CUDA device",
                   [](std::string_view text, Config &config) {
                     return set_name(config.device_slots, text, device_slots_string, "place of slots");
                   },
                   [](const Config &config) { return show_name(device_slots_string(config.device_slots)); },
                   shared<&Config::device_slots>},
    ConfigVariable{"RONDO_IB_HCA", "device, or device:port, or several",
                   "the RDMA devices of RONDO_NETWORK=verbs, a rail each",
                   [](std::string_view text, Config &config) { return set_text(config.ib_devices, text); },
                   [](const Config &config) { return config.ib_devices; }},
    ConfigVariable{
        "RONDO_IB_GID_INDEX", "auto, 0-255", "the entry of their tables of addresses",
        [](std::string_view text, Config &config) { return set_gid_index(config.ib_gid_index, text); },
        [](const Config &config) { return config.ib_gid_index < 0 ? "auto" : std::to_string(config.ib_gid_index); }},
    ConfigVariable{"RONDO_SIMD", "auto, plain, avx2, avx512, avx512_bf16", "the instructions of the host's reducers",
                   [](std::string_view text, Config &config) {
                     return set_name(config.simd, text, simd_target_string, "instruction set");
                   },
                   [](const Config &config) { return show_name(simd_target_string(config.simd)); }},
    ConfigVariable{"RONDO_WAIT", "auto, spin, yield, sleep", "how a waiting rank hands over its core",
                   [](std::string_view text, Config &config) {
                     return set_name(config.wait, text, wait_mode_string, "way to wait");
                   },
                   [](const Config &config) { return show_name(wait_mode_string(config.wait)); },
                   shared<&Config::wait>},
    ConfigVariable{"RONDO_MAPPING", "auto, off", "whether peers may map each other's buffers",
                   [](std::string_view text, Config &config) { return set_switch(config.mapping, text); },
                   [](const Config &config) { return show_switch(config.mapping); }},
    ConfigVariable{"RONDO_CROSS_MEMORY", "auto, off", "whether peers may read each other's buffers across",
                   [](std::string_view text, Config &config) { return set_switch(config.cross_memory, text); },
                   [](const Config &config) { return show_switch(config.cross_memory); }},
    ConfigVariable{"RONDO_SLOT_COUNT", "auto, 2, 4, 8, 16, 32, 64", "slots of a connection",
                   [](std::string_view text, Config &config) { return set_slot_count(config.slot_count, text); },
                   [](const Config &config) { return show_choice(config.slot_count, show_number); },
                   shared<&Config::slot_count>},
    ConfigVariable{"RONDO_SLOT_BYTES", "auto, 64-64M (a multiple of 64)", "size of a slot",
                   [](std::string_view text, Config &config) { return set_slot_bytes(config.slot_bytes, text); },
                   [](const Config &config) { return show_choice(config.slot_bytes, show_bytes); },
                   shared<&Config::slot_bytes>},
    ConfigVariable{"RONDO_TOPOLOGY_FILE", "path", "hwloc XML to use in place of what the machine says",
                   [](std::string_view text, Config &config) { return set_text(config.topology_file, text); },
                   [](const Config &config) { return config.topology_file; }},
    ConfigVariable{"RONDO_TUNING_FILE", "path", "a table of rondo tune, used before the built-in ones",
                   [](std::string_view text, Config &config) { return set_text(config.tuning_file, text); },
                   [](const Config &config) { return config.tuning_file; }},
    ConfigVariable{"RONDO_RECORDER_DIR", "path", "where a failed communicator's flight recording is written",
                   [](std::string_view text, Config &config) { return set_text(config.recorder_dir, text); },
                   [](const Config &config) { return config.recorder_dir; }},
    ConfigVariable{"RONDO_CUDA_LIBRARY", "name or path", "the CUDA driver's library",
                   [](std::string_view text, Config &config) { return set_text(config.cuda_library, text); },
                   [](const Config &config) { return config.cuda_library; }},
    ConfigVariable{"RONDO_NVML_LIBRARY", "name or path", "the NVML library, which reports NVLinks",
                   [](std::string_view text, Config &config) { return set_text(config.nvml_library, text); },
                   [](const Config &config) { return config.nvml_library; }},
    ConfigVariable{
        "RONDO_DEVICE_EXECUTOR",
        "auto, kernel, copy",
        "what runs collectives on a CUDA device",
        [](std::string_view text, Config &config) {
          return set_name(config.device_executor, text, rondo_device_executor_string, "executor");
        },
        [](const Config &config) { return show_name(rondo_device_executor_string(config.device_executor)); },
        shared<&Config::device_executor>,
        {"device_executor", offsetof(rondo_config_t, device_executor),
         take_name<&Config::device_executor, &rondo_config_t::device_executor, rondo_device_executor_string>}},
    ConfigVariable{"RONDO_DEVICE_HANDLES", "auto, ipc, vmm", "how memory of a CUDA device is handed to other processes",
                   [](std::string_view text, Config &config) {
                     return set_name(config.device_handles, text, device_handles_string, "kind of handle");
                   },
                   [](const Config &config) { return show_name(device_handles_string(config.device_handles)); },
                   shared<&Config::device_handles>},
    ConfigVariable{"RONDO_DEVICE_LAUNCH", "auto, own, shared", "whose kernels ranks launch on a CUDA device",
                   [](std::string_view text, Config &config) {
                     return set_name(config.device_launch, text, device_launch_string, "way to launch");
                   },
                   [](const Config &config) { return show_name(device_launch_string(config.device_launch)); },
                   shared<&Config::device_launch>},
    ConfigVariable{"RONDO_MAX_CTAS",
                   "auto, 1-1024",
                   "blocks of a collective on a CUDA device, at most",
                   [](std::string_view text, Config &config) {
                     return set_choice(config.max_ctas, text, parse_number(text, 1, max_ctas_max));
                   },
                   [](const Config &config) { return show_choice(config.max_ctas, show_number); },
                   shared<&Config::max_ctas>,
                   {"max_ctas", offsetof(rondo_config_t, max_ctas),
                    take_number<&Config::max_ctas, &rondo_config_t::max_ctas, 1, max_ctas_max>}},
    ConfigVariable{"RONDO_MAX_MEMORY_BYTES",
                   "auto, 64K-1024G",
                   "memory of a communicator on a host, and of a rank on a CUDA device, at most",
                   [](std::string_view text, Config &config) {
                     return set_choice(config.max_memory_bytes, text,
                                       parse_bytes(text, max_memory_bytes_min, max_memory_bytes_max));
                   },
                   [](const Config &config) { return show_choice(config.max_memory_bytes, show_bytes); },
                   shared<&Config::max_memory_bytes>,
                   {"max_memory_bytes", offsetof(rondo_config_t, max_memory_bytes),
                    take_number<&Config::max_memory_bytes, &rondo_config_t::max_memory_bytes, max_memory_bytes_min,
                                max_memory_bytes_max>}},
    ConfigVariable{"RONDO_LOG", "debug, info, warning, error; of a subsystem: info,plan=debug",
                   "the lowest level of messages that are written",
                   [](std::string_view text, Config &config) { return set_log(config.log, text); },
                   [](const Config &config) { return config.log; }},
    ConfigVariable{"RONDO_LOG_FILE", "path; %h: host, %p: process", "where messages go, in place of standard error",
                   [](std::string_view text, Config &config) { return set_log_file(config.log_file, text); },
                   [](const Config &config) { return config.log_file; }},
};

}  // namespace

const char *wait_mode_string(WaitMode mode) {
  static constexpr std::array names{"auto", "spin", "yield", "sleep"};
  return name_in(names, mode);
}

const char *simd_target_string(SimdTarget target) {
  static constexpr std::array names{"auto", "plain", "avx2", "avx512", "avx512_bf16"};
  return name_in(names, target);
}

const char *device_handles_string(DeviceHandles handles) {
  static constexpr std::array names{"auto", "ipc", "vmm"};
  return name_in(names, handles);
}

const char *network_choice_string(NetworkChoice choice) {
  static constexpr std::array names{"auto", "tcp", "ucx", "verbs"};
  return name_in(names, choice);
}

const char *device_slots_string(DeviceSlots slots) {
  static constexpr std::array names{"off", "auto", "on"};
  return name_in(names, slots);
}

const char *device_launch_string(DeviceLaunch launch) {
  static constexpr std::array names{"auto", "own", "shared"};
  return name_in(names, launch);
}

std::span<const ConfigVariable> config_variables() { return variables; }

Result<Config> parse_config(const EnvironmentLookup &lookup) {
  Config config;
  for (const ConfigVariable &variable : variables) {
    const char *text = lookup(variable.name);
    if (text == nullptr || *text == '\0') continue;
    if (auto parsed = variable.parse(text, config); !parsed.ok()) {
      Error error = std::move(parsed).error();
      error.message = std::string(variable.name) + ": " + error.message;
      return error;
    }
    config.given.emplace_back(variable.name);
  }
  return config;
}

Result<Config> read_config() {
  RONDO_TRY_ASSIGN(Config config, parse_config([](const char *name) { return std::getenv(name); }));
  if (auto opened = log::check_file(); !opened.ok())
    return invalid_argument("RONDO_LOG_FILE: " + opened.error().message);
  return config;
}

}  // namespace rondo
