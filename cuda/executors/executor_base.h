// SPDX-License-Identifier: Apache-2.0
// This is the common base of the executors on a CUDA device. It has the device and its segment. It orders calls on the
// caller's streams, and answers queries about buffers and errors. Only code in cuda/ includes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "src/engine/device_executor.h"
#include "cuda/executors/checked_buffers.h"
#include "cuda/executors/cuda_executor.h"
#include "cuda/executors/one_sided_streams.h"
#include "cuda/executors/operand_workspace.h"
#include "cuda/executors/stream_users.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

/// Returns the device of that ordinal, or RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<CudaDevice> device_of(const CudaDriver &driver, int32_t ordinal);

class ExecutorBase : public DeviceExecutor {
 public:
  /// Connects the ranks. Every rank calls it once, on an executor of the same kind. After a failure, the object keeps
  /// the memory that other ranks may still open.
  [[nodiscard]] virtual Result<void> connect(const PlacedRequest &request, InfoExchange &info_exchange) = 0;

  [[nodiscard]] ExecutorCapabilities capabilities() const override;
  [[nodiscard]] std::string describe() const override {
    return "CUDA device " + std::to_string(device_.ordinal) + " (" + device_.name + ")";
  }
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const override;
  [[nodiscard]] Result<uint64_t> check_stream(StreamRef stream, StreamRole role) const override;
  [[nodiscard]] Result<void> join_streams(StreamRef before, StreamRef behind) override;
  void forget_stream() const override {
    if (stream_users_ != nullptr) stream_users_->cancel(stream_place_);
  }
  [[nodiscard]] StreamRef own_stream() const override { return {nullptr, stream_.get().object}; }
  [[nodiscard]] Result<void> check_device() const override;
  [[nodiscard]] std::string shared_queues() const override { return shared_queues_; }
  [[nodiscard]] Result<void> open_messages() override;
  [[nodiscard]] DeviceBytes device_bytes() const override;
  [[nodiscard]] Result<void> suspend() override;
  [[nodiscard]] Result<void> resume(Store &store, const std::string &key_prefix, uint64_t deadline_ns) override;
  [[nodiscard]] Result<void> open_one_sided() override;
  [[nodiscard]] Result<MemoryPlace> describe_memory(const void *pointer, size_t bytes) const override {
    return one_sided_->describe(pointer, bytes);
  }
  [[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t peer,
                                                                       const MemoryPlace &place) override;
  [[nodiscard]] bool wait_for_one_sided() override;
  void wait_for_writers() const override {
    if (one_sided() != nullptr) one_sided()->release_ended();
  }

 protected:
  [[nodiscard]] Result<void> launch_one_sided(const OneSidedBatch &batch, void *stream) override {
    return one_sided_->enqueue(batch, static_cast<CuStream>(stream));
  }
  void end_one_sided() override;
  /// Returns the one-sided operations, or null before the first of them.
  [[nodiscard]] OneSidedStreams *one_sided() const { return opened_one_sided_.load(std::memory_order_acquire); }
  [[nodiscard]] const ConnectionGeometry &geometry() const { return segment_.shape().geometry; }
  /// Finds the driver and the device, and loads the kernels.
  [[nodiscard]] Result<void> open(const PlacedRequest &request);
  /// Connects the segment. `request.handles` must be chosen already.
  [[nodiscard]] Result<void> connect_segment(const PlacedRequest &request, const SegmentShape &shape,
                                             InfoExchange &info_exchange);

  /// Makes a call on `stream` run after the latest call, even if that is on another stream, because all calls share the
  /// ends of the communicator's links.
  [[nodiscard]] Result<void> follow_last_stream(CuStream stream, bool captured);
  /// Makes room for what the plan needs beside the caller's buffers. prepare() calls it.
  [[nodiscard]] Result<void> reserve_operands(const Plan &plan) { return operands_.reserve(context_, kernels_, plan); }
  [[nodiscard]] Result<Buffers> prepare_operands(const Plan &plan, const DeviceCall &call, void *stream) override;
  [[nodiscard]] Result<void> narrow(const Plan &plan, const DeviceCall &call, uint32_t rank_count,
                                    void *stream) override;
  [[nodiscard]] bool has_narrowed(uint64_t turn) const override {
    return narrowed_turn_.load(std::memory_order_acquire) >= turn && last_call_has_ended();
  }
  /// Records that the latest call is on `stream`.
  void note_last_stream(CuStream stream);
  [[nodiscard]] bool last_call_has_ended() const;

  /// Joins the group of stream users, which are the ranks of this process on this device. The group detects calls on
  /// one stream that need each other. Call this after the segment is connected.
  void join_stream_users(const PlacedRequest &request);
  /// Says whether this rank enqueues its next call alone, and not together with the calls of other ranks.
  [[nodiscard]] virtual bool launches_alone(bool /*captured*/) const { return true; }
  void note_enqueued(uint64_t turn, uint64_t number) const {
    if (stream_users_ != nullptr) stream_users_->enqueued(stream_place_, turn, number);
  }

  /// Leaves the group of stream users. Afterwards the driver's objects can be closed without ending another thread's
  /// capture. Each destructor calls this first.
  void begin_to_end() {
    if (stream_users_ != nullptr) stream_users_->leave(stream_place_);
    if (driver_ != nullptr) ending_.emplace(*driver_);
  }

  /// Calls use(), or without_memory() if the memory is suspended. Suspend and resume wait until that call returns.
  template <class Use, class WithoutMemory>
  void use_unless_suspended(const Use &use, const WithoutMemory &without_memory) {
    const std::lock_guard lock(suspend_mutex_);
    suspended_ ? without_memory() : use();
  }

  std::optional<CaptureModeGuard> ending_;  ///< first, so that it outlives all objects of the driver
  const CudaDriver *driver_ = nullptr;
  CudaDevice device_;
  PrimaryContext context_;
  KernelSet kernels_;
  NetworkLinks network_;
  HostLinks host_links_;
  Segment segment_;
  Stream stream_;
  mutable CheckedBuffers checked_;  ///< what check_buffer() has asked about the buffers of the next call

 private:
  [[nodiscard]] Result<void> know_stream(CuStream stream) const;
  [[nodiscard]] Result<uint64_t> capture_of(CuStream stream, std::optional<ContextGuard> &guard) const;
  [[nodiscard]] Result<UsedStream> describe_use(StreamRef stream) const;
  [[nodiscard]] Result<void> reserve_stream(CuStream stream, uint64_t capture, StreamRole role) const;

  std::mutex suspend_mutex_;  ///< guards suspended_
  bool suspended_ = false;
  std::string shared_queues_;
  Links *network_links_ = nullptr;  ///< null: all ranks are on one node
  Links *links_ = nullptr;  ///< links of the rank
  OperandWorkspace operands_;
  std::mutex opening_;  ///< guards one_sided_
  std::unique_ptr<OneSidedStreams> one_sided_;
  std::atomic<OneSidedStreams *> opened_one_sided_ = nullptr;  ///< one_sided_; stored by open_one_sided()
  Event launched_;  ///< recorded after every call that was not captured
  Event joined_;    ///< for join_streams(); made by its first call
  CuStream last_stream_ = nullptr;
  uint64_t last_owner_ = 0;  ///< owner_of(last_stream_) when that was used
  // The monitor reads these while a thread enqueues.
  std::atomic<bool> launched_any_ = false;
  std::atomic<bool> recorded_ = true;        ///< launched_ was recorded after the last call
  std::atomic<uint64_t> narrowed_turn_ = 0;  ///< turn of the latest mean of integers whose division is enqueued
  std::shared_ptr<StreamUsers> stream_users_;  ///< null: no other rank of this process is on this device
  uint32_t stream_place_ = 0;                  ///< this rank's index in stream_users_
  // check_stream() uses these members, and is called under the communicator's lock.
  mutable CuStream known_stream_ = nullptr;  ///< of the latest call; it belongs to this device
  mutable unsigned known_flags_ = 0;         ///< of that stream
};

[[nodiscard]] std::unique_ptr<ExecutorBase> make_kernel_executor();
[[nodiscard]] std::unique_ptr<ExecutorBase> make_copy_executor();

}  // namespace rondo::cuda
