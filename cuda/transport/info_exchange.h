// SPDX-License-Identifier: Apache-2.0
// Ranks on devices use this class while they connect. Through it they exchange infos in the store, and pass descriptors
// to each other. Only code in cuda/ includes it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/bootstrap/fd_channel.h"
#include "src/bootstrap/store/store.h"

namespace rondo::cuda {

// The ranks exchange these infos in this order.
inline constexpr char placement_key[] = "/cuda-placement";  ///< PlacementInfo
inline constexpr char reach_key[] = "/cuda-reach";          ///< PeerReach of each rank, on several devices
inline constexpr char peers_key[] = "/cuda-peers";          ///< ChannelCounts, if ranks must agree on them
inline constexpr char host_links_key[] = "/cuda-host-links";  ///< a file, if devices do not reach each other
inline constexpr char segment_key[] = "/cuda";              ///< SegmentInfo
inline constexpr char regions_key[] = "/cuda-regions";      ///< a file, if ranks share buffers by regions
inline constexpr char flags_key[] = "/cuda-flags";          ///< a file, of the copy-engine executor
inline constexpr char connected_key[] = "/cuda-connected";  ///< nothing but whether all went well

/// Returns an error such as "opening the memory of rank 3: ...", with the rank as the peer.
[[nodiscard]] inline Error about_rank(uint32_t peer, const std::string &what, const Error &cause) {
  Error error{cause.status, what + " of rank " + std::to_string(peer) + ": " + cause.message};
  error.peer = static_cast<int32_t>(peer);
  return error;
}

class InfoExchange {
 public:
  InfoExchange(Store &store, std::string key_prefix, uint32_t rank, uint32_t rank_count, uint64_t deadline_ns)
      : store_(store), prefix_(std::move(key_prefix)), rank_(rank), count_(rank_count), deadline_ns_(deadline_ns) {}

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t rank_count() const { return count_; }

  /// Returns the infos of all ranks in rank order, or the error of gather_outcomes().
  template <class Info>
  [[nodiscard]] Result<std::vector<Info>> infos(const char *key, const Info &own) {
    const auto bytes = std::as_bytes(std::span(&own, 1));
    RONDO_TRY_ASSIGN(const auto parts, gather(key, Bytes(bytes.begin(), bytes.end())));
    return structs_of<Info>(parts);
  }
  /// Returns the bytes of all ranks in rank order, or the error of gather_outcomes().
  [[nodiscard]] Result<std::vector<Bytes>> parts(const char *key, Bytes own) { return gather(key, std::move(own)); }
  /// Returns success if all ranks have succeeded so far, or the error of gather_outcomes().
  [[nodiscard]] Result<void> outcome(const char *key, const Result<void> &own) {
    return check_outcomes(store_, prefix_ + key, rank_, count_, own, deadline_ns_);
  }

  /// Keeps memory that other ranks may still open, until all ranks know the outcome of connecting.
  void hold(std::shared_ptr<const void> memory) { held_.push_back(std::move(memory)); }
  /// Returns a ticket, with which a process can take `descriptor` as long as this object lives.
  [[nodiscard]] Result<FdTicket> offer(FileDescriptor descriptor) {
    RONDO_TRY_ASSIGN(auto made, FdOffer::make(std::move(descriptor), deadline_ns_));
    offers_.push_back(std::move(made));
    return offers_.back()->ticket();
  }
  [[nodiscard]] Result<FileDescriptor> take(const FdTicket &ticket) const {
    return take_descriptor(ticket, deadline_ns_, [this] { return store_.check(); });
  }

 private:
  [[nodiscard]] Result<std::vector<Bytes>> gather(const char *key, const Result<Bytes> &own) {
    return gather_outcomes(store_, prefix_ + key, rank_, count_, own, deadline_ns_);
  }

  Store &store_;
  std::string prefix_;
  uint32_t rank_, count_;
  uint64_t deadline_ns_;
  std::vector<std::unique_ptr<FdOffer>> offers_;
  std::vector<std::shared_ptr<const void>> held_;
};

}  // namespace rondo::cuda
