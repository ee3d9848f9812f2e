// SPDX-License-Identifier: Apache-2.0
#include "src/engine/host_messages.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "src/engine/transfer_watch.h"

namespace rondo {
namespace {

std::unique_ptr<MessageLinks> ends_of(Links &links, uint32_t rank, uint32_t rank_count, bool wake) {
  std::vector<MessageLinks::Peer> peers;
  for (uint32_t peer = 0; peer < rank_count; ++peer)
    peers.push_back({links.outgoing_messages(peer), links.incoming_messages(peer),
                     peer == rank ? 0 : links.readable_kinds(peer)});
  return std::make_unique<MessageLinks>(peers, links.peers(), wake);
}

/// Records the messages of a batch, and exports the buffers that are large enough.
class Publisher final : public TransferObserver {
 public:
  Publisher(MessageBoards &boards, Operations &operations, MessageRun run)
      : boards_(boards), operations_(operations), run_(run) {}

  void begin(TransferQueue &queue) override {
    const Transfer &head = queue.head();
    queue.record = boards_.begin(info_of(head));
    if (queue.sends && head.bytes >= export_bytes_min) export_buffer(queue);
  }
  void complete(TransferQueue &queue) override { boards_.complete(queue.record, info_of(queue.head()), run_); }

 private:
  /// Exports the buffer of a send. The function is separate, so that begin() of a short message needs no stack frame.
  [[gnu::noinline]] void export_buffer(TransferQueue &queue) {
    const Transfer &head = queue.head();
    MemoryHandle &handle = queue.buffers.send.handle;
    handle = operations_.registration_cache().find(head.data, head.bytes);
    if (handle.replaced)
      operations_.raise(replaced_memory(numbered_message(head), operations_.rank()), 0);
  }
  static std::string numbered_message(const Transfer &head) {
    return "send " + std::to_string(head.message) + " to rank " + std::to_string(head.peer);
  }

  MessageBoards &boards_;
  Operations &operations_;
  const MessageRun run_;
};

/// Copies the messages of this rank to itself: its n-th receive gets the data of its n-th send.
void copy_within(std::span<Transfer> own, MessageBoards &boards, MessageRun run) {
  const auto sends = std::stable_partition(own.begin(), own.end(), [](const Transfer &each) { return !each.sends; });
  for (auto receive = own.begin(), send = sends; send != own.end(); ++receive, ++send) {
    const uint64_t sent = boards.begin(info_of(*send)), received = boards.begin(info_of(*receive));
    if (send->bytes != 0) std::memmove(receive->data, send->data, send->bytes);
    boards.complete(sent, info_of(*send), run);
    boards.complete(received, info_of(*receive), run);
  }
}

}  // namespace

HostMessages::HostMessages(Links &links, uint32_t rank, uint32_t rank_count, const WaitPolicy &wait)
    : links_(links),
      rank_(rank),
      rank_count_(rank_count),
      wait_(wait),
      ends_(ends_of(links, rank, rank_count, wait.sleeps)),
      queues_(*ends_) {}

bool HostMessages::run(std::span<Transfer> transfers, Operations &operations, bool in_call) {
  MessageBoards &boards = *operations.ranks().messages();
  if (operations.ranks().failed()) return false;  // checked before any message is announced, copied or counted
  const auto is_own = [&](const Transfer &each) { return each.peer == rank_; };
  const auto own = std::none_of(transfers.begin(), transfers.end(), is_own)
                       ? transfers.end()
                       : std::stable_partition(transfers.begin(), transfers.end(), std::not_fn(is_own));
  queues_.load(std::span(transfers.begin(), own));
  // For each peer and direction, one announcement of the last message's number covers the whole batch.
  for (const TransferQueue *const queue : queues_.active())
    boards.announce(queue->peer, queue->sends, queue->last->message);
  for (auto each = own; each != transfers.end(); ++each) boards.announce(rank_, each->sends, each->message);
  boards.enter_batch();
  const MessageRun run = in_call ? MessageRun::in_call : MessageRun::behind;
  copy_within(std::span(own, transfers.end()), boards, run);
  if (!run_between_ranks(operations, run)) return false;
  boards.complete_batch();
  return true;
}

bool HostMessages::run_between_ranks(Operations &operations, MessageRun run) {
  Ranks &ranks = operations.ranks();
  MessageBoards &boards = *ranks.messages();
  Publisher publisher(boards, operations, run);
  TransferWatch watch(ranks, boards, queues_, rank_, rank_count_, operations.timeout_ns());
  RunOutcome outcome{RunOutcome::Kind::stopped};
  links_.set_running(true);
  if (!ranks.failed()) {
    queues_.start(publisher);
    Waiter waiter(wait_, links_.peers(), watch);
    outcome = run_transfers(queues_, waiter, wait_.progresses ? 0 : wait_.poll_count);
  }
  links_.set_running(false);
  if (outcome.kind == RunOutcome::Kind::fault) {
    const TransferQueue &faulty = queues_.faulty();
    watch.explain_fault(faulty.head(), faulty.state.fault, links_.peers().own_shortage());
  }
  // Even if this rank has received all data, it checks for a failure. A peer that failed may have withdrawn an exported
  // buffer while this rank read the buffer.
  if (outcome.kind == RunOutcome::Kind::done && !ranks.failed()) return true;
  for (const TransferQueue *const queue : queues_.active())
    if (queue->record != 0) boards.fail(queue->record);
  links_.wait_for_readers();  // as the caller may free its buffers once this call returns
  return false;
}

}  // namespace rondo
