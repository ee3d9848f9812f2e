// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/executor_base.h"

#include <algorithm>

#include "cuda/executors/load_store_shape.h"

namespace rondo::cuda {
namespace {

/// Returns the node of each rank.
std::vector<uint32_t> nodes_of(const GroupInfo &group) {
  return {group.node_of_ranks().begin(), group.node_of_ranks().end()};
}

}  // namespace

Result<CudaDevice> device_of(const CudaDriver &driver, int32_t ordinal) {
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(driver));
  if (ordinal >= 0 && static_cast<size_t>(ordinal) < devices.size()) return devices[static_cast<size_t>(ordinal)];
  return invalid_argument("rondo_config_t.device is " + std::to_string(ordinal) + ", but this process sees " +
                          std::to_string(devices.size()) + " CUDA devices, numbered from 0 (CUDA_VISIBLE_DEVICES)");
}

Result<void> ExecutorBase::open(const PlacedRequest &request) {
  links_ = request.links;
  RONDO_TRY_ASSIGN(driver_, cuda_driver(request.settings.cuda_library));
  RONDO_TRY_ASSIGN(device_, device_of(*driver_, request.settings.device));
  RONDO_TRY_ASSIGN(context_, retain_primary_context(*driver_, device_.ordinal));
  const rondo_kernel_t kernel = request.load_store() ? RONDO_KERNEL_LOAD_STORE : RONDO_KERNEL_AUTO;
  RONDO_TRY_ASSIGN(kernels_, KernelSet::load(context_, kernel_families(request.executor, kernel)));
  RONDO_TRY_ASSIGN(stream_, make_stream(context_));
  RONDO_TRY_ASSIGN(launched_, make_event(context_));
  shared_queues_ = advice_on_queues(request);
  return {};
}

Result<void> ExecutorBase::connect_segment(const PlacedRequest &request, const SegmentShape &shape,
                                           InfoExchange &info_exchange) {
  if (!request.on_one_node()) {
    network_links_ = request.links;
    RONDO_TRY_ASSIGN(network_, NetworkLinks::connect(context_, *request.links, nodes_of(request.group), request.rank));
  }
  if (!request.pairs_apart.empty()) {
    const HostLinksShape in_host{request.pairs_apart,       nodes_of(request.group), shape.channel_count,
                                 shape.connection_bytes(), shape.message_channels, shape.message_connection_bytes()};
    RONDO_TRY_ASSIGN(host_links_, HostLinks::connect(context_, in_host, info_exchange));
  }
  RONDO_TRY_ASSIGN(segment_, Segment::connect(context_, stream_.get().object, device_.uuid, shape, request.handles,
                                              {request.permitted, &network_, request.one_process, &host_links_},
                                              info_exchange));
  return {};
}

Result<void> ExecutorBase::open_messages() {
  RONDO_TRY(DeviceExecutor::open_messages());
  return network_links_ != nullptr ? network_links_->open_messages() : Result<void>();
}

DeviceBytes ExecutorBase::device_bytes() const {
  const uint64_t segment = segment_.allocated_bytes(), operands = operands_.suspendable_bytes();
  const uint64_t suspendable = operands + (segment_.can_suspend() ? segment : 0);
  return {suspendable, segment + operands_.all_bytes() - suspendable};
}

Result<void> ExecutorBase::suspend() {
  const CaptureModeGuard capture_goes_on(*driver_);
  const std::lock_guard lock(suspend_mutex_);
  if (segment_.can_suspend()) RONDO_TRY(segment_.suspend(context_, stream_.get().object));
  operands_.suspend();
  suspended_ = true;
  return {};
}

