// SPDX-License-Identifier: Apache-2.0
// This file implements the rendezvous file.
#include "src/bootstrap/launch/rendezvous_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "src/base/clock.h"
#include "src/bootstrap/launch/process_info.h"

namespace rondo {
namespace {

constexpr size_t record_checked_bytes = RONDO_UNIQUE_ID_BYTES + 16 + 4 + 8;
constexpr size_t record_bytes = record_checked_bytes + 32;
constexpr uint64_t file_poll_ns = 5'000'000;

std::array<std::byte, 32> record_check_of(ByteView bytes) {
  std::array<std::byte, 32> out;
  crypto_generichash(raw(out.data()), out.size(), raw(bytes.data()), bytes.size(), nullptr, 0);
  return out;
}

/// Says whether the writer lives. A zombie process counts as alive. Without a usable /proc on either side, the process
/// number alone decides.
bool writer_lives(const RendezvousRecord &record) {
  if (record.boot != boot_digest()) return true;
  const auto stat = record.start_ticks != 0 ? process_stat(record.pid) : std::nullopt;
  if (stat) return stat->start_ticks == record.start_ticks;
  return ::kill(record.pid, 0) == 0 || errno != ESRCH;
}

Error unsafe(const std::string &path, const std::string &why) {
  return {RONDO_ERROR_SYSTEM, "rendezvous: " + path + " " + why +
                                  "; remove it, or set RONDO_RENDEZVOUS_DIR to a directory of your own"};
}

}  // namespace

Bytes encode(const RendezvousRecord &record) {
  Bytes out;
  append_bytes(out, std::as_bytes(std::span(record.id.internal)));
  append_bytes(out, record.boot);
  append_number(out, static_cast<uint32_t>(record.pid));
  append_number(out, record.start_ticks);
  append_bytes(out, record_check_of(out));
  return out;
}

std::optional<RendezvousRecord> decode_rendezvous(ByteView bytes) {
  if (bytes.size() != record_bytes) return std::nullopt;
  const auto check = record_check_of(bytes.first(record_checked_bytes));
  if (!std::ranges::equal(check, bytes.subspan(record_checked_bytes))) return std::nullopt;
  ByteReader in(bytes);
  RendezvousRecord record;
  const ByteView id = in.bytes(sizeof record.id.internal);
  std::memcpy(record.id.internal, id.data(), id.size());
  std::ranges::copy(in.bytes(record.boot.size()), record.boot.begin());
  const auto pid = in.number<uint32_t>();
  record.start_ticks = in.number<uint64_t>();
  if (pid == 0 || pid > 0x7fff'ffff) return std::nullopt;
  record.pid = static_cast<pid_t>(pid);
  return record;
}

Result<RendezvousFile> RendezvousFile::open(const std::string &directory, const std::string &name) {
  const uid_t user = ::geteuid();
  const std::string path = directory + "/rondo-" + std::to_string(user);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error("make the rendezvous directory " + path + " (RONDO_RENDEZVOUS_DIR chooses where)", errno);
  FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid()) return unsafe(path, "is not a directory that can be opened (" + std::to_string(errno) + ")");
  struct stat info {};
  if (::fstat(opened.get(), &info) != 0) return system_error("fstat of " + path, errno);
  if (info.st_uid != user) return unsafe(path, "belongs to user " + std::to_string(info.st_uid));
  if ((info.st_mode & 077) != 0) return unsafe(path, "is open to other users (its mode must be 0700)");
  return RendezvousFile(std::move(opened), path + "/" + name, name);
}

RendezvousFile::~RendezvousFile() {
  if (directory_.valid() && published_) ::unlinkat(directory_.get(), name_.c_str(), 0);
}

Result<std::optional<RendezvousRecord>> RendezvousFile::read() const {
  std::optional<RendezvousRecord> nothing;
  FileDescriptor file(
      ::openat(directory_.get(), name_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT) return nothing;
    return system_error("rendezvous: open " + path_, errno);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error("rendezvous: fstat of " + path_, errno);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0)
    return unsafe(path_, "is not a private file of this user");
  std::array<std::byte, record_bytes + 1> buffer;
  const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  if (count < 0) return system_error("rendezvous: read " + path_, errno);
  file.reset();  // frees its descriptor, because reading /proc needs one
  auto record = decode_rendezvous(ByteView(buffer).first(static_cast<size_t>(count)));
  if (!record || !writer_lives(*record)) return nothing;
  return record;
}

Result<void> RendezvousFile::publish(const rondo_unique_id_t &id) {
  RONDO_TRY_ASSIGN(const std::optional<RendezvousRecord> earlier, read());
  const pid_t self = ::getpid();
  const auto boot = boot_digest();
  if (earlier && earlier->boot == boot && earlier->pid != self)
    return Error{RONDO_ERROR_MISMATCH, "rendezvous: process " + std::to_string(earlier->pid) +
                                           " already says that it is rank 0 of this job (" + path_ + ")"};
  const auto stat = process_stat(self);
  const Bytes bytes = encode(RendezvousRecord{id, boot, self, stat ? stat->start_ticks : 0});
  const std::string draft = name_ + ".draft-" + std::to_string(self);
  ::unlinkat(directory_.get(), draft.c_str(), 0);
  const FileDescriptor file(
      ::openat(directory_.get(), draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return system_error("rendezvous: make " + path_, errno);
  const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
  const bool written = count == static_cast<ssize_t>(bytes.size());
  if (!written || ::renameat(directory_.get(), draft.c_str(), directory_.get(), name_.c_str()) != 0) {
    const Error error = system_error("rendezvous: write " + path_, count < 0 || written ? errno : ENOSPC);
    ::unlinkat(directory_.get(), draft.c_str(), 0);
    return error;
  }
  published_ = true;
  return {};
}

Result<rondo_unique_id_t> RendezvousFile::wait(uint64_t deadline_ns, const Cancel *cancel) const {
  while (true) {  // ends at the deadline
    RONDO_TRY_ASSIGN(const std::optional<RendezvousRecord> record, read());
    if (record) return record->id;
    if (cancel != nullptr && cancel->requested())
      return Error{RONDO_ERROR_ABORTED, "it was aborted here while it waited for " + path_};
    const uint64_t now = now_ns();
    if (now >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT,
                   "rendezvous: rank 0 did not write its address in time; check that it was started and that all ranks "
                   "share the folder (file: " +
                       path_ + ")",
                   -1, 0};
    sleep_for_ns(std::min(file_poll_ns, deadline_ns - now));
  }
}

Result<bool> RendezvousFile::is_there() const {
  RONDO_TRY_ASSIGN(const std::optional<RendezvousRecord> record, read());
  return record.has_value();
}

}  // namespace rondo
