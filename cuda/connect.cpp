// SPDX-License-Identifier: Apache-2.0
// From a request to the executor that serves it.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "cuda/choose.h"
#include "cuda/executor_base.h"
#include "cuda/meeting.h"

namespace rondo::cuda {
namespace {

/// 0 also where the driver does not know the attribute.
uint32_t has(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  const auto value = device_attribute(driver, device, attribute);
  return value.ok() && value.value() != 0 ? 1 : 0;
}

Result<std::vector<PlacementCard>> gather_cards(const DeviceRequest &request, Store &store) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(request.library));
  RONDO_TRY_ASSIGN(const CudaDevice device, device_of(*driver, request.device));
  PlacementCard own;
  own.device = device.uuid;
  own.process = own_process();
  own.mps = has(*driver, device.ordinal, DeviceAttribute::mps_enabled);
  own.can_copy = has(*driver, device.ordinal, DeviceAttribute::can_use_64_bit_stream_mem_ops);
  RONDO_TRY_ASSIGN(const auto parts, gather_outcomes(store, request.key_prefix + placement_key, request.rank,
                                                     request.rank_count, bytes_of_card(own), request.deadline_ns));
  std::vector<PlacementCard> cards(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].size() != sizeof(PlacementCard))
      return Error{RONDO_ERROR_MISMATCH, "rank " + std::to_string(rank) + " runs another version of Rondo"};
    std::memcpy(&cards[rank], parts[rank].data(), sizeof(PlacementCard));
  }
  return cards;
}

/// `kind`: what is asked for, then what was chosen. `executor`: as connect_kernel_executor() says.
Result<void> connect_chosen(const DeviceRequest &request, Store &store, rondo_device_executor_t &kind,
                            std::unique_ptr<DeviceExecutor> &executor) {
  RONDO_TRY_ASSIGN(const auto cards, gather_cards(request, store));
  kind = choose_executor(request.executor, cards);
  return kind == RONDO_DEVICE_EXECUTOR_COPY ? connect_copy_executor(request, store, executor)
                                            : connect_kernel_executor(request, store, executor);
}

}  // namespace

bool takes_turns(std::span<const PlacementCard> cards) {
  for (const PlacementCard &one : cards)
    for (const PlacementCard &other : cards)
      if (one.device == other.device && !(one.process == other.process) && (one.mps == 0 || other.mps == 0))
        return true;
  return false;
}

rondo_device_executor_t choose_executor(rondo_device_executor_t wanted, std::span<const PlacementCard> cards) {
  if (wanted != RONDO_DEVICE_EXECUTOR_AUTO) return wanted;
  const bool can_copy = std::all_of(cards.begin(), cards.end(), [](const auto &card) { return card.can_copy != 0; });
  return can_copy && takes_turns(cards) ? RONDO_DEVICE_EXECUTOR_COPY : RONDO_DEVICE_EXECUTOR_KERNEL;
}

Result<void> check_device(const std::string &library, int32_t device) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(library));
  const auto found = device_of(*driver, device);
  return found.ok() ? Result<void>() : found.error();
}

Result<std::unique_ptr<DeviceExecutor>> connect_device(const DeviceRequest &request, Store &store) {
  rondo_device_executor_t kind = request.executor;
  std::unique_ptr<DeviceExecutor> executor;
  const auto connected = connect_chosen(request, store, kind, executor);
  for (const char *const key : {placement_key, segment_key, flags_key}) {
    if (connected.ok() || (key == flags_key && kind == RONDO_DEVICE_EXECUTOR_KERNEL)) continue;
    // A rank that has failed goes on to where the others wait for it. Where it has been already this changes nothing.
    static_cast<void>(gather_outcomes(store, request.key_prefix + key, request.rank, request.rank_count,
                                      connected.error(), request.deadline_ns));
  }
  RONDO_TRY(gather_outcomes(store, request.key_prefix + connected_key, request.rank, request.rank_count,
                            connected.ok() ? Result<Bytes>(Bytes()) : Result<Bytes>(connected.error()),
                            request.deadline_ns));
  return executor;
}

}  // namespace rondo::cuda