Result<void> ExecutorBase::resume(Store &store, const std::string &key_prefix, uint64_t deadline_ns) {
  const CaptureModeGuard capture_goes_on(*driver_);
  InfoExchange info_exchange(store, key_prefix, segment_.rank(), segment_.shape().rank_count, deadline_ns);
  auto done = operands_.resume();
  if (segment_.can_suspend()) {
    const auto connected = segment_.resume(context_, stream_.get().object, info_exchange);
    if (done.ok()) done = connected;
  }
  RONDO_TRY(info_exchange.outcome(connected_key, done));
  const std::lock_guard lock(suspend_mutex_);  // not earlier: it would block the follower, which serves others
  suspended_ = false;
  return {};
}

Result<void> ExecutorBase::open_one_sided() {
  if (one_sided() != nullptr) return {};
  if (links_ == nullptr || !links_->has_signals()) return Executor::open_one_sided();
  const std::lock_guard lock(opening_);
  if (one_sided_ != nullptr) return {};
  const CaptureModeGuard capture_goes_on(*driver_);
  RONDO_TRY(links_->open_messages());
  RONDO_TRY_ASSIGN(one_sided_, OneSidedStreams::make(context_, describe(), *links_, *operations()));
  opened_one_sided_.store(one_sided_.get(), std::memory_order_release);  // pairs with one_sided()
  return {};
}

Result<std::shared_ptr<const RemoteMemory>> ExecutorBase::open_memory(uint32_t peer, const MemoryPlace &place) {
  const CaptureModeGuard capture_goes_on(*driver_);
  return one_sided_->open(peer, place);
}

bool ExecutorBase::wait_for_one_sided() { return one_sided() == nullptr || one_sided()->wait(); }

void ExecutorBase::end_one_sided() {
  if (one_sided() != nullptr) one_sided()->end();
}

ExecutorCapabilities ExecutorBase::capabilities() const {
  const SegmentShape &shape = segment_.shape();
  const auto barrier_buffer = [&](uint32_t which) {
    return reinterpret_cast<std::byte *>(segment_.address() + shape.barrier_offset(which));
  };
  ExecutorCapabilities own;
  own.geometry = shape.geometry;
  own.channel_count = shape.channel_count;
  own.post_bytes = shape.load_store.post_bytes;
  own.exchange_chunk_bytes = shape.shares_buffers() ? shared_chunk_bytes : shape.load_store.chunk_bytes;
  own.exchange_channels = shape.load_store.channel_count;
  own.buffers = shape.buffers;
  own.places_stay = !segment_.ends_with_owner();
  own.one_sided_by_stream = true;
  own.barrier_send = barrier_buffer(0);
  own.barrier_recv = barrier_buffer(1);
  return own;
}

Result<void> ExecutorBase::check_buffer(const char *name, const void *pointer, size_t bytes) const {
  if (bytes == 0) return {};
  // A thread that uses CUDA for the first time has no context, so the query fails. The context also decides at which
  // address a device reaches host memory.
  auto found = pointer_info(*driver_, pointer);
  if (!found.ok() || found.value().type == MemoryType::host) {
    const ContextGuard guard(*driver_, context_.get().context);
    RONDO_TRY(guard.status());
    found = pointer_info(*driver_, pointer);
  }
  RONDO_TRY_ASSIGN(const PointerInfo info, found);
  // Every device reaches managed memory. It also reaches pinned host memory, mostly at the host's address.
  const bool pinned = info.type == MemoryType::host && info.on_device == reinterpret_cast<DevicePointer>(pointer);
  if (info.type != MemoryType::device && !pinned)
    return invalid_argument(std::string(name) + " is host memory that is not pinned, but the communicator is on " +
                            describe() +
                            "; give memory of that device, or make a communicator on RONDO_DEVICE_HOST");
  if (info.type == MemoryType::device && !info.is_managed && info.device != device_.ordinal)
    return invalid_argument(std::string(name) + " is memory of CUDA device " + std::to_string(info.device) +
                            ", but the communicator is on " + describe());
  const uint64_t offset = reinterpret_cast<uint64_t>(pointer) - info.range_start;
  if (info.range_bytes != 0 && (offset > info.range_bytes || bytes > info.range_bytes - offset))
    return invalid_argument(std::string(name) + " has " + std::to_string(bytes) + " bytes, which is more than the " +
                            std::to_string(info.range_bytes - std::min<uint64_t>(offset, info.range_bytes)) +
                            " that are left of its allocation");
  if (segment_.shape().buffers == BufferPlace::peer_devices) checked_.keep(pointer, info);
  return {};
}

