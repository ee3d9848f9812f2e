// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace soft_cuda {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Removes the next piece from `text`, up to `separator`, and returns this piece.
std::string_view take(std::string_view &text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return trimmed(piece);
}

bool read_number(std::string_view text, uint64_t least, uint64_t most, uint64_t &value) {
  const std::string copy(text);
  char *end = nullptr;
  value = std::strtoull(copy.c_str(), &end, 10);
  return !copy.empty() && copy[0] >= '0' && copy[0] <= '9' && *end == '\0' && value >= least && value <= most;
}

bool read_share(std::string_view text, double &share) {
  const std::string copy(text);
  char *end = nullptr;
  share = std::strtod(copy.c_str(), &end);
  return !copy.empty() && *end == '\0' && share >= 0 && share <= 1;
}

bool read_status(std::string_view text, CuStatus &status) {
  if (text.empty()) return true;  // keeps the default
  uint64_t value = 0;
  if (!read_number(text, 1, 999, value)) return false;
  status = static_cast<CuStatus>(value);
  return true;
}

/// Reads "NAME#NUMBER", which names a call or a piece of work.
bool read_numbered_fault(std::string_view name, std::string_view value, Faults &faults) {
  CallFault fault;
  fault.name = take(name, '#');
  if (fault.name == "work")
    return read_number(name, 1, UINT32_MAX, faults.work_number) && read_status(value, faults.work_status);
  if (!read_number(name, 1, UINT32_MAX, fault.number) || !read_status(value, fault.status)) return false;
  faults.calls.push_back(fault);
  return true;
}

bool read_fault(std::string_view piece, Faults &faults) {
  const std::string_view name = take(piece, '=');
  std::string_view value = piece;
  if (name == "seed") return read_number(value, 0, UINT64_MAX, faults.seed);
  if (name.find('#') != name.npos) return read_numbered_fault(name, value, faults);
  const std::string_view share = take(value, ':');
  if (name == "fail") return read_share(share, faults.fail_share) && read_status(value, faults.fail_status);
  if (name == "work") return read_share(share, faults.work_share) && read_status(value, faults.work_status);
  if (name == "delay")
    return read_share(share, faults.delay_share) && read_number(value, 1, 10'000'000, faults.delay_us);
  return false;
}

bool read_faults(std::string_view text, Faults &faults) {
  while (!text.empty()) {
    const std::string_view piece = take(text, ';');
    if (!piece.empty() && !read_fault(piece, faults)) return false;
  }
  return true;
}

/// Reads "MILLISECONDS:PATH".
bool read_turns(std::string_view text, Settings &settings) {
  const std::string_view milliseconds = take(text, ':');
  settings.turns_path = text;
  return !text.empty() && read_number(milliseconds, 1, 10'000, settings.turn_ms);
}

const char *variable(const char *name) {
  const char *const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

bool read_gpu_direct(GpuDirect &target, std::string &why) {
  constexpr std::array<std::string_view, 4> names{"off", "ordered", "flush", "unordered"};
  const char *const text = variable("SOFT_CUDA_GPUDIRECT");
  if (text == nullptr) return true;
  const auto found = std::find(names.begin(), names.end(), text);
  target = static_cast<GpuDirect>(found - names.begin());
  if (found == names.end()) why = "SOFT_CUDA_GPUDIRECT takes off, ordered, flush or unordered";
  return found != names.end();
}

template <class Target>
bool read_variable(const char *name, uint64_t least, uint64_t most, Target &target, std::string &why) {
  const char *const text = variable(name);
  uint64_t value = 0;
  if (text == nullptr) return true;
  if (!read_number(text, least, most, value)) {
    why = std::string(name) + " takes " + std::to_string(least) + " to " + std::to_string(most);
    return false;
  }
  target = static_cast<Target>(value);
  return true;
}

/// Reads "on", "off", or the pairs of devices that reach each other: "0-1 2-3".
bool read_peers(Peers &peers, std::string &why) {
  const char *const text = variable("SOFT_CUDA_PEERS");
  if (text == nullptr || std::string_view(text) == "on") return true;
  peers.all = false;
  if (std::string_view(text) == "off") return true;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view pair = take(rest, ' ');
    uint64_t first = 0, second = 0;
    if (!read_number(take(pair, '-'), 0, 63, first) || !read_number(pair, first + 1, 63, second)) {
      why = "SOFT_CUDA_PEERS takes on, off, or pairs such as \"0-1 2-3\", the lesser device first";
      return false;
    }
    peers.pairs.emplace(static_cast<int>(first), static_cast<int>(second));
  }
  return true;
}

/// Reads the list of devices that the process sees, like "2,0". Without a list, the process sees all devices.
bool read_visible(Settings &settings, std::string &why) {
  const char *const text = variable("SOFT_CUDA_VISIBLE");
  for (int device = 0; text == nullptr && device < settings.device_count; ++device)
    settings.visible.push_back(device);
  for (std::string_view rest = text == nullptr ? "" : text; !rest.empty();) {
    uint64_t device = 0;
    if (!read_number(take(rest, ','), 0, static_cast<uint64_t>(settings.device_count) - 1, device)) {
      why = "SOFT_CUDA_VISIBLE takes devices that there are, such as 2,0";
      return false;
    }
    settings.visible.push_back(static_cast<int>(device));
  }
  return true;
}

bool read_choice(const char *name, std::string_view yes, std::string_view no, bool &target, std::string &why) {
  const char *const text = variable(name);
  if (text == nullptr) return true;
  target = text == yes;
  if (target || text == no) return true;
  why = std::string(name) + " takes " + std::string(yes) + " or " + std::string(no);
  return false;
}

}  // namespace

