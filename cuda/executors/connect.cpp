// SPDX-License-Identifier: Apache-2.0
// This file turns a request into the executor that serves it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <span>
#include <string_view>

#include "cuda/executors/choose.h"
#include "cuda/executors/executor_base.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/kernels/operation.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/executors/reach.h"
#include "cuda/executors/residency.h"
#include "src/base/log.h"

namespace rondo::cuda {
namespace {

/// Returns 1 if the device has the attribute, otherwise 0, also if the driver does not know it.
uint32_t has_attribute(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  const auto value = device_attribute(driver, device, attribute);
  return value.ok() && value.value() != 0 ? 1 : 0;
}

Result<PlacementInfo> own_info(const DeviceRequest &request) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(request.settings.cuda_library));
  RONDO_TRY_ASSIGN(const CudaDevice device, device_of(*driver, request.settings.device));
  PlacementInfo own;
  own.device = device.uuid;
  own.process = own_process();
  own.mps = has_attribute(*driver, device.ordinal, DeviceAttribute::mps_enabled);
  own.can_vmm = has_attribute(*driver, device.ordinal, DeviceAttribute::virtual_memory_management_supported) &
                has_attribute(*driver, device.ordinal, DeviceAttribute::posix_descriptor_handles_supported);
  own.node = request.group.node_of(request.rank);
  own.ordinal = static_cast<uint32_t>(device.ordinal);
  own.can_copy = has_attribute(*driver, device.ordinal, DeviceAttribute::can_use_64_bit_stream_mem_ops);
  return own;
}

/// Returns whether ranks share the buffers that they register, provided that their devices do atomics on each other's
/// memory. All ranks get the same result; agree_on_channels() may change the decision later.
bool wants_regions(const PlacedRequest &request, std::span<const PlacementInfo> infos) {
  const bool runs_kernels = request.executor == RONDO_DEVICE_EXECUTOR_KERNEL && request.on_one_node();
  const bool by_default = request.is_free() && request.rank_count <= region_ranks_by_default;
  return runs_kernels && (request.settings.kernel == RONDO_KERNEL_LOAD_STORE || by_default) && !request.one_process &&
         !request.shares_launches && !takes_turns(infos) && request.rank_count <= device::load_store_rank_count_max;
}

/// Returns the number of hardware queues that CUDA gives this process on each device.
uint64_t queue_count() {
  constexpr uint32_t queue_count_default = 8;
  const char *const text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return text == nullptr ? queue_count_default : std::strtoull(text, nullptr, 10);
}
bool has_all_queues() {
  constexpr uint32_t queue_count_max = 32;
  return queue_count() >= queue_count_max;
}

/// Returns the user's choice whether launches are shared. The default is true if one kernel can run all ranks, and
/// ranks with separate kernels might wait for each other in one queue.
bool chooses_shared_launch(const PlacedRequest &request) {
  if (request.executor != RONDO_DEVICE_EXECUTOR_KERNEL) return false;
  const DeviceLaunch asked = request.settings.device_launch;
  if (asked != DeviceLaunch::automatic) return asked == DeviceLaunch::shared;
  return request.fits_one_kernel() && !has_all_queues();
}

/// Says whether a setting of the tests makes ranks on one device run the code for several devices.
bool acts_apart() {
  const char *const text = std::getenv("RONDO_TEST_DEVICES_APART");
  return text != nullptr && std::string_view(text) == "on";
}

/// Logs why registered buffers are not shared, on each rank whose device lacks atomics.
void tell_no_atomics(const PlacedRequest &request, const ReachTable &reach) {
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    if (peer == request.rank || reach.between(request.rank, peer) == PeerReach::atomics) continue;
    return log::info({log::Subsystem::device, request.rank},
                     "registered buffers are not shared: device " + std::to_string(request.settings.device) +
                         " cannot perform atomics on the device of rank " + std::to_string(peer) +
                         ", or that one not on it");
  }
}

/// Logs the consequence of pairs of ranks whose devices do not reach each other. One rank of each node logs it.
void tell_pairs_apart(const PlacedRequest &request, std::span<const PlacementInfo> infos) {
  const auto first = std::find_if(request.pairs_apart.begin(), request.pairs_apart.end(), [&](const auto &pair) {
    return infos[pair.first].node == infos[request.rank].node;
  });
  if (first == request.pairs_apart.end() || first->first != request.rank) return;
  const auto count = std::count_if(request.pairs_apart.begin(), request.pairs_apart.end(), [&](const auto &pair) {
    return infos[pair.first].node == infos[request.rank].node;
  });
  log::info({log::Subsystem::device, request.rank},
            "the devices of ranks " + std::to_string(first->first) + " and " + std::to_string(first->second) +
                " do not reach each other's memory" +
                (count > 1 ? ", and neither do those of " + std::to_string(count - 1) + " more pairs" : "") +
                ": data between such ranks goes through host memory, and the communicator has no load_store "
                "(nvidia-smi topo -p2p r shows which devices do)");
}

