// SPDX-License-Identifier: Apache-2.0
// This file turns a request into the executor that serves it.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <span>
#include <string_view>

#include "cuda/driver/budget.h"
#include "cuda/executors/choose.h"
#include "cuda/executors/executor_base.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/kernels/operation.h"
#include "cuda/executors/load_store_shape.h"
#include "src/base/log.h"

namespace rondo::cuda {
namespace {

/// The most ranks that share registered buffers by default. More ranks do so only if load_store is requested, because
/// nothing was measured with more.
constexpr uint32_t region_ranks_by_default = 16;

/// Returns the attribute, or 0 if the driver does not know it.
uint32_t has(const CudaDriver &driver, CuDevice device, DeviceAttribute attribute) {
  const auto value = device_attribute(driver, device, attribute);
  return value.ok() && value.value() != 0 ? 1 : 0;
}

/// Returns PlacementInfo::linked_devices.
Result<uint64_t> linked_devices(const CudaDriver &driver, CuDevice own) {
  int count = 0;
  RONDO_TRY(cuda_check(driver, driver.device_get_count(&count), "cuDeviceGetCount"));
  uint64_t linked = 0;
  for (CuDevice peer = 0; peer < std::min(count, linked_devices_max); ++peer)
    if (peer != own && has_native_atomics(driver, own, peer)) linked |= uint64_t{1} << peer;
  return linked;
}

Result<PlacementInfo> own_info(const DeviceRequest &request) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(request.settings.cuda_library));
  RONDO_TRY_ASSIGN(const CudaDevice device, device_of(*driver, request.settings.device));
  PlacementInfo own;
  own.device = device.uuid;
  own.process = own_process();
  own.mps = has(*driver, device.ordinal, DeviceAttribute::mps_enabled);
  own.can_vmm = has(*driver, device.ordinal, DeviceAttribute::virtual_memory_management_supported) &
                has(*driver, device.ordinal, DeviceAttribute::posix_descriptor_handles_supported);
  own.claimed_blocks = static_cast<uint32_t>(claimed_blocks(device.uuid));
  own.node = request.group.node_of(request.rank);
  own.ordinal = static_cast<uint32_t>(device.ordinal);
  RONDO_TRY_ASSIGN(own.linked_devices, linked_devices(*driver, device.ordinal));
  own.can_copy = has(*driver, device.ordinal, DeviceAttribute::can_use_64_bit_stream_mem_ops);
  return own;
}

/// Says whether ranks share regions. The result is the same on all ranks, except for what agree_on_peers() finds later.
bool shares_by_regions(const PlacedRequest &request, std::span<const PlacementInfo> infos) {
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

using ConnectingExecutor = std::unique_ptr<ExecutorBase, DeviceExecutorDeleter>;

/// Connects `executor` as ExecutorBase::connect() says. Stores in `request` what it finds and chooses.
Result<void> connect_chosen(PlacedRequest &request, InfoExchange &info_exchange,
                            ConnectingExecutor &executor) {
  RONDO_TRY_ASSIGN(const PlacementInfo own, own_info(request));
  RONDO_TRY_ASSIGN(const auto infos, info_exchange.infos(placement_key, own));
  if (!on_one_node(infos) && request.executor == RONDO_DEVICE_EXECUTOR_COPY)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "the copy-engine executor cannot move data between hosts, and the ranks are on several; use "
                 "RONDO_DEVICE_EXECUTOR=kernel or auto"};
  request.executor = choose_executor(request.executor, infos);
  request.neighbours = neighbours_of(request.rank, infos);
  request.apart = acts_apart();
  request.shares_launches = chooses_shared_launch(request);
  request.mps = own.mps != 0;
  request.one_process = std::all_of(infos.begin(), infos.end(), [&](const PlacementInfo &info) {
    return info.node != own.node || info.process == own.process;
  });
  for (const PlacementInfo &info : infos)
    request.claimed_blocks = std::max<uint64_t>(request.claimed_blocks, info.claimed_blocks);
  request.peer_devices = peer_devices_of(request.rank, infos);
  if (shares_by_regions(request, infos))
    for (const PlacementInfo &info : infos) request.region_devices.push_back(info.device);
  request.handles_are_free = request.handles == DeviceHandles::automatic;
  RONDO_TRY_ASSIGN(request.handles, choose_handles(request.handles, infos));
  if (const std::string warning = warning_of_queues(request, request.shares_launches, false);
      !warning.empty())
    log::warning({log::Subsystem::device, request.rank}, warning);
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
      if (one.device == other.device) continue;
      const auto ordinal = static_cast<int>(other.ordinal);
      if (ordinal >= linked_devices_max || (one.linked_devices >> ordinal & 1) == 0) return {};
      if (one.device == infos[rank].device) peers.insert(ordinal);
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
  for (const char *const key : {placement_key, peers_key, segment_key, regions_key, flags_key}) {
    const bool knows_all = executor != nullptr;  // it knows where the ranks are, and what they agree on
    const bool unused = (key == flags_key && request.executor == RONDO_DEVICE_EXECUTOR_KERNEL) ||
                        (key == regions_key && knows_all && request.region_devices.empty()) ||
                        (key == peers_key && knows_all && !agrees_on_peers(request));
    if (connected.ok() || unused) continue;
    // A failed rank reports its failure at the step where the others wait. If it has passed that step already, this has
    // no effect.
    static_cast<void>(info_exchange.outcome(key, connected));
  }
  RONDO_TRY(info_exchange.outcome(connected_key, connected));
  return OwnedDeviceExecutor(std::move(executor));
}

}  // namespace rondo::cuda
