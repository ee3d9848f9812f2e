// SPDX-License-Identifier: Apache-2.0
// This file takes arriving messages. It checks the sender, and that the message fits the state of its link, and moves
// the payload into its slot. What a peer sends never decides where it is written.
#pragma once

#include <memory>
#include <vector>

#include "transports/ucx/link.h"
#include "transports/ucx/worker.h"

namespace rondo::ucx {

class Receiver {
 public:
  /// Keeps references to both arguments, which must outlive it.
  Receiver(const Worker &worker, const std::vector<std::unique_ptr<Peer>> &peers) : worker_(worker), peers_(peers) {}
  /// Makes UCX pass messages on from now on, in Worker::progress().
  [[nodiscard]] Result<void> listen();

 private:
  static ucs_status_t on_hello(void *self, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *how);
  static ucs_status_t on_message(void *self, const void *header, size_t header_bytes, void *data, size_t bytes,
                                 const ucp_am_recv_param_t *how);
  static void on_greeting_fetched(void *, ucs_status_t status, size_t, void *peer);
  static void on_fetched(void *, ucs_status_t status, size_t, void *arrival);

  struct Incoming {
    Header header;
    void *data = nullptr;  ///< the payload, or UCX's descriptor of a rendezvous
    size_t bytes = 0;
    bool rendezvous = false;
  };
  ucs_status_t fetch_greeting(Peer &peer, void *data, size_t bytes);
  ucs_status_t take(Peer &peer, const Incoming &incoming);
  /// Returns what is wrong with the message, or null if the slot may be written.
  static const char *check_slot(const Link &link, const Header &header);
  void fetch(Link &link, Arrival &arrival, const Incoming &incoming);

  const Worker &worker_;
  const std::vector<std::unique_ptr<Peer>> &peers_;
};

}  // namespace rondo::ucx
