// SPDX-License-Identifier: Apache-2.0
// Takes the messages that arrive, checks their sender and that they fit their link's state, and brings payloads into
// their slots. What a peer sends never decides where it is written.
#pragma once

#include <memory>
#include <vector>

#include "transports/ucx/link.h"
#include "transports/ucx/worker.h"

namespace rondo::ucx {

class Receiver {
 public:
  /// Keeps references to both, which outlive it.
  Receiver(const Worker &worker, const std::vector<std::unique_ptr<Peer>> &peers) : worker_(worker), peers_(peers) {}
  /// Lets UCX hand messages over from now on, from Worker::progress().
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
    void *data = nullptr;  ///< of a rendezvous: UCX's descriptor
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
