// SPDX-License-Identifier: Apache-2.0
// This file simulates the bootstrap's network. The store's server and clients are the real sessions, over simulated
// connections. Like a TCP connection, each keeps its order. Delays come from the seed, and a partition may cut
// connections. The server runs in a fiber of rank 0.
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

  /// Separates these ranks from the others until `until_ns`, or for good with never_ns. Data sent meanwhile arrives
  /// after that, as TCP would send it again.
  void cut(std::set<uint32_t> ranks, uint64_t until_ns);

  /// Runs the server, in a fiber of rank 0, until stop_server().
  void serve();
  void stop_server();
  /// Ends rank 0's process. The server's clients see their connections close.
  void server_died();
  /// Ends the process of that rank. The server sees its connections close.
  void client_died(uint32_t rank);
  [[nodiscard]] bool listening() const { return listening_; }

  /// Connects like connect_store(), over this network, as `rank` of `rank_count`.
  [[nodiscard]] Result<std::unique_ptr<Store>> connect(uint32_t rank, uint32_t rank_count, uint64_t deadline_ns);

 private:
  friend class SimStore;

  /// One direction of a connection.
  struct Pipe {
    std::deque<std::pair<uint64_t, Bytes>> flying;  ///< data in flight, with its time of arrival
    uint64_t last_ns = 0;
    bool closed = false;  ///< by its writer; seen after the data in flight
    uint64_t closed_ns = 0;
  };
  struct Connection {
    uint32_t rank = 0;
    uint64_t arrives_ns = 0;
    uint64_t number = 0;  ///< number in the hub, or 0 before it is accepted
    bool over = false;
    uint32_t bell = 0;  ///< changes when something arrives for the client
    Pipe up;    ///< to the server
    Pipe down;  ///< to the client
  };

  [[nodiscard]] uint64_t latency_ns();
  [[nodiscard]] uint64_t arrival_ns(const Connection &connection, const Pipe &pipe);
  void send(const std::shared_ptr<Connection> &connection, bool up, ByteView bytes);
  void close(const std::shared_ptr<Connection> &connection, bool up);
  void ring_at(uint64_t when_ns, const std::shared_ptr<Connection> &connection, bool up);
  /// Returns the data that has arrived. Sets `closed` after the end of the connection has arrived.
  [[nodiscard]] Bytes receive(Pipe &pipe, bool &closed);
  void serve_once(StoreHub &hub);
  [[nodiscard]] wire::Challenge challenge();

  Scheduler &scheduler_;
  Random random_;
  Secret secret_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::set<uint32_t> cut_;
  uint64_t cut_until_ns_ = 0;
  uint32_t bell_ = 0;  ///< changes when something arrives for the server
  bool listening_ = false;
  bool stopping_ = false;
  bool was_there_ = false;
};

}  // namespace rondo::sim
