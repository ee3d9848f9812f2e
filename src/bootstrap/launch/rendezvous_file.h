// SPDX-License-Identifier: Apache-2.0
// If the launcher offers no other way, rank 0 passes the address of its store to the other ranks of the job in a file.
// This class writes and reads that file.
//
// Place      DIRECTORY/rondo-UID/NAME-GENERATION. The directory has mode 0700 and belongs to this user; the file has
//            mode 0600. Any other mode or owner is refused, because the file contains the secret. The file is written
//            under another name and renamed, so readers see either no file or a whole one.
// Layout     unique id 128 | boot digest 16 | pid u32 | start ticks u64 | check 32 (BLAKE2b-256 over the 156 before).
// Staleness  A file is ignored if its writer is known to be dead: the boot digest is the same, and no process has that
//            pid and start time. Readers continue to wait, and rank 0 overwrites the file. A writer on another host
//            counts as alive.
// End        Rank 0 removes the file as soon as all ranks have arrived, or when it gives up.
#pragma once

#include <sys/types.h>

#include "src/base/cancel.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/bytes.h"

namespace rondo {

struct RendezvousRecord {
  rondo_unique_id_t id{};
  std::array<std::byte, 16> boot{};
  pid_t pid = 0;
  uint64_t start_ticks = 0;
};

[[nodiscard]] Bytes encode(const RendezvousRecord &record);
[[nodiscard]] std::optional<RendezvousRecord> decode_rendezvous(ByteView bytes);

class RendezvousFile {
 public:
  /// Opens the private directory below `directory`. If it does not exist, creates it.
  [[nodiscard]] static Result<RendezvousFile> open(const std::string &directory, const std::string &name);

  RendezvousFile(RendezvousFile &&) = default;
  RendezvousFile &operator=(RendezvousFile &&) = delete;
  RendezvousFile(const RendezvousFile &) = delete;
  RendezvousFile &operator=(const RendezvousFile &) = delete;
  ~RendezvousFile();  ///< removes the file that publish() wrote

  /// Writes the file, on rank 0. RONDO_ERROR_MISMATCH: another living process has published under this name.
  [[nodiscard]] Result<void> publish(const rondo_unique_id_t &id);

  /// Waits for a file whose writer lives. The ranks other than 0 call it.
  /// @param cancel  null, or an object that ends the wait with RONDO_ERROR_ABORTED.
  [[nodiscard]] Result<rondo_unique_id_t> wait(uint64_t deadline_ns, const Cancel *cancel = nullptr) const;

  /// Says whether the file exists and its writer is not known to be dead.
  [[nodiscard]] Result<bool> is_there() const;
  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  RendezvousFile(FileDescriptor directory, std::string path, std::string name)
      : directory_(std::move(directory)), path_(std::move(path)), name_(std::move(name)) {}

  /// Returns the file's content. Returns nothing if there is no file, it is damaged, or its writer is dead.
  [[nodiscard]] Result<std::optional<RendezvousRecord>> read() const;

  FileDescriptor directory_;
  std::string path_;  ///< of the file, for messages
  std::string name_;
  bool published_ = false;
};

}  // namespace rondo
