// SPDX-License-Identifier: Apache-2.0
// The bootstrap's network: the real sessions of the store's server and clients over simulated connections. These keep
// their own order, as TCP does, are late as the seed says, and a partition may cut them. The server runs in a fiber of
// rank 0.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "src/bootstrap/store/store.h"
#include "src/bootstrap/wire.h"
#include "tests/sim/scheduler.h"

namespace rondo {
class StoreHub;
}

namespace rondo::sim {

class Network {
 public:
  Network(Scheduler &scheduler, Random random);

  /// Cuts these ranks off from the others until `until_ns`; never_ns is for good. What is sent meanwhile arrives
  /// afterwards, as TCP would send it again.
  void cut(std::set<uint32_t> ranks, uint64_t until_ns);

  /// Runs the server's life, in a fiber of rank 0; ends after stop_server().
  void serve();
  void stop_server();
  /// Ends rank 0's process: its clients see their connections close.
  void server_died();
  /// Ends that rank's process: the server sees its connections close.
  void client_died(uint32_t rank);
  [[nodiscard]] bool listening() const { return listening_; }

  /// Connects as connect_store() does, over this network, as `rank` of `rank_count`.
  [[nodiscard]] Result<std::unique_ptr<Store>> connect(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns);

 private:
  friend class SimStore;

  /// One direction of a connection.
  struct Pipe {
    std::deque<std::pair<uint64_t, Bytes>> flying;  ///< when it arrives, what
    uint64_t last_ns = 0;
    bool closed = false;  ///< by its writer; seen after what flies
    uint64_t closed_ns = 0;
  };
  struct Connection {
    uint32_t rank = 0;
    uint64_t arrives_ns = 0;
    uint64_t number = 0;  ///< the hub's, or 0 before it is accepted
    bool over = false;
    uint32_t bell = 0;  ///< changes when something comes for the client
    Pipe up;    ///< to the server
    Pipe down;  ///< to the client
  };

  [[nodiscard]] uint64_t latency_ns();
  [[nodiscard]] uint64_t arrival_ns(const Connection &connection, const Pipe &pipe);
  void send(const std::shared_ptr<Connection> &connection, bool up, ByteView bytes);
  void close(const std::shared_ptr<Connection> &connection, bool up);
  void ring_at(uint64_t when_ns, const std::shared_ptr<Connection> &connection, bool up);
  /// Returns what has arrived; `closed` is set once the end has.
  [[nodiscard]] Bytes receive(Pipe &pipe, bool &closed);
  void serve_once(StoreHub &hub);
  [[nodiscard]] wire::Challenge challenge();

  Scheduler &scheduler_;
  Random random_;
  Secret secret_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::set<uint32_t> cut_;
  uint64_t cut_until_ns_ = 0;
  uint32_t bell_ = 0;  ///< changes when something comes for the server
  bool listening_ = false;
  bool stopping_ = false;
  bool was_there_ = false;
};

}  // namespace rondo::sim
