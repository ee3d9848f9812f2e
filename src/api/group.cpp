// SPDX-License-Identifier: Apache-2.0
#include "src/api/group.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/api/group_run.h"

namespace rondo::group {

class Group {
 public:
  uint32_t depth = 0;
  std::optional<Error> refusal;

  [[nodiscard]] std::span<Part> parts() { return {parts_.data(), count_}; }
  Part &add_part() {
    if (count_ == parts_.size()) parts_.emplace_back();
    return parts_[count_++];
  }
  /// Empties the group, but keeps its memory unless it is unusually large.
  void clear() {
    depth = 0;
    refusal.reset();
    if (parts_.size() > 1 || (count_ == 1 && parts_[0].messages.size() + parts_[0].calls.size() > kept_call_count))
      parts_.clear();
    else if (count_ == 1)
      parts_[0].clear();
    count_ = 0;
  }

 private:
  static constexpr size_t kept_call_count = 64;

  std::vector<Part> parts_;
  size_t count_ = 0;  ///< number of entries of parts_ that are in use
};

namespace {

/// The groups of a thread. The struct has no constructor or destructor, as a variable with either is slower to access.
struct Kept {
  Group *open = nullptr;
  Group *spare = nullptr;  ///< an empty group, whose memory the next group uses
};
constinit thread_local Kept kept;

/// Deletes the groups of a thread that ends.
struct Cleaner {
  ~Cleaner() {
    delete std::exchange(kept.open, nullptr);
    delete std::exchange(kept.spare, nullptr);
  }
};

Group *make_group() {
  static thread_local const Cleaner cleaner;
  static_cast<void>(cleaner);
  return new Group;
}

/// Empties a group that has ended, and keeps its memory for the thread's next group.
void give_back(std::unique_ptr<Group> group) {
  group->clear();
  if (kept.spare == nullptr) kept.spare = group.release();
}

/// Returns the part of `place`. Makes the part if there is none.
Part &part_of(const Place &place, rondo_comm_t handle, std::shared_ptr<Communicator> &&comm, rondo_stream_t stream) {
  Part &part = place.part != nullptr ? *place.part : place.group->add_part();
  if (place.part == nullptr) {
    part.handle = handle;
    part.comm = std::move(comm);
  }
  if (std::find(part.streams.begin(), part.streams.end(), stream) == part.streams.end()) part.streams.push_back(stream);
  return part;
}

const size_t *keep_counts(Part &part, const size_t *counts) {
  if (counts == nullptr) return nullptr;
  const uint32_t rank_count = part.comm->rank_count();
  auto copy = std::make_unique<size_t[]>(rank_count);
  std::copy_n(counts, rank_count, copy.get());
  return part.counts.emplace_back(std::move(copy)).get();
}

Error no_group(const char *function) {
  return {RONDO_ERROR_INVALID_USAGE,
          std::string(function) + ": this thread has no group; call rondo_group_begin before it"};
}

}  // namespace

bool is_open() noexcept { return kept.open != nullptr; }

Result<void> check_outside(const char *function) {
  if (!is_open()) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               std::string(function) + " cannot be part of a group; call it after rondo_group_end"};
}

void begin() {
  if (kept.open == nullptr) {
    Group *const spare = std::exchange(kept.spare, nullptr);
    kept.open = spare != nullptr ? spare : make_group();
  }
  ++kept.open->depth;
}

Result<void> end() {
  if (kept.open == nullptr) return no_group("rondo_group_end");
  if (--kept.open->depth != 0) return {};
  // The group is detached from the thread, because code that runs now may open groups itself.
  std::unique_ptr<Group> group(std::exchange(kept.open, nullptr));
  Result<void> result = group->refusal ? Result<void>(*group->refusal) : run_parts(group->parts());
  give_back(std::move(group));
  return result;
}

Result<void> cancel() {
  if (kept.open == nullptr) return no_group("rondo_group_cancel");
  delete std::exchange(kept.open, nullptr);
  return {};
}

Place find(rondo_comm_t handle) {
  Place place;
  place.group = kept.open;
  if (place.group == nullptr) return place;
  for (Part &part : place.group->parts())
    if (part.handle == handle) place.part = &part;
  if (place.part == nullptr) return place;
  place.comm = place.part->comm.get();
  place.has_messages = !place.part->messages.empty();
  return place;
}

Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Call &call,
                  rondo_stream_t stream) {
  Part &part = part_of(find(handle), handle, std::shared_ptr(comm), stream);
  Call copy = call;
  copy.counts = keep_counts(part, call.counts);
  copy.displacements = keep_counts(part, call.displacements);
  part.calls.push_back(std::move(copy));
  return {};
}

void keep(const Place &place, rondo_comm_t handle, std::shared_ptr<Communicator> &&comm, const Message &message,
          rondo_stream_t stream) {
  Part &part = part_of(place, handle, std::move(comm), stream);
  part.has_own_messages |= message.peer == part.comm->rank();
  part.messages.push_back(message);
}

void keep(const Place &place, rondo_comm_t handle, std::shared_ptr<Communicator> &&comm, const OneSided &operation,
          rondo_stream_t stream) {
  Part &part = part_of(place, handle, std::move(comm), stream);
  (operation.kind == OneSided::Kind::wait ? part.waits : part.sends).push_back(operation);
}

void refuse(const Error &error) {
  if (!kept.open->refusal) kept.open->refusal = error;
}

}  // namespace rondo::group