bool read_settings(Settings &settings, std::string &why) {
  if (!read_variable("SOFT_CUDA_DEVICES", 0, 64, settings.device_count, why) ||
      !read_variable("SOFT_CUDA_RESIDENT_BLOCKS", 1, 4096, settings.resident_blocks, why) ||
      !read_variable("SOFT_CUDA_BLOCKS_PER_MULTIPROCESSOR", 1, 8, settings.blocks_per_multiprocessor, why) ||
      !read_variable("SOFT_CUDA_CLAIMED_BLOCKS", 1, 4096, settings.claimed_blocks, why) ||
      !read_variable("SOFT_CUDA_QUEUES", 1, 32, settings.queue_count, why) ||
      !read_variable("SOFT_CUDA_THREADS", 1, 256, settings.block_threads, why) ||
      !read_variable("SOFT_CUDA_LAUNCH_QUEUE", 1, 1u << 20, settings.launch_queue, why) ||
      !read_variable("SOFT_CUDA_MEMORY", 1u << 21, uint64_t{1} << 45, settings.memory_bytes, why) ||
      !read_variable("SOFT_CUDA_VERSION", 0, 99'999, settings.version, why) ||
      !read_choice("SOFT_CUDA_QUEUE_ORDER", "end", "start", settings.queue_waits_for_end, why) ||
      !read_choice("SOFT_CUDA_MPS", "on", "off", settings.mps, why) ||
      !read_choice("SOFT_CUDA_VMM", "on", "off", settings.vmm, why) ||
      !read_choice("SOFT_CUDA_NVLINK", "on", "off", settings.nvlink, why) ||
      !read_peers(settings.peers, why) || !read_visible(settings, why) ||
      !read_gpu_direct(settings.gpu_direct, why) ||
      !read_choice("SOFT_CUDA_DMABUF", "on", "off", settings.dmabuf, why) ||
      !read_choice("SOFT_CUDA_HOST_READS", "on", "off", settings.host_reads, why) ||
      !read_variable("SOFT_CUDA_CAPABILITY", 50, 999, settings.capability, why) ||
      !read_choice("SOFT_CUDA_SERIAL", "on", "off", settings.serial, why) ||
      !read_choice("SOFT_CUDA_SYNC", "on", "off", settings.synchronising, why) ||
      !read_choice("SOFT_CUDA_CAPTURE_WAITS", "on", "off", settings.captures_waits, why))
    return false;
  if (const char *text = variable("SOFT_CUDA_KERNELS")) settings.kernels = text;
  if (const char *text = variable("SOFT_CUDA_MISSING")) settings.missing = text;
  if (const char *text = variable("SOFT_CUDA_TURNS"); text != nullptr && !read_turns(text, settings)) {
    why = "SOFT_CUDA_TURNS takes MILLISECONDS:PATH, such as 100:/tmp/turns";
    return false;
  }
  const char *const faults = variable("SOFT_CUDA_FAULTS");
  if (faults == nullptr || read_faults(faults, settings.faults)) return true;
  why =
      "SOFT_CUDA_FAULTS takes seed=N; NAME#NUMBER[=STATUS]; fail=SHARE[:STATUS]; work=SHARE[:STATUS]; "
      "work#NUMBER[=STATUS]; delay=SHARE:MICROSECONDS";
  return false;
}

double chance(uint64_t seed, uint64_t stream, uint64_t number) {
  // This is splitmix64's finaliser over the three arguments.
  uint64_t x = seed * 0x9E37'79B9'7F4A'7C15u + stream * 0xD1B5'4A32'D192'ED03u + number;
  for (int round = 0; round < 2; ++round) {
    x += 0x9E37'79B9'7F4A'7C15u;
    x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) / 9007199254740992.0;  // 2^53
}

}  // namespace soft_cuda
