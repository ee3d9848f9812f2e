// SPDX-License-Identifier: Apache-2.0
// This file implements the kernel executor: a kernel per collective, a block per channel (docs/gpu-executors.md).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cuda/driver/budget.h"
#include "cuda/executors/connection_shape.h"
#include "cuda/executors/cuda_plan.h"
#include "cuda/executors/executor_base.h"
#include "cuda/executors/launch_group.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/executors/peer_loss.h"
#include "cuda/executors/residency.h"
#include "cuda/kernels/plan_image.h"
#include "cuda/executors/result_reader.h"
#include "cuda/executors/segment_memory.h"
#include "cuda/executors/share_regions.h"
#include "cuda/executors/transfers.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/kernels/operation.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/proto/memory.h"

namespace rondo::cuda {
namespace {

constexpr uint32_t poll_count = 64;  // reads of a flag before a wait counts as long
constexpr uint64_t upload_patience_captured_ns = 2'000'000'000;

/// Words that the host and the kernels share in pinned memory.
struct HostWords {
  alignas(cache_line_bytes) uint64_t abort = 0;
  device::DeviceResult result;
};

class KernelExecutor final : public ExecutorBase {
 public:
  ~KernelExecutor() override { begin_to_end(); }
  [[nodiscard]] ExecutorCapabilities capabilities() const override {
    ExecutorCapabilities own = ExecutorBase::capabilities();
    own.kind = RONDO_DEVICE_EXECUTOR_KERNEL;
    own.connection_channels = own.channel_count;
    own.sends_messages = own.exchanges_blocks = transfers_ != nullptr;
    own.batch_parts_max = Transfers::batch_parts_max;
    own.message_parts_max = std::max(1u, segment_.shape().message_channels);
    return own;
  }
  [[nodiscard]] bool has_room(const Plan &plan) override;
  [[nodiscard]] Result<std::unique_ptr<PreparedPlan>> prepare(const Plan &plan) override;
  [[nodiscard]] Result<void> launch(const DeviceCall &call, void *stream) override;
  [[nodiscard]] Result<void> launch_messages(const DeviceMessages &messages, void *stream) override;
  [[nodiscard]] uint32_t part_count_max(bool of_blocks) const override {
    return of_blocks ? std::min(segment_.shape().channel_count, message_channels_max)
                     : segment_.shape().message_channels;
  }
  [[nodiscard]] const BatchProgress *batch_progress() const override { return transfers_.get(); }
  [[nodiscard]] DeviceReport report() const override {
    return results_.read(words().result, gathers_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] bool drained() const override {
    const DeviceReport now = report();
    return now.ended_number >= last_turn_ && now.begun_calls == now.ended_calls && uploads_->late_ones_have_ended() &&
           (one_sided() == nullptr || one_sided()->is_idle());
  }
  void stop() override;
  [[nodiscard]] Result<void> resume(Store &store, const std::string &key_prefix, uint64_t deadline_ns) override {
    RONDO_TRY(ExecutorBase::resume(store, key_prefix, deadline_ns));
    const CaptureModeGuard capture_goes_on(*driver_);
    return regions_ != nullptr ? regions_->catch_up() : Result<void>();
  }
  void share(const void *first, size_t bytes) override {
    if (regions_ != nullptr) share_region(*regions_, rank_, first, bytes);
  }
  [[nodiscard]] Result<void> unshare(const void *first) override {
    return regions_ == nullptr ? Result<void>() : withdraw_region(*regions_, queries(), first);
  }
  [[nodiscard]] bool has_peer_news() const override { return regions_ != nullptr && regions_->has_news(); }
  void ask_to_follow_peers() override { follower_->wake(); }
  [[nodiscard]] bool follow_peers(EnqueueWait &wait) override { return follower_->follow(wait); }
  [[nodiscard]] bool stop_sharing() override;
  [[nodiscard]] bool has_stopped_sharing() override { return follower_ == nullptr || follower_->end(0); }

  [[nodiscard]] Result<void> connect(const PlacedRequest &request, InfoExchange &info_exchange) override;

 private:
  [[nodiscard]] bool launches_alone(bool captured) const override {
    return group_ == nullptr || group_->has_lost_patience() || (captured && patience_ns_ != LaunchGroup::endless_ns);
  }
  [[nodiscard]] Result<void> join_group(const PlacedRequest &request, const BlockBudget &budget);
  void run_round(RegionRound round);  ///< called by follower_: opening and closing wait for the device
  [[nodiscard]] RankQueries queries() const {
    return {[this] { return find_dead(); }, [this](uint32_t rank) { return describe_rank(rank); }};
  }
  [[nodiscard]] HostWords &words() const { return *static_cast<HostWords *>(words_.get().object); }
  [[nodiscard]] std::byte *host_plans() const { return static_cast<std::byte *>(host_plans_.get().object); }
  [[nodiscard]] Result<DevicePointer> address_for(CudaPlan &plan, const DeviceCall &call) const;
  [[nodiscard]] DevicePointer device_address_of(const CudaPlan &plan) const {
    return segment_.address() + segment_.shape().plans_offset() + plan.offset;
  }
  /// Returns the host's address of the plan's image. Kernels read it there until the copy to the device has ended.
  [[nodiscard]] std::byte *host_image_of(const CudaPlan &plan) const {
    return host_plans() + segment_.shape().plan_bytes + plan.offset;
  }
  [[nodiscard]] Result<device::PlanImage> make_image(const Plan &plan, uint64_t address) const {
    return device::make_plan_image(
        plan, address, [&](uint32_t channel, uint32_t peer) { return segment_.ends_address(channel, peer); });
  }
  [[nodiscard]] Result<void> prepare_load_store(const Plan &plan, CudaPlan &made) const;
  [[nodiscard]] Result<void> prepare_image(const Plan &plan, CudaPlan &made);
  [[nodiscard]] device::DeviceOperation operation_of(const DeviceCall &call, uint32_t lane_count,
                                                     uint32_t scratch_bytes) const;
  void note_launched(const DeviceCall &call, CuStream stream);
  [[nodiscard]] Result<void> run(CudaPlan &plan, const DeviceCall &call, CuStream stream);
  [[nodiscard]] Result<void> run_together(LaunchPart &part, const DeviceCall &call, bool &launched);
  [[nodiscard]] Result<void> run_load_store(const CudaPlan &plan, const DeviceCall &call, CuStream stream);

  HostMemory words_, host_plans_;
  PlanMemory plan_memory_;
  uint32_t rank_ = 0, place_ = 0;  ///< place_: in group_
  bool has_load_store_ = false;  ///< its kernels are loaded
  uint64_t last_turn_ = 0;       ///< of the latest operation that was enqueued and not captured
  ResultReader results_;
  PeerLoss loss_;
  std::unique_ptr<Regions> regions_;  ///< null: ranks share no buffers by regions
  std::shared_ptr<LaunchGroup> group_;  ///< null: this rank launches separate kernels
  std::string capture_warning_, own_warning_;  ///< about separate kernels of each rank; "" if none, or logged
  uint64_t patience_ns_ = 0;            ///< time that calls wait for each other; endless_ns if sharing was requested
  KernelSet joint_kernels_;
  uint32_t joint_blocks_max_ = 0;       ///< 0: the group is not the whole communicator
  std::unique_ptr<Transfers> transfers_;  ///< null: ranks exchange no messages
  std::optional<PlanUploads> uploads_;  ///< from connect() on
  std::atomic<bool> gathers_ = false;  ///< a call waits for other ranks of the group
  std::unique_ptr<RegionFollower> follower_;  ///< if there are regions; it uses the members before it
  BlockClaim blocks_;  ///< declared last, so that others can claim the blocks while the driver frees memory
};

Result<void> KernelExecutor::connect(const PlacedRequest &asked, InfoExchange &info_exchange) {
  PlacedRequest request = asked;
  RONDO_TRY(open(request));
  rank_ = request.rank;
  has_load_store_ = request.load_store();
  // A measured table may have rows of load_store even for ranks that share nothing.
  if (wants_load_store(request) && !has_load_store_) {
    RONDO_TRY_ASSIGN(has_load_store_, load_load_store(context_, request, kernels_));
  }
  RONDO_TRY_ASSIGN(const BlockBudget budget, block_budget(kernels_, device_));
  ChannelCounts channels = wanted_channels(request, budget, has_load_store_);
  RONDO_TRY_ASSIGN(const auto claims, ClaimGroup::join(device_, describe(), request, budget, channels));
  blocks_ = claims->take(request.neighbours.position);
  channels.limit(claims->blocks());
  RONDO_TRY_ASSIGN(channels, agree_on_channels(context_, channels, info_exchange, request));
  RONDO_TRY_ASSIGN(const SegmentShape shape, choose_segment(request, channels, has_load_store_));
  const uint32_t block_count = std::max(shape.channel_count, shape.load_store.channel_count);
  shrink_claim(blocks_, block_count);
  plan_memory_.give(shape.plan_bytes);
  RONDO_TRY_ASSIGN(words_, allocate_host_memory(context_, sizeof(HostWords)));
  ::new (words_.get().object) HostWords();
  uploads_.emplace(context_, stream_, words().abort);
  RONDO_TRY_ASSIGN(host_plans_, allocate_host_memory(context_, 2 * shape.plan_bytes));
  RONDO_TRY(connect_segment(request, shape, info_exchange));
  if (asked.shares_regions) {  // even if ranks have not agreed: a rank that failed before does not know
    const DevicePointer table = segment_.address() + shape.regions_offset();
    RONDO_TRY_ASSIGN(auto regions, Regions::connect(context_, stream_.get().object, table, info_exchange));
    if (shape.region_bytes != 0) {
      regions_ = std::move(regions);
      RONDO_TRY_ASSIGN(follower_, RegionFollower::start([this](RegionRound round) { run_round(round); }));
    }
  }
  RONDO_TRY_ASSIGN(transfers_, Transfers::make(context_, kernels_, segment_, block_count));
  join_stream_users(request);
  return join_group(request, budget);
}

/// Joins this rank's group. Ranks of one process on one device form groups, each as large as a kernel allows.
Result<void> KernelExecutor::join_group(const PlacedRequest &request, const BlockBudget &budget) {
  if (!request.shares_launches) return {};
  const Neighbours &neighbours = request.neighbours;
  const uint32_t group = neighbours.position / device::ranks_per_kernel_max;
  const uint32_t before = group * device::ranks_per_kernel_max;
  const uint32_t count = std::min(neighbours.in_process - before, device::ranks_per_kernel_max);
  if (count == 1) return {};
  if (segment_.shape().buffers == BufferPlace::shared_device) {
    auto loaded = KernelSet::load(context_, {KernelFamily::joint});
    const bool lacking = !loaded.ok() && loaded.error().status == RONDO_ERROR_UNSUPPORTED;
    if (lacking && request.settings.device_launch == DeviceLaunch::automatic) return {};  // all ranks find the same
    RONDO_TRY_ASSIGN(joint_kernels_, std::move(loaded));
    joint_blocks_max_ = joint_blocks_max(request, budget);
  } else if (request.load_store()) {
    return Error{RONDO_ERROR_UNSUPPORTED,
                 "'load_store' has shared kernels only for up to " + std::to_string(device::ranks_per_kernel_max) +
                     " threads of one process; use RONDO_KERNEL=interpreter, or RONDO_DEVICE_LAUNCH=own"};
  }
  place_ = neighbours.position - before;
  capture_warning_ = warning_of_queues(request, true, true);
  own_warning_ = warning_of_queues(request, false, false);
  patience_ns_ = request.wants_shared_launch() ? LaunchGroup::endless_ns : request.settings.timeout_ns / 4;
  // The group's name is an address in the first rank's segment, which exists as long as any of these ranks exists.
  RONDO_TRY_ASSIGN(group_, LaunchGroup::join(context_, segment_.address_of(neighbours.first) + group, count));
  return {};
}

Result<std::unique_ptr<PreparedPlan>> KernelExecutor::prepare(const Plan &plan) {
  RONDO_TRY(reserve_operands(plan));
  auto made = std::make_unique<CudaPlan>(plan_memory_, device::reduce_op(plan));
  if (plan.schedules.empty()) return std::unique_ptr<PreparedPlan>(std::move(made));  // it only exchanges blocks
  RONDO_TRY_ASSIGN(made->kernel, kernels_.find(device::kernel_name(plan)));
  made->is_load_store = plan.choice.kernel == RONDO_KERNEL_LOAD_STORE;
  if (made->is_load_store) {
    RONDO_TRY(prepare_load_store(plan, *made));
  } else {
    RONDO_TRY(segment_.check_links(plan));
    RONDO_TRY(prepare_image(plan, *made));
  }
  return std::unique_ptr<PreparedPlan>(std::move(made));
}

Result<void> KernelExecutor::prepare_load_store(const Plan &plan, CudaPlan &made) const {
  describe_load_store(plan, segment_, rank_, regions_ != nullptr ? regions_->table() : 0, made);
  if (joint_blocks_max_ == 0) return {};
  RONDO_TRY_ASSIGN(const LoadedKernel joint, joint_kernels_.find(device::joint_kernel_name(plan)));
  made.joint = make_joint_plan(plan, made.load_store, joint);
  return {};
}

bool KernelExecutor::has_room(const Plan &plan) {
  return plan.choice.kernel == RONDO_KERNEL_LOAD_STORE ||
         plan_memory_.has_room(device::plan_image_bytes(plan), *uploads_);
}

Result<void> KernelExecutor::prepare_image(const Plan &plan, CudaPlan &made) {
  const size_t bytes = device::plan_image_bytes(plan);
  RONDO_TRY_ASSIGN(made.offset, plan_memory_.take(bytes, *uploads_));
  made.bytes = bytes;
  RONDO_TRY_ASSIGN(const device::PlanImage image, make_image(plan, device_address_of(made)));
  std::memcpy(host_plans() + made.offset, image.bytes.data(), image.bytes.size());
  made.channel_count = image.channel_count;
  made.lane_count = image.lane_count;
  made.lanes_per_channel = image.lanes_per_channel;
  made.scratch_bytes = device::scratch_bytes_for(plan.choice.protocol, geometry());
  made.uploaded = false;  // until the copy has ended, kernels read the plan in host memory
  RONDO_TRY_ASSIGN(made.uploaded, uploads_->begin(device_address_of(made), host_plans() + made.offset, made.bytes));
  if (made.uploaded) return {};
  std::byte *const here = host_image_of(made);
  RONDO_TRY_ASSIGN(const device::PlanImage of_host, make_image(plan, reinterpret_cast<uint64_t>(here)));
  std::memcpy(here, of_host.bytes.data(), of_host.bytes.size());
  return {};
}

/// Returns the address at which the call's kernel reads its plan. A captured call waits for the copy, so that its
/// kernel does not read host memory at each replay.
Result<DevicePointer> KernelExecutor::address_for(CudaPlan &plan, const DeviceCall &call) const {
  if (!plan.uploaded) {
    RONDO_TRY_ASSIGN(plan.uploaded, uploads_->wait(call.captured ? upload_patience_captured_ns : 0));
  }
  if (call.captured && !plan.uploaded)
    log::warning({log::Subsystem::device, rank_},
                 "each replay of a captured call reads its plan from host memory, because a kernel delays the copy to "
                 "the device; capture while no collective waits, or set CUDA_DEVICE_MAX_CONNECTIONS=32");
  return plan.uploaded ? device_address_of(plan) : reinterpret_cast<DevicePointer>(host_image_of(plan));
}

void KernelExecutor::stop() {
  uint64_t what = device::abort_operation;
  if (shares_partly(segment_.shape().buffers)) {
    const uint64_t kernel = report().begun_calls;
    if (loss_.look(kernel, now_ns())) what = device::abort_lost_peers(kernel);
  }
  memory::store_release(words().abort, what);  // pairs with A1 in cuda/kernels/run.h
  if (one_sided() != nullptr) one_sided()->stop();
}

void KernelExecutor::run_round(RegionRound round) {
  if (round == RegionRound::follow && !has_peer_news()) return;
  const auto quiet = try_quiet();
  if (round != RegionRound::leave && !quiet.owns_lock()) return;
  const CaptureModeGuard capture_goes_on(*driver_);
  if (round == RegionRound::follow)
    return use_unless_suspended([this] { regions_->look(); }, [this] { regions_->close_withdrawn(); });
  regions_->leave();
}

bool KernelExecutor::stop_sharing() {
  if (regions_ == nullptr || leave_regions(*regions_, *follower_, queries(), rank_)) return true;
  blocks_.reset();  // nothing that is left has a kernel in flight
  return false;
}

device::DeviceOperation KernelExecutor::operation_of(const DeviceCall &call, uint32_t lane_count,
                                                     uint32_t scratch_bytes) const {
  device::DeviceOperation operation;
  operation.abort = &words().abort;
  operation.progress =
      reinterpret_cast<device::DeviceProgress *>(segment_.address() + segment_.shape().progress_offset());
  operation.result = &words().result;
  operation.buffers = call.buffers;
  operation.number = call.turn;
  operation.divisor = call.divisor;
  operation.lane_count = lane_count;
  operation.scratch_bytes = scratch_bytes;
  operation.poll_count = poll_count;
  operation.captured = call.captured ? 1 : 0;
  operation.on_one_device = segment_.shape().buffers == BufferPlace::shared_device ? 1 : 0;
  return operation;
}

Result<void> KernelExecutor::run(CudaPlan &plan, const DeviceCall &call, CuStream stream) {
  RONDO_TRY_ASSIGN(const DevicePointer address, address_for(plan, call));
  LaunchPart part;
  part.kernel = plan.kernel;
  part.operation = operation_of(call, plan.lane_count, plan.scratch_bytes);
  part.operation.op = plan.op;
  part.operation.channels = reinterpret_cast<const device::DeviceChannel *>(address);
  part.channel_count = plan.channel_count;
  part.threads = block_threads_max;
  part.shared_bytes = device::shared_bytes_for(plan.lanes_per_channel, plan.scratch_bytes);
  part.stream = stream;
  part.number = call.number;
  bool launched = false;
  const auto done = run_together(part, call, launched);
  return launched || !done.ok() ? done : launch_parts(*driver_, {&part, 1}, stream);
}

/// Launches with the other ranks of the group, if the rank has a group. Returns like LaunchGroup::launch().
Result<void> KernelExecutor::run_together(LaunchPart &part, const DeviceCall &call, bool &launched) {
  if (group_ == nullptr) return {};
  Result<void> done;
  if (patience_ns_ == LaunchGroup::endless_ns || !call.captured) {  // a thread that captures may drive all ranks
    gathers_.store(true, std::memory_order_relaxed);  // advisory
    done = group_->launch(place_, part, words().abort, patience_ns_, launched);
    gathers_.store(false, std::memory_order_relaxed);
  }
  if (launched && !call.captured) last_turn_ = call.turn;  // even if an error followed, since the kernel will run
  if (!launched && (call.captured || group_->has_lost_patience()))
    warn_of_queues(rank_, std::move(call.captured ? capture_warning_ : own_warning_));
  return done;
}

Result<void> KernelExecutor::run_load_store(const CudaPlan &plan, const DeviceCall &call, CuStream stream) {
  if (joint_blocks_max_ != 0) {
    LaunchPart part{plan.joint.kernel, operation_of(call, plan.lane_count, plan.scratch_bytes), &plan.joint,
                    joint_blocks_max_, call.number};
    part.stream = stream;
    bool launched = false;
    const auto done = run_together(part, call, launched);
    if (launched || !done.ok()) return done;
  }
  device::LoadStoreOperation operation = plan.load_store;
  operation.base = operation_of(call, plan.lane_count, plan.scratch_bytes);
  operation.base.op = plan.op;
  if (operation.mode == device::LoadStoreMode::shared)
    post_buffers(*driver_, checked_, regions_.get(), segment_.shape().buffers, plan, call, operation);
  device::fit_to_buffers(operation);
  const LaunchSize size{plan.channel_count, plan.threads, device::load_store_shared_bytes(operation.rank_count())};
  return launch_kernel(*driver_, plan.kernel, size, &operation, stream, "launching a collective");
}

Result<void> KernelExecutor::launch(const DeviceCall &call, void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  auto &plan = static_cast<CudaPlan &>(*call.plan);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(follow_last_stream(stream, call.captured));
  RONDO_TRY(plan.is_load_store ? run_load_store(plan, call, stream) : run(plan, call, stream));
  note_launched(call, stream);
  return {};
}

void KernelExecutor::note_launched(const DeviceCall &call, CuStream stream) {
  note_enqueued(call.turn, call.number);
  checked_.forget();
  if (call.captured) return;
  last_turn_ = call.turn;
  note_last_stream(stream);
}

Result<void> KernelExecutor::launch_messages(const DeviceMessages &messages, void *stream_handle) {
  auto *const stream = static_cast<CuStream>(stream_handle);
  const ContextGuard guard(*driver_, context_.get().context);
  RONDO_TRY(guard.status());
  RONDO_TRY(follow_last_stream(stream, messages.captured));
  const DeviceCall call{nullptr, {}, messages.turn, messages.number, 0, messages.captured};
  if (group_ != nullptr) warn_of_queues(rank_, std::move(own_warning_));
  EnqueueWait wait(*this, *operations(), messages.number);
  RONDO_TRY(transfers_->launch(messages, operation_of(call, 0, 0), wait, [this] { return report().ended_number; },
                               stream));
  note_launched(call, stream);
  return {};
}

}  // namespace

std::unique_ptr<ExecutorBase> make_kernel_executor() { return std::make_unique<KernelExecutor>(); }

}  // namespace rondo::cuda