/// Finds out which devices reach each other. Adds to `request` what follows from that.
Result<void> add_reach(PlacedRequest &request, std::span<const PlacementInfo> infos, InfoExchange &info_exchange) {
  ReachTable reach;
  request.several_devices = has_several_devices(infos) || request.apart;
  if (has_several_devices(infos)) {
    RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(request.settings.cuda_library));
    RONDO_TRY_ASSIGN(const CudaDevice device, device_of(*driver, request.settings.device));
    RONDO_TRY_ASSIGN(reach, find_reach(*driver, device, infos, request.settings.nvml_library, info_exchange));
  }
  request.pairs_apart = reach.pairs_apart(infos);
  tell_pairs_apart(request, infos);
  if (!request.pairs_apart.empty() && request.load_store()) {
    const auto [rank, peer] = request.pairs_apart.front();
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "load_store needs devices that reach each other's memory, but those of ranks " + std::to_string(rank) +
                     " and " + std::to_string(peer) + " do not; use RONDO_KERNEL=auto or interpreter"};
  }
  if (reach.all_do_atomics()) {
    request.peer_devices = peer_devices_of(request.rank, infos);
    request.shares_regions = wants_regions(request, infos);
  } else if (request.pairs_apart.empty() && wants_regions(request, infos)) {
    tell_no_atomics(request, reach);
  }
  return {};
}

using ConnectingExecutor = std::unique_ptr<ExecutorBase, DeviceExecutorDeleter>;

/// Connects `executor` as ExecutorBase::connect() says. Stores in `request` what it finds and chooses.
Result<void> connect_chosen(PlacedRequest &request, InfoExchange &info_exchange,
                            ConnectingExecutor &executor) {
  RONDO_TRY_ASSIGN(const PlacementInfo own, own_info(request));
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(placement_key, own));
  request.executor = choose_executor(request.executor, infos);
  request.neighbours = neighbours_of(request.rank, infos);
  request.apart = acts_apart();
  request.shares_launches = chooses_shared_launch(request);
  request.mps = own.mps != 0;
  request.one_process = std::all_of(infos.begin(), infos.end(), [&](const PlacementInfo &info) {
    return info.node != own.node || info.process == own.process;
  });
  RONDO_TRY(add_reach(request, infos, info_exchange));
  request.handles_are_free = request.handles == DeviceHandles::automatic;
  RONDO_TRY_ASSIGN(request.handles, choose_handles(request.handles, infos));
  warn_of_queues(request.rank, warning_of_queues(request, request.shares_launches, false));
  executor.reset(
      (request.executor == RONDO_DEVICE_EXECUTOR_COPY ? make_copy_executor() : make_kernel_executor()).release());
  return executor->connect(request, info_exchange);
}

}  // namespace

bool on_one_node(std::span<const PlacementInfo> infos) {
  return std::all_of(infos.begin(), infos.end(), [&](const auto &info) { return info.node == infos[0].node; });
}

bool takes_turns(std::span<const PlacementInfo> infos) {
  for (const PlacementInfo &one : infos)
    for (const PlacementInfo &other : infos)
      if (one.node == other.node && one.device == other.device && !(one.process == other.process) &&
          (one.mps == 0 || other.mps == 0))
        return true;
  return false;
}

std::string warning_of_queues(const PlacedRequest &request, bool shares, bool captured) {
  const Neighbours &here = request.neighbours;
  uint32_t waiter_count = here.in_process;
  if (shares && !captured)
    waiter_count = (waiter_count + device::ranks_per_kernel_max - 1) / device::ranks_per_kernel_max;
  if (here.position != 0 || has_all_queues() || waiter_count == 1) return {};
  const bool can_share = request.settings.device_launch == DeviceLaunch::own && request.fits_one_kernel();
  return std::string(captured ? "captured calls have a kernel for each rank: " : "") +
         std::to_string(here.in_process) + " ranks of this process share CUDA device " +
         std::to_string(request.settings.device) + ", but CUDA gives it " + std::to_string(queue_count()) +
         " hardware queues, which the application's streams use as well. Ranks whose streams share a queue wait "
         "for each other until the timeout. Set CUDA_DEVICE_MAX_CONNECTIONS=32 before the process's first use of CUDA" +
         (can_share ? ", or leave out RONDO_DEVICE_LAUNCH=own" : "");
}

std::string advice_on_queues(const PlacedRequest &request) {
  if (request.neighbours.in_process == 1 || has_all_queues()) return {};
  return "; if ranks have launched theirs, their streams may wait for each other, because " +
         std::to_string(request.neighbours.in_process) + " ranks of this process share CUDA device " +
         std::to_string(request.settings.device) + " and its " + std::to_string(queue_count()) +
         " hardware queues; set CUDA_DEVICE_MAX_CONNECTIONS=32 before the process's first use of CUDA";
}

