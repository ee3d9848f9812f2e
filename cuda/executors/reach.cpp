// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/reach.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "src/base/log.h"

namespace rondo::cuda {
namespace {

PeerReach ask_driver(const CudaDriver &driver, CuDevice own, CuDevice peer) {
  int can_access = 0;
  if (driver.device_can_access_peer(&can_access, own, peer) != CuStatus::success || can_access == 0)
    return PeerReach::none;
  return has_native_atomics(driver, own, peer) ? PeerReach::atomics : PeerReach::access;
}

/// Asks NVML about the devices of the ranks in `hidden`.
void ask_about_hidden(const CudaDevice &own, std::span<const PlacementInfo> infos, const std::vector<uint32_t> &hidden,
                      const std::string &nvml_library, uint32_t rank, std::vector<PeerReach> &said) {
  if (hidden.empty()) return;
  std::vector<std::string> names;
  for (const uint32_t peer : hidden) names.push_back(uuid_text(infos[peer].device));
  const auto answers = ask_nvml_about_peers(nvml_library, uuid_text(own.uuid), names);
  for (size_t index = 0; index < hidden.size(); ++index) said[hidden[index]] = answers[index];
  const auto unknown = std::find(answers.begin(), answers.end(), PeerReach::unknown);
  if (unknown == answers.end()) return;
  log::warning({log::Subsystem::device, rank},
               "this process does not see the device of rank " + std::to_string(hidden[unknown - answers.begin()]) +
                   " (CUDA_VISIBLE_DEVICES), and NVML (" + nvml_library +
                   ") does not say whether device " + std::to_string(own.ordinal) +
                   " reaches its memory. Unless that rank knows, data between them goes through host memory. Let each "
                   "process see all devices, or make NVML available");
}

}  // namespace

std::string uuid_text(const DeviceUuid &uuid) {
  std::string text;
  for (size_t at = 0; at < sizeof uuid.bytes; ++at) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", unsigned{uuid.bytes[at]});
    text += (at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "") + std::string(digits);
  }
  return text;
}

PeerReach ReachTable::between(uint32_t rank, uint32_t peer) const {
  if (said_.empty()) return PeerReach::atomics;
  const PeerReach there = said_[size_t{rank} * rank_count_ + peer], back = said_[size_t{peer} * rank_count_ + rank];
  if (there == PeerReach::unknown && back == PeerReach::unknown) return PeerReach::none;
  if (there == PeerReach::unknown || back == PeerReach::unknown) return std::max(there, back);
  return std::min(there, back);
}

std::vector<std::pair<uint32_t, uint32_t>> ReachTable::pairs_apart(std::span<const PlacementInfo> infos) const {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t rank = 0; rank < rank_count_; ++rank)
    for (uint32_t peer = rank + 1; peer < rank_count_; ++peer)
      if (infos[rank].node == infos[peer].node && between(rank, peer) == PeerReach::none)
        pairs.emplace_back(rank, peer);
  return pairs;
}

bool ReachTable::all_do_atomics() const {
  for (uint32_t rank = 0; rank < rank_count_; ++rank)
    for (uint32_t peer = rank + 1; peer < rank_count_; ++peer)
      if (between(rank, peer) != PeerReach::atomics) return false;
  return true;
}

bool has_several_devices(std::span<const PlacementInfo> infos) {
  for (const PlacementInfo &one : infos)
    for (const PlacementInfo &other : infos)
      if (one.node == other.node && !(one.device == other.device)) return true;
  return false;
}

Result<ReachTable> find_reach(const CudaDriver &driver, const CudaDevice &device, std::span<const PlacementInfo> infos,
                              const std::string &nvml_library, InfoExchange &info_exchange) {
  const uint32_t rank = info_exchange.rank(), rank_count = info_exchange.rank_count();
  RONDO_TRY_ASSIGN(const auto seen, cuda_devices(driver));
  std::vector<PeerReach> said(rank_count, PeerReach::atomics);  // for ranks on this device; other nodes do not matter
  std::vector<uint32_t> hidden;
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    if (infos[peer].node != infos[rank].node || infos[peer].device == device.uuid) continue;
    const auto found = std::find_if(seen.begin(), seen.end(),
                                    [&](const CudaDevice &other) { return other.uuid == infos[peer].device; });
    if (found == seen.end())
      hidden.push_back(peer);
    else
      said[peer] = ask_driver(driver, device.ordinal, found->ordinal);
  }
  ask_about_hidden(device, infos, hidden, nvml_library, rank, said);
  const auto own = std::as_bytes(std::span(said));
  RONDO_TRY_ASSIGN(const auto parts, info_exchange.parts(reach_key, Bytes(own.begin(), own.end())));
  std::vector<PeerReach> all;
  for (const Bytes &part : parts) {
    if (part.size() != rank_count) return Error{RONDO_ERROR_MISMATCH, "the ranks run different versions of Rondo"};
    for (const std::byte reach : part) all.push_back(static_cast<PeerReach>(reach));
  }
  return ReachTable(rank_count, std::move(all));
}

}  // namespace rondo::cuda