/// Returns the id of the capture that the stream is in, or 0 without one. Makes the context of the communicator current
/// in `guard`, if a question about the stream needs a context.
Result<uint64_t> ExecutorBase::capture_of(CuStream stream, std::optional<ContextGuard> &guard) const {
  if (is_default_stream(stream)) {  // it belongs to the current context
    guard.emplace(*driver_, context_.get().context);
    RONDO_TRY(guard->status());
  }
  CaptureStatus capture = CaptureStatus::none;
  unsigned long long id = 0;
  const auto ask = [&] { return driver_->stream_get_capture_info(stream, &capture, &id, nullptr, nullptr, nullptr); };
  CuStatus status = ask();
  if (status == CuStatus::invalid_context && !guard) {  // the thread has no context yet
    guard.emplace(*driver_, context_.get().context);
    RONDO_TRY(guard->status());
    status = ask();
  }
  RONDO_TRY(cuda_check(*driver_, status, "cuStreamGetCaptureInfo"));
  return capture == CaptureStatus::none ? uint64_t{0} : uint64_t{id};
}

Result<uint64_t> ExecutorBase::check_stream(StreamRef given, StreamRole role) const {
  if (given.host != nullptr)
    return invalid_argument(
        "the stream is one of rondo_stream_create, which is for host memory, but the communicator is on a device; "
        "give a cudaStream_t");
  auto *const stream = static_cast<CuStream>(given.device);
  std::optional<ContextGuard> guard;
  RONDO_TRY_ASSIGN(const uint64_t capture, capture_of(stream, guard));
  if (stream != nullptr) RONDO_TRY(know_stream(stream));
  if (stream_users_ != nullptr && launches_alone(capture != 0)) RONDO_TRY(reserve_stream(stream, capture, role));
  return capture;
}

Result<void> ExecutorBase::join_streams(StreamRef before, StreamRef behind) {
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  if (!joined_.valid()) {
    RONDO_TRY_ASSIGN(joined_, make_event(context_));
  }
  const CuEvent event = joined_.get().object;
  RONDO_TRY(cuda_check(*driver_, driver_->event_record(event, static_cast<CuStream>(before.device)), "cuEventRecord"));
  RONDO_TRY(cuda_check(*driver_, driver_->stream_wait_event(static_cast<CuStream>(behind.device), event, 0),
                       "cuStreamWaitEvent"));
  if (stream_users_ == nullptr) return {};
  RONDO_TRY_ASSIGN(const UsedStream first, describe_use(before));
  RONDO_TRY_ASSIGN(const UsedStream second, describe_use(behind));
  stream_users_->joined(stream_place_, first, second);
  return {};
}

Result<UsedStream> ExecutorBase::describe_use(StreamRef of) const {
  auto *const stream = static_cast<CuStream>(of.device);
  std::optional<ContextGuard> guard;
  RONDO_TRY_ASSIGN(const uint64_t capture, capture_of(stream, guard));
  if (stream != nullptr) RONDO_TRY(know_stream(stream));
  return used_stream(stream, capture, known_flags_);
}

/// Reserves the stream for the next call. Its handle may have belonged to a destroyed stream with other flags. So if
/// the known flags lead to a refusal, they are read again.
Result<void> ExecutorBase::reserve_stream(CuStream stream, uint64_t capture, StreamRole role) const {
  if (stream_users_->reserve(stream_place_, used_stream(stream, capture, known_flags_), role).ok()) return {};
  known_stream_ = nullptr;
  if (stream != nullptr) RONDO_TRY(know_stream(stream));
  return stream_users_->reserve(stream_place_, used_stream(stream, capture, known_flags_), role);
}

