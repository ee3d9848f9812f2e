// SPDX-License-Identifier: Apache-2.0
// This file implements Ranks for one host. It uses the boards and the failure in the segment, so it always shows the
// present state.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "src/links/ranks.h"
#include "src/proto/memory.h"
#include "transports/shm/peers.h"

namespace rondo::shm {

class ShmRanks final : public Ranks {
 public:
  ShmRanks(std::shared_ptr<Segment> segment, const ShmPeers &peers, uint32_t rank, std::string host_name)
      : segment_(std::move(segment)),
        peers_(peers),
        rank_(rank),
        host_name_(std::move(host_name)),
        tick_source_(static_cast<TickSource>(segment_->header().tick_source)),
        own_(segment_->board(rank)),
        failure_(segment_->failure()),
        messages_(segment_, rank) {}

  void enter(uint64_t operation, const OperationInfo &what) override {
    shm::enter(own_, operation, what, read_ticks(tick_source_));
  }
  void complete(uint64_t operation, const OperationCost &cost) override {
    shm::complete(own_, operation, cost, read_ticks(tick_source_));
  }
  void fail(uint64_t operation) override { shm::fail(own_, operation, read_ticks(tick_source_)); }
  void set_state(RankState state) override {
    if (state == RankState::left && this->state(rank_) == RankState::aborted) return;
    memory::store_sync(own_.state, static_cast<uint64_t>(state));  // pairs with load_acquire in state()
    wake_all();
  }

  std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const override {
    return shm::entered(segment_->board(peer), operation);
  }
  uint64_t latest_operation(uint32_t peer) const override {
    return memory::load_acquire(segment_->board(peer).entered);  // pairs with store_release in enter()
  }
  uint64_t completed_operation(uint32_t peer) const override {
    return memory::load_acquire(segment_->board(peer).completed);  // pairs with store_release in end()
  }
  RankState state(uint32_t peer) const override {
    return static_cast<RankState>(memory::load_acquire(segment_->board(peer).state));  // pairs with set_state()
  }

  MessageBoards *messages() override { return &messages_; }

  void post(const Note &note) override {
    const std::lock_guard lock(posting_);
    post_note(own_.notes, note);
  }
  std::vector<Note> notes(uint32_t peer) const override { return read_notes(segment_->board(peer).notes); }

  void raise(const Error &error) override {
    raise_failure(failure_, rank_, error);
    wake_all();
  }
  bool failed() const override { return shm::failed(failure_); }
  Error failure() const override {
    if (auto known = read_failure(failure_)) return *std::move(known);
    const uint32_t writer = failure_writer(failure_);
    Error error{RONDO_ERROR_REMOTE, describe_rank(writer) +
                                        " died while it reported a failure of the communicator; only "
                                        "rondo_comm_abort and rondo_comm_destroy are left"};
    error.rank = static_cast<int32_t>(rank_);
    error.peer = static_cast<int32_t>(writer);
    error.operation = latest_operation(writer);
    return error;
  }

  std::vector<uint32_t> find_dead() const override { return peers_.find_dead(); }
  std::vector<int> process_handles() const override { return peers_.process_handles(); }
  std::string describe_rank(uint32_t peer) const override {
    return "rank " + std::to_string(peer) + " (host " + host_name_ + ", process " +
           std::to_string(memory::load_acquire(segment_->board(peer).process)) + ")";  // pairs with fill_board()
  }

 private:
  void wake_all() {
    for (uint32_t peer = 0; peer < segment_->shape().rank_count; ++peer) ring_always(segment_->board(peer));
  }

  const std::shared_ptr<Segment> segment_;
  const ShmPeers &peers_;
  const uint32_t rank_;
  const std::string host_name_;
  const TickSource tick_source_;
  RankBoard &own_;
  SharedFailure &failure_;
  std::mutex posting_;  ///< held during post(), because several threads of a rank post notes
  ShmMessages messages_;
};

}  // namespace rondo::shm