void warn_of_queues(uint32_t rank, std::string &&warning) {
  static std::atomic_flag has_warned;  // one remedy helps all communicators of the process
  if (!warning.empty() && !has_warned.test_and_set()) log::warning({log::Subsystem::device, rank}, warning);
  warning.clear();
}

Neighbours neighbours_of(uint32_t rank, std::span<const PlacementInfo> infos) {
  const PlacementInfo &own = infos[rank];
  Neighbours found{0, 0, rank, 0};
  for (uint32_t peer = 0; peer < infos.size(); ++peer) {
    const PlacementInfo &info = infos[peer];
    if (info.node != own.node || info.device != own.device) continue;
    if (info.process == own.process) {
      ++found.in_process;
      found.first = std::min(found.first, peer);
      found.position += peer < rank ? 1 : 0;
    } else if (info.mps != 0 && own.mps != 0) {
      ++found.in_others;
    }
  }
  return found;
}

std::vector<CuDevice> peer_devices_of(uint32_t rank, std::span<const PlacementInfo> infos) {
  std::set<CuDevice> peers;
  for (const PlacementInfo &one : infos)
    for (const PlacementInfo &other : infos) {
      if (one.node != other.node || !(one.process == other.process)) return {};
      if (!(one.device == other.device) && one.device == infos[rank].device)
        peers.insert(static_cast<CuDevice>(other.ordinal));
    }
  return {peers.begin(), peers.end()};
}

rondo_device_executor_t choose_executor(rondo_device_executor_t wanted, std::span<const PlacementInfo> infos) {
  if (wanted != RONDO_DEVICE_EXECUTOR_AUTO) return wanted;
  const bool can_copy = on_one_node(infos) && std::all_of(infos.begin(), infos.end(),
                                                          [](const auto &info) { return info.can_copy != 0; });
  return can_copy && takes_turns(infos) ? RONDO_DEVICE_EXECUTOR_COPY : RONDO_DEVICE_EXECUTOR_KERNEL;
}

Result<DeviceHandles> choose_handles(DeviceHandles wanted, std::span<const PlacementInfo> infos) {
  const auto lacks = std::find_if(infos.begin(), infos.end(), [](const auto &info) { return info.can_vmm == 0; });
  const bool all_here = std::all_of(infos.begin(), infos.end(), [&](const PlacementInfo &info) {
    return info.node == infos[0].node && info.process == infos[0].process && info.device == infos[0].device;
  });
  if (wanted == DeviceHandles::automatic && all_here) return DeviceHandles::ipc;
  if (wanted == DeviceHandles::automatic) return lacks == infos.end() ? DeviceHandles::vmm : DeviceHandles::ipc;
  if (wanted == DeviceHandles::ipc || lacks == infos.end()) return wanted;
  return Error{
      RONDO_ERROR_UNSUPPORTED,
      "the device of rank " + std::to_string(lacks - infos.begin()) +
          " cannot share memory by descriptors, which RONDO_DEVICE_HANDLES=vmm requires; set it to ipc or auto"};
}

Result<void> check_device(const std::string &library, int32_t device) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(library));
  const auto found = device_of(*driver, device);
  return found.ok() ? Result<void>() : found.error();
}

Result<OwnedDeviceExecutor> connect_device(const DeviceRequest &asked, Store &store) {
  PlacedRequest request{asked};
  InfoExchange info_exchange(store, request.key_prefix, request.rank, request.rank_count, request.deadline_ns);
  ConnectingExecutor executor;
  const auto connected = connect_chosen(request, info_exchange, executor);
  for (const char *const key :
       {placement_key, reach_key, peers_key, host_links_key, segment_key, regions_key, flags_key}) {
    const bool knows_all = executor != nullptr;  // this rank knows where the others are, and what they agree on
    const bool unused = (key == flags_key && request.executor == RONDO_DEVICE_EXECUTOR_KERNEL) ||
                        (key == reach_key && knows_all) ||
                        (key == host_links_key && knows_all && request.pairs_apart.empty()) ||
                        (key == regions_key && knows_all && !request.shares_regions) ||
                        (key == peers_key && knows_all && !agrees_on_channels(request));
    if (connected.ok() || unused) continue;
    // A failed rank reports its failure at the step where the others wait. If the rank has passed that step already,
    // the report has no effect.
    static_cast<void>(info_exchange.outcome(key, connected));
  }
  RONDO_TRY(info_exchange.outcome(connected_key, connected));
  return OwnedDeviceExecutor(std::move(executor));
}

}  // namespace rondo::cuda