/// Finds the context and the flags of a stream, unless the latest call had the same handle. Since that call, the handle
/// may have passed to a new stream. If the new stream is on another device, the launch fails.
Result<void> ExecutorBase::know_stream(CuStream stream) const {
  if (stream == known_stream_) return {};
  known_stream_ = nullptr;
  CuContext owner = nullptr;
  RONDO_TRY(cuda_check(*driver_, driver_->stream_get_ctx(stream, &owner), "cuStreamGetCtx"));
  if (owner != context_.get().context)
    return invalid_argument("the stream is not one of " + describe() + ", which the communicator is on");
  known_flags_ = stream_default;
  if (stream_users_ != nullptr && !is_default_stream(stream))
    RONDO_TRY(cuda_check(*driver_, driver_->stream_get_flags(stream, &known_flags_), "cuStreamGetFlags"));
  known_stream_ = stream;
  return {};
}

void ExecutorBase::join_stream_users(const PlacedRequest &request) {
  const Neighbours &here = request.neighbours;
  if (here.in_process == 1) return;
  stream_users_ = StreamUsers::join(segment_.address_of(here.first), here.in_process);
  stream_place_ = here.position;
  stream_users_->enter(stream_place_, request.rank, [this] { return report().ended_number; });
}

Result<void> ExecutorBase::follow_last_stream(CuStream stream, bool captured) {
  if (!launched_any_ || (stream == last_stream_ && owner_of(stream) == last_owner_)) return {};
  if (!recorded_)
    return Error{
        RONDO_ERROR_OUT_OF_RESOURCES,
        "no event could be recorded after the last call, so no call on another stream can follow it; use one stream"};
  if (!captured)
    return cuda_check(*driver_, driver_->stream_wait_event(stream, launched_.get().object, 0), "cuStreamWaitEvent");
  // A captured stream cannot wait for work that was not captured with it.
  if (last_call_has_ended()) return {};
  return invalid_argument(
      "a stream is being captured while the communicator's calls on another stream still run; "
      "synchronize that stream before the capture begins");
}

Result<Buffers> ExecutorBase::prepare_operands(const Plan &plan, const DeviceCall &call, void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(follow_last_stream(stream, call.captured));
  RONDO_TRY(plan.widened ? operands_.widen(*driver_, plan, call.buffers, stream)
                         : operands_.scale(*driver_, plan, call.buffers, call.factor, stream));
  return operands_.buffers_of(plan, call.buffers);
}

Result<void> ExecutorBase::narrow(const Plan &plan, const DeviceCall &call, uint32_t rank_count,
                                  void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(operands_.narrow(*driver_, plan, call.buffers, rank_count, stream));
  if (call.captured) return {};
  note_last_stream(stream);
  narrowed_turn_.store(call.turn, std::memory_order_release);
  return {};
}

bool ExecutorBase::last_call_has_ended() const {
  if (!launched_any_) return true;
  const ContextGuard guard(*driver_, context_.get().context);
  const CaptureModeGuard capture_goes_on(*driver_);
  return guard.ok() && recorded_ && driver_->event_query(launched_.get().object) == CuStatus::success;
}

void ExecutorBase::note_last_stream(CuStream stream) {
  // The call is enqueued already, so an error here is not returned. Only a call on another stream needs the event.
  recorded_ = driver_->event_record(launched_.get().object, stream) == CuStatus::success;
  last_stream_ = stream;
  last_owner_ = owner_of(stream);
  launched_any_ = true;
}

Result<void> ExecutorBase::check_device() const {
  const ContextGuard guard(*driver_, context_.get().context);
  const CaptureModeGuard capture_goes_on(*driver_);
  const CuStatus status = guard.ok() ? driver_->stream_query(stream_.get().object) : guard.code();
  if (status == CuStatus::success || status == CuStatus::not_ready) return {};
  if (status == CuStatus::not_permitted) return {};  // the caller is a stream's host function, which may not query
  return cuda_error(*driver_, status, describe() + " has failed");
}

}  // namespace rondo::cuda
