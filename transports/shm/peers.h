// SPDX-License-Identifier: Apache-2.0
// This file shows an executor the other ranks of its host: payloads to read in place, buffers
// to write, bells, and which ranks are alive.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/base/kernel_file.h"
#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/links/remote_memory.h"
#include "src/memory/region.h"
#include "src/proto/peer_access.h"
#include "transports/shm/segment.h"

namespace rondo::shm {

/// Regions of other processes that this rank has mapped. Their number is bounded: a new one replaces the least recently
/// used one.
class MappingCache {
 public:
  static constexpr size_t entry_count_max = 128;

  /// Returns where this process has mapped the region that process `process` exported as `exported`. Returns null if
  /// the region cannot be mapped, or if its descriptor now belongs to another file. `device` is the device number of
  /// all memfds.
  [[nodiscard]] const std::byte *find(int process, const SlotHeader &exported, uint64_t device);
  /// Returns for the latest find() what PeerAccess::own_shortage() describes.
  [[nodiscard]] int own_shortage() const { return own_shortage_; }

 private:
  struct Key {
    int process;
    uint32_t region;
    uint64_t inode;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &key) const {
      return (key.inode ^ uint64_t{key.region} << 32) * 0x9E37'79B9'7F4A'7C15u ^ static_cast<size_t>(key.process);
    }
  };
  struct Entry {
    Mapping mapping;
    uint64_t last_use = 0;
  };
  void evict_one();
  const std::byte *fail(int error_number);

  std::unordered_map<Key, Entry, Hash> entries_;
  uint64_t use_ = 0;
  int own_shortage_ = 0;
};

/// The process of a rank whose buffer open_remote_memory() opens.
struct MemoryOwner {
  int process = 0;
  bool same_process = false;
  uint64_t device = 0;  ///< device number of all memfds
  uint32_t kinds = 0;   ///< kinds of the rank's buffers that this process can reach, as bits of PayloadKind
};

/// Opens a buffer of another rank for writing. RONDO_ERROR_UNSUPPORTED: this process cannot write to that buffer. The
/// message has the reason.
[[nodiscard]] Result<std::shared_ptr<const RemoteMemory>> open_remote_memory(const MemoryOwner &owner,
                                                                             const MemoryPlace &place);

class ShmPeers final : public PeerAccess {
 public:
  /// Opens a handle on each other process. Every rank's board must be filled in.
  [[nodiscard]] static Result<std::unique_ptr<ShmPeers>> create(std::shared_ptr<Segment> segment, uint32_t rank);

  [[nodiscard]] const std::byte *import_payload(uint32_t peer, const SlotHeader &header, std::byte *scratch) override;
  [[nodiscard]] int own_shortage() const override { return mappings_.own_shortage(); }
  void wake(uint32_t peer) override { ring(segment_->board(peer)); }
  [[nodiscard]] uint32_t prepare_sleep() override { return shm::prepare_sleep(segment_->board(rank_)); }
  void sleep(uint32_t ticket, uint64_t timeout_ns) override { shm::sleep(segment_->board(rank_), ticket, timeout_ns); }
  void cancel_sleep() override { shm::cancel_sleep(segment_->board(rank_)); }
  [[nodiscard]] bool shares_processor() override;

  /// Tests which kinds of exported buffers of `peer` this rank can read. Returns these kinds as bits of PayloadKind.
  [[nodiscard]] uint32_t readable_kinds(uint32_t peer, bool try_mapping, bool try_cross_memory);
  /// Describes the process of a rank for open_remote_memory().
  [[nodiscard]] MemoryOwner owner_of(uint32_t peer, uint32_t kinds) const {
    return {peers_[peer].process, peers_[peer].same_process, file_.device, kinds};
  }
  /// Returns the ranks whose processes have ended, or run another program since exec(). It takes a few system calls for
  /// each process.
  [[nodiscard]] std::vector<uint32_t> find_dead() const;
  /// Returns what Ranks::process_handles() describes.
  [[nodiscard]] std::vector<int> process_handles() const;

 private:
  struct Peer {
    int process = 0;
    bool same_process = false;
    FileDescriptor process_handle;  ///< none if the kernel has no process handles, or a filter refuses them
    uint64_t start_ticks = 0;       ///< start of the process, if there is no handle; 0 if unknown
  };
  [[nodiscard]] bool has_ended(const Peer &peer) const;
  [[nodiscard]] bool has_let_go(const Peer &peer, const RankBoard &board) const;
  ShmPeers(std::shared_ptr<Segment> segment, uint32_t rank)
      : segment_(std::move(segment)), rank_(rank), file_(identify(segment_->descriptor())) {}

  std::shared_ptr<Segment> segment_;
  uint32_t rank_;
  FileIdentity file_;  ///< identity of the segment's file
  const bool proc_has_own_numbers_ = proc_has_own_numbers();
  std::vector<Peer> peers_;
  MappingCache mappings_;
};

}  // namespace rondo::shm
