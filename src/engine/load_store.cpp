// SPDX-License-Identifier: Apache-2.0
// This file runs one_shot by load_store, and calls the other algorithms.
#include "src/engine/load_store.h"

#include <cassert>

#include "src/base/cpu.h"
#include "src/engine/load_store_call.h"

namespace rondo {

/// A call by one_shot.
class OneShotCall : public LoadStoreCall {
 public:
  explicit OneShotCall(const LoadStoreArgs &args) : LoadStoreCall(args, partials_of(args.type())) {}

  [[nodiscard]] RunOutcome run();

 private:
  void fetch_back(uint64_t number) const;

  // run() sets the array. Clearing the array before would slow down a call of a few bytes.
  std::array<const std::byte *, exchange_rank_count_max> operands_;
};

RunOutcome ExchangeEnd::run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter,
                            const OperandScaler *scaler) {
  const LoadStoreArgs args{*this, plan, buffers, reducer, waiter, scaler};
  const rondo_algorithm_t algorithm = plan.choice.algorithm;
  if (algorithm == RONDO_ALGORITHM_ONE_SHOT) return OneShotCall(args).run();
  if (plan.key.signature.count == 0) return {};
  return algorithm == RONDO_ALGORITHM_TWO_SHOT ? TwoShotCall(args).run() : RingCall(args).run();
}

void LoadStoreCall::publish(uint64_t &word, uint64_t value) const {
  if (end_.trace_ != nullptr) end_.trace_->published(word, value);
  if (!end_.wake_) return memory::store_release(word, value);  // P2, C2, R2, G2, H2; pairs with W2, R1, G1, H1
  memory::store_sync(word, value);                             // sync, because a peer may sleep
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (peer != end_.rank_) end_.peers_->wake(peer);
}

RunOutcome OneShotCall::run() {
  const ExchangeView &view = end_.view_;
  const uint32_t rank = end_.rank_;
  const uint64_t number = ++end_.posts_;
  assert(bytes() <= view.geometry.post_bytes);
  const uint64_t flag = post_flag(number, buffers_.signature);
  const std::byte *own = buffers_.send.data;  // not the payload, whose cache lines the peers are reading
  if (scaler_ != nullptr) own = scaled(buffers_.recv.data, own, bytes());
  copy(view.post_payload(rank, number, bytes()), own, bytes());  // P1
  publish(view.post(rank, number).flag, flag);                   // P2

  operands_[rank] = own;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank) continue;
    operands_[peer] = view.post_payload(peer, number, bytes());
    const uint64_t &word = view.post(peer, number).flag;
    uint64_t seen = 0;
    const bool arrived = wait_until([&] {
      seen = memory::load_sync(word);  // W2, pairs with P2 in publish()
      return is_post(seen, number);
    });
    if (!arrived) return stopped;
    if (seen != flag) return fault(Fault::foreign_slot, peer);
    note_waited(word, seen);
  }
  fetch_back(number + 1);
  std::byte *const outputs[] = {buffers_.recv.data};
  if (count_ != 0) reduce(std::span(operands_).first(rank_count()), outputs, count_);  // W1
  return {};
}

/// Requests the cache lines of the next post, `number`, while no peer waits for this rank. Peers have read post
/// number - 2 in these lines, so the lines are in their caches. Then the next call of this size can write them at once.
void OneShotCall::fetch_back(uint64_t number) const {
  constexpr uint64_t fetch_back_bytes_max = 4096;
  prefetch_for_write(&end_.view_.post(end_.rank_, number));
  const std::byte *const payload = end_.view_.post_payload(end_.rank_, number, bytes());
  const uint64_t most = std::min(bytes(), fetch_back_bytes_max);
  for (uint64_t offset = 0; offset < most; offset += cache_line_bytes) prefetch_for_write(payload + offset);
}

}  // namespace rondo
