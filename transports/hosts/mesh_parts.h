// SPDX-License-Identifier: Apache-2.0
// This file declares what both ends of a connection of the mesh share: the layout of the handshake, and how a socket
// joins the mesh. Only mesh.cpp and mesh_acceptor.cpp include it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/wire.h"
#include "transports/hosts/mesh.h"

namespace rondo::hosts {

inline constexpr uint32_t control_purpose = 0;  // 1 + i: socket i of data
[[nodiscard]] inline uint32_t purpose_count(const MeshRequest &request) { return 1 + request.data_sockets(); }
[[nodiscard]] inline uint32_t rail_of(const MeshRequest &request, uint32_t purpose) {
  return purpose == control_purpose ? 0 : (purpose - 1) % request.rail_count();
}

inline constexpr std::string_view mesh_magic = "RONDO\x03tm";
inline constexpr size_t hello_bytes = wire::magic_bytes + wire::challenge_bytes;
inline constexpr size_t answer_bytes = wire::challenge_bytes + wire::proof_bytes;
inline constexpr size_t claim_offset = wire::challenge_bytes - 8;  // rank u32 | purpose u32
inline constexpr uint64_t retry_ns = 20'000'000;

/// Returns how long a poll may take, in ms, before the caller checks the store and the deadline `until_ns` again.
[[nodiscard]] int poll_timeout_ms(uint64_t until_ns);
/// Returns the keys for both directions of a connection. This rank is the `own` end of the handshake.
[[nodiscard]] net::FrameKeys frame_keys(const MeshRequest &request, wire::Role own, const wire::Challenge &client,
                                        const wire::Challenge &server);
/// Adds a socket whose two ends have proved themselves.
void add_socket(const MeshRequest &request, Mesh &mesh, uint32_t peer, uint32_t purpose, FileDescriptor socket,
                const net::FrameKeys &keys);

/// A connection that has not proved itself yet.
struct Visitor {
  FileDescriptor socket;
  uint64_t came_ns = 0;
  Bytes input;
  wire::Challenge own;
  wire::Challenge theirs;
  bool answered = false;
};

/// Accepts the ranks with higher numbers on a thread of its own, so that they need not wait until this rank has
/// connected to all lower ranks.
class Acceptor {
 public:
  /// Keeps a reference to `request`. The endpoints of `mesh` must be known. `listeners` is indexed by rail.
  Acceptor(const MeshRequest &request, std::vector<FileDescriptor> listeners, const Mesh &mesh);
  Acceptor(const Acceptor &) = delete;
  Acceptor &operator=(const Acceptor &) = delete;
  ~Acceptor();
  [[nodiscard]] Result<void> start();
  /// Waits until every remote rank with a higher number has connected for each purpose. Adds these connections to
  /// `mesh`.
  [[nodiscard]] Result<void> finish(Mesh &mesh, Store &store);

 private:
  Result<void> run();
  void wait();
  Result<void> accept_all(const FileDescriptor &listener);
  bool admit(Visitor &visitor);
  [[nodiscard]] Error name_missing() const;

  const MeshRequest &request_;
  const std::vector<FileDescriptor> listeners_;  ///< by rail
  const uint32_t purpose_count_;
  size_t missing_ = 0;  ///< connections that ranks have yet to make
  uint64_t accept_again_ns_ = 0;
  std::vector<Visitor> visitors_;
  std::vector<bool> came_;  ///< whether a rank has connected, by rank * purpose_count_ + purpose
  Mesh mesh_;
  std::atomic<bool> stopped_{false};  ///< relaxed: it orders no other data
  std::mutex mutex_;                  ///< protects result_
  std::condition_variable ended_;
  std::optional<Result<void>> result_;
  std::thread thread_;  ///< last, because it uses the other members
};

}  // namespace rondo::hosts
