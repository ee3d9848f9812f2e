// SPDX-License-Identifier: Apache-2.0
// One peer over verbs: its queue pair, the memory that it may write, and what is under way to it. A protection domain
// for each peer: the keys that one peer has are of no use to another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/net.h"
#include "transports/verbs/device.h"
#include "transports/verbs/peer_info.h"
#include "transports/verbs/wire.h"

namespace rondo::verbs {

struct Link {
  net::NearLink ends;
  uint32_t index = 0;  ///< as the network counts
  MemoryRegion incoming;
  MemoryRegion outgoing;
  LinkTarget target;
  Cell *staged = nullptr;    ///< by slot: sent from here
  Cell *landed = nullptr;    ///< by slot: written by the peer
  uint64_t sent = 0;         ///< slots
  uint64_t left = 0;         ///< of them, those that the peer's device has
  uint64_t arrived = 0;      ///< counter of the next slot that comes
  uint64_t consumed = 0;     ///< as the peer said last
  uint64_t credit_told = 0;  ///< min(left, consumed), as it was told
};

/// What a signalled request was.
struct Signal {
  Link *slot = nullptr;   ///< null: a credit, a hello, a bye
  uint64_t position = 0;  ///< requests of the queue pair up to and with it
};

class Peer {
 public:
  /// A queue pair that is not connected, and memory that is registered.
  [[nodiscard]] static Result<std::unique_ptr<Peer>> make(const Device &device, ibv_cq *completions, uint32_t index,
                                                          uint32_t rank, std::string name,
                                                          const std::vector<net::NearLink> &links);
  [[nodiscard]] QueuePairInfo offer() const;
  /// The queue pair receives from now on, and may send.
  [[nodiscard]] Result<void> connect(const Device &device, const HostInfo &theirs);

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] const std::string &name() const { return name_; }
  [[nodiscard]] const ibv_qp *queue_pair() const { return queue_pair_.get(); }
  [[nodiscard]] std::vector<Link> &links() { return links_; }
  [[nodiscard]] const std::string &their_port() const { return their_port_; }

  // What sends: false: there is no room now. A peer that is lost takes everything.
  [[nodiscard]] bool send_slot(Link &link, const net::Message &message);
  [[nodiscard]] bool send_credit(const Link &link, uint64_t consumed);
  /// A whole slot and a hello.
  [[nodiscard]] bool send_hello();
  [[nodiscard]] bool send_bye();
  /// Everything that was sent has arrived at the peer's device, as far as completions have been taken.
  [[nodiscard]] bool all_left() const { return signals_first_ == signals_end_; }

  /// A request has ended well. The slot's link, or null.
  Link *sent();
  /// A request to receive was used up: another one takes its place.
  void receive_again();

  void lose(const std::string &what);
  [[nodiscard]] bool lost() const { return lost_ns_ != 0; }
  [[nodiscard]] uint64_t lost_ns() const { return lost_ns_; }
  [[nodiscard]] const std::string &why() const { return why_; }

  bool told = false;    ///< the loss
  bool greeted = false; ///< its hello has come
  bool left = false;    ///< its bye has come

  /// How many completions one peer may cause before they are taken.
  [[nodiscard]] static uint32_t completions_for(const std::vector<net::NearLink> &links);

 private:
  Peer(const Api &api, uint32_t index, uint32_t rank, std::string name)
      : api_(api), index_(index), rank_(rank), name_(std::move(name)) {}
  Result<void> register_memory(const std::vector<net::NearLink> &links);
  Result<void> make_queue_pair(const Device &device, ibv_cq *completions);
  Result<void> modify(ibv_qp_attr &attributes, int mask, const char *what);
  [[nodiscard]] bool has_room(uint32_t requests) const { return posted_ - ended_ + requests <= requests_most_; }
  /// Chained requests, of which only the last may be signalled.
  bool post(ibv_send_wr &first, ibv_send_wr &last, uint32_t count, const Signal *signal);
  bool send_word(MessageKind kind, const Link &link, uint64_t counter, bool signalled);
  [[nodiscard]] ibv_send_wr write_of(const ibv_sge &part, uint64_t address, uint32_t key) const;

  const Api &api_;
  const uint32_t index_;
  const uint32_t rank_;
  const std::string name_;
  std::string their_port_;
  ProtectionDomain domain_;
  std::vector<Cell> cells_;  ///< for each link: those that land, then those that are staged
  MemoryRegion landing_;
  MemoryRegion staging_;
  std::vector<Link> links_;  ///< by channel; never moves
  QueuePair queue_pair_;
  uint32_t first_packet_ = 0;
  uint32_t requests_most_ = 0;
  uint32_t receives_ = 0;
  uint32_t inline_most_ = 0;
  uint64_t posted_ = 0;  ///< requests to send
  uint64_t ended_ = 0;   ///< of them, known to have ended
  uint64_t signalled_ = 0;  ///< position of the last one that was signalled
  std::vector<Signal> signals_;
  uint64_t signals_first_ = 0;
  uint64_t signals_end_ = 0;
  uint64_t lost_ns_ = 0;  ///< when; 0: it is not lost
  std::string why_;
};

}  // namespace rondo::verbs
