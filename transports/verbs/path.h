// SPDX-License-Identifier: Apache-2.0
// A path is one queue pair to a remote rank on one rail, its requests, and the memory here that the remote rank may
// write through it. Each path has its own protection domain, so a peer's keys are useless to others.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transports/net.h"
#include "transports/verbs/device.h"
#include "transports/verbs/peer_info.h"
#include "transports/verbs/wire.h"

namespace rondo::verbs {

/// The loss of a remote rank. The reason of the path that failed first is kept.
struct Loss {
  uint32_t rank = 0;
  std::string name;  ///< for people
  uint64_t ns = 0;   ///< time of the loss in ns, or 0
  std::string why;
  uint32_t path = 0;  ///< the path that failed, by its number among the rank's paths

  void tell(uint32_t number, const std::string &what);
};

/// The state of a link on one path.
struct PathLink {
  uint32_t channel = 0;
  net::NearLink ends;
  MemoryRegion incoming;
  MemoryRegion outgoing;
  MemoryRegion device_incoming;  ///< valid if `ends` has slots in device memory
  MemoryRegion device_outgoing;
  LinkTarget target;
  Cell *staged = nullptr;  ///< by slot: cells to send
  Cell *landed = nullptr;  ///< by slot: cells that the peer writes
  uint64_t next = 0;       ///< counter of the next slot that this path brings
};

/// The numbers of a path.
struct PathPlace {
  uint32_t index = 0;   ///< number among all paths of the network; completions report it
  uint32_t number = 0;  ///< number among the paths to the remote rank
  uint32_t count = 1;   ///< the number of paths to the remote rank
};

class Path {
 public:
  /// Makes a queue pair that is not connected yet, and registers its memory. `device` and `loss` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<Path>> make(const Device &device, ibv_cq *completions,
                                                          const PathPlace &place, Loss &loss,
                                                          const std::vector<net::NearLink> &links);
  /// Also registers the device slots of this path's links, which are in `memory`. Returns an error if the card cannot
  /// write to that memory.
  [[nodiscard]] Result<void> register_device_slots(const RdmaMemory &memory);
  void forget_device_slots();
  /// Says whether an end has device slots. Before the other end's offer has arrived, only this end counts.
  [[nodiscard]] bool has_device_slots() const;
  [[nodiscard]] QueuePairInfo offer() const;
  /// Connects the queue pair. From now on it receives, and may send.
  [[nodiscard]] Result<void> connect(const HostInfo &theirs);

  [[nodiscard]] const Device &device() const { return device_; }
  [[nodiscard]] uint32_t number() const { return place_.number; }
  [[nodiscard]] const ibv_qp *queue_pair() const { return queue_pair_.get(); }
  [[nodiscard]] PathLink &ends(uint32_t channel) { return links_[channel]; }
  /// Returns "from rxe0 port 1 (..) to rxe0 port 1 (..)".
  [[nodiscard]] std::string describe() const { return "from " + device_.describe() + " to " + their_port_; }
  [[nodiscard]] bool connected() const { return !their_port_.empty(); }

  // The send functions return false if there is no room now. If the peer is lost, they return true and do nothing.
  [[nodiscard]] bool send_slot(uint32_t channel, const net::Message &message);
  [[nodiscard]] bool send_credit(uint32_t channel, uint64_t consumed);
  /// Sends a whole slot and a hello.
  [[nodiscard]] bool send_hello();
  [[nodiscard]] bool send_bye();
  /// Says whether every signalled request has ended. Then all requests before it have reached the peer's device. The
  /// bye is signalled, so its end means that everything sent has arrived.
  [[nodiscard]] bool all_left() const { return signals_first_ == signals_end_; }

  /// Records that a request ended without an error.
  void sent();
  /// Records that a receive request was used up. The path posts several of them again at a time.
  void receive_again();

  void lose(const std::string &what) { loss_.tell(place_.number, what); }

  bool greeted = false;  ///< the peer's hello has arrived
  bool closed = false;   ///< the peer's bye has arrived

  /// Returns how many completions one path may cause before they are taken from the queue.
  [[nodiscard]] static uint32_t completions_for(const PathPlace &place, const std::vector<net::NearLink> &links);

 private:
  static constexpr uint32_t receives_per_post = 8;

  Path(const Device &device, const PathPlace &place, Loss &loss)
      : device_(device), api_(device.api()), place_(place), loss_(loss) {}
  Result<void> register_memory(const std::vector<net::NearLink> &links);
  Result<void> make_queue_pair(ibv_cq *completions);
  Result<void> modify(ibv_qp_attr &attributes, int mask, const char *what);
  [[nodiscard]] bool has_room(uint32_t requests) const { return posted_ - ended_ + requests <= requests_max_; }
  /// Says whether the next request needs a signal. Half a queue lies between two signals. A request without a signal is
  /// known to have ended when the next signalled request completes.
  [[nodiscard]] bool signal_is_due() const { return posted_ - signalled_ >= requests_max_ / 2; }
  /// Posts a chain of requests, of which only the last may be signalled.
  bool post(ibv_send_wr &first, ibv_send_wr &last, uint32_t count, bool signalled);
  [[nodiscard]] ibv_sge part_of(const PathLink &link, const std::byte *payload, uint32_t bytes) const;
  bool send_word(MessageKind kind, const PathLink &link, uint64_t counter, bool signalled);
  [[nodiscard]] bool lost() const { return loss_.ns != 0; }
  [[nodiscard]] ibv_send_wr write_of(const ibv_sge &part, uint64_t address, uint32_t key) const;

  const Device &device_;
  const Api &api_;
  const PathPlace place_;
  Loss &loss_;
  std::string their_port_;
  ProtectionDomain domain_;
  std::vector<Cell> cells_;  ///< cells that the peer writes, for all links, and then cells to send, for all links
  MemoryRegion landing_;
  MemoryRegion staging_;
  std::vector<PathLink> links_;  ///< by channel; never moves
  QueuePair queue_pair_;
  uint32_t first_packet_ = 0;
  uint32_t requests_max_ = 0;
  uint32_t receives_ = 0;
  std::array<ibv_recv_wr, receives_per_post> receive_chain_{};
  uint32_t receives_used_ = 0;  ///< receive requests used up since the last post
  uint32_t inline_max_ = 0;
  uint64_t posted_ = 0;  ///< send requests so far
  uint64_t ended_ = 0;   ///< send requests that are known to have ended
  uint64_t signalled_ = 0;  ///< position of the last signalled request
  std::vector<uint64_t> signals_;  ///< positions of signalled requests: each covers all requests up to it
  uint64_t signals_first_ = 0;
  uint64_t signals_end_ = 0;
};

}  // namespace rondo::verbs
