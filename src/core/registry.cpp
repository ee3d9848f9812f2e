// SPDX-License-Identifier: Apache-2.0
#include "src/core/registry.h"

#include <algorithm>

#include "cuda/executor.h"
#include "src/topo/host.h"
#include "transports/shm/transport.h"

namespace rondo {
namespace {

constexpr uint32_t default_channel_count = 2;  // the double tree's two trees

}  // namespace

Result<std::unique_ptr<Transport>> connect_ranks(const ConnectArgs &args, Store &store, shm::SegmentTable &segments) {
  if (!args.meeting.one_host)
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "the ranks are on several hosts (or in containers that do not share processes and network), and this "
                 "build has no transport between hosts"};
  shm::ConnectRequest request;
  request.rank = args.rank;
  request.rank_count = args.rank_count;
  request.channel_count = std::max(args.settings.channels, default_channel_count);
  request.slot_count = args.settings.slot_count;
  request.slot_bytes = static_cast<uint32_t>(args.settings.slot_bytes);
  request.mapping = args.settings.mapping;
  request.cross_memory = args.settings.cross_memory;
  request.key_prefix = args.key_prefix;
  request.host_name = host_name();
  request.deadline_ns = args.deadline_ns;
  return shm::connect(request, store, segments);
}

Result<void> check_device(const Settings &settings) {
  if (settings.device == RONDO_DEVICE_HOST) return {};
  return cuda::check_device(settings.cuda_library, settings.device);
}

Result<std::unique_ptr<DeviceExecutor>> connect_device(const ConnectArgs &args, Store &store) {
  if (args.settings.device == RONDO_DEVICE_HOST) return std::unique_ptr<DeviceExecutor>();
  cuda::DeviceRequest request;
  request.rank = args.rank;
  request.rank_count = args.rank_count;
  request.device = args.settings.device;
  request.executor = args.settings.device_executor;
  request.protocol = args.settings.protocol;
  request.handles = args.settings.device_handles;
  request.shares_launches = args.settings.device_launch == DeviceLaunch::shared;
  request.channel_count = args.settings.channels;
  request.channel_count_max = args.settings.max_ctas;
  request.slot_count = args.settings.slot_count;
  request.slot_bytes = static_cast<uint32_t>(args.settings.slot_bytes);
  request.library = args.settings.cuda_library;
  request.key_prefix = args.key_prefix;
  request.deadline_ns = args.deadline_ns;
  return cuda::connect_device(request, store);
}

}  // namespace rondo
