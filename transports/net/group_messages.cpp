// SPDX-License-Identifier: Apache-2.0
#include "transports/net/group_messages.h"

#include <utility>

#include "transports/net/net_transport.h"

namespace rondo::net {

void GroupMessages::complete_batch() {
  parts_.local->complete_batch();
  if (std::exchange(crosses_hosts_, false)) parts_.settle();
}

bool GroupMessages::knows(uint32_t of) const { return parts_.local_index[of] != no_local; }

BatchCounts GroupMessages::batches(uint32_t of) const {
  return knows(of) ? parts_.local->batches(parts_.local_index[of]) : BatchCounts{};
}

RankDoing GroupMessages::doing(uint32_t of) const {
  return knows(of) ? parts_.local->doing(parts_.local_index[of]) : RankDoing{};
}

PairCounts GroupMessages::pair(uint32_t of, uint32_t with, bool sends) const {
  return knows(of) ? parts_.local->pair(parts_.local_index[of], with, sends) : PairCounts{};
}

BlockedSend GroupMessages::blocked(uint32_t of, uint32_t to) const {
  return knows(of) ? parts_.local->blocked(parts_.local_index[of], to) : BlockedSend{};
}

std::optional<MessageInfo> GroupMessages::find(uint32_t of, uint32_t with, bool sends, uint64_t message) const {
  return knows(of) ? parts_.local->find(parts_.local_index[of], with, sends, message) : std::nullopt;
}

bool GroupMessages::device_waits(uint32_t of, WaitReport &report) const {
  return knows(of) && parts_.local->device_waits(parts_.local_index[of], report);
}

std::optional<MessageReport> GroupMessages::report(uint32_t of, uint32_t with, bool sends, uint64_t message,
                                                   uint64_t since_ns) {
  if (knows(of)) return parts_.local->report(parts_.local_index[of], with, sends, message, since_ns);
  return parts_.ask(of, sends, message, since_ns);
}

bool GroupMessages::read_waits(uint32_t of, uint64_t since_ns, WaitReport &report) {
  return !knows(of) && parts_.waits(of, since_ns, report);
}

}  // namespace rondo::net
