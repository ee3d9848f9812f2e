// SPDX-License-Identifier: Apache-2.0
#include "src/api/group.h"

#include <algorithm>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/api/boundary.h"
#include "src/api/lookup.h"
#include "src/base/start_thread.h"
#include "src/core/host_event.h"

namespace rondo::group {

/// The calls of a group on one communicator.
struct Part {
  rondo_comm_t handle = nullptr;
  std::shared_ptr<Communicator> comm;
  std::vector<Call> calls;
  std::vector<Message> messages;
  std::vector<OneSided> sends;  ///< puts and signals
  std::vector<OneSided> waits;  ///< waits for signals
  bool has_own_messages = false;  ///< true if the rank sends messages to itself
  std::vector<rondo_stream_t> streams;  ///< each stream once, in the order of the calls; null for the caller's thread
  std::vector<std::unique_ptr<size_t[]>> counts;  ///< copies of the calls' counts and displacements
  // The end of the group sets these two:
  std::vector<std::shared_ptr<HostStream>> held;  ///< the objects of `streams`; null stands for the call itself
  StreamRef lead;                                 ///< the stream on which the part runs

  /// Returns whether every call of the part runs in the caller's thread, on no stream.
  [[nodiscard]] bool has_no_stream() const { return streams.size() == 1 && streams.front() == nullptr; }

  /// Empties the part, but keeps its memory for the next group.
  void clear() {
    handle = nullptr;
    comm.reset();
    calls.clear();
    messages.clear();
    sends.clear();
    waits.clear();
    has_own_messages = false;
    streams.clear();
    counts.clear();
    held.clear();
    lead = {};
  }
};

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

/// Checks the messages of this rank to itself. Each send needs a receive of the same size in the group.
Result<void> check_own_messages(const Part &part) {
  if (!part.has_own_messages) return {};
  std::vector<uint64_t> sent, received;
  for (const Message &message : part.messages)
    if (message.peer == part.comm->rank()) (message.sends ? sent : received).push_back(message.bytes);
  if (sent == received) return {};
  const std::string rank = std::to_string(part.comm->rank());
  if (sent.size() != received.size())
    return Error{RONDO_ERROR_INVALID_USAGE, "rank " + rank + " sends itself " + std::to_string(sent.size()) +
                                                " messages in the group and receives " +
                                                std::to_string(received.size()) +
                                                " of itself; put both ends of each into one group"};
  const auto parted = std::mismatch(sent.begin(), sent.end(), received.begin()).first;
  const auto differs = static_cast<size_t>(parted - sent.begin());
  return Error{RONDO_ERROR_INVALID_USAGE,
               "message " + std::to_string(differs + 1) + " of the group from rank " + rank + " to itself is sent as " +
                   std::to_string(sent[differs]) + " bytes and received as " + std::to_string(received[differs]) +
                   " bytes; give both ends the same size"};
}

Result<StreamRef> stream_ref(rondo_stream_t stream, std::shared_ptr<HostStream> &held) {
  if (stream == nullptr || !decode_handle(stream)) return StreamRef{nullptr, stream};
  RONDO_TRY_ASSIGN(held, stream_of(stream));
  return StreamRef{held.get(), nullptr};
}

/// Finds the streams of a part, and checks the part except its plans, before any part runs. If it is the only part,
/// submit() checks the communicator. One-sided operations are checked here, because they are submitted by themselves.
Result<void> check(Part &part, bool alone) {
  if (part.comm->is_closed()) return invalid_handle(HandleKind::communicator, part.handle);
  RONDO_TRY(check_own_messages(part));
  RONDO_TRY(part.comm->check_count(part.messages));
  if (alone && part.has_no_stream() && part.waits.empty()) return {};
  // On host memory, null makes all calls run within rondo_group_end(). So null goes first and becomes `lead`.
  const auto null = std::find(part.streams.begin(), part.streams.end(), nullptr);
  if (part.comm->capabilities().runs_in_call && null != part.streams.end()) std::iter_swap(null, part.streams.begin());
  uint64_t capture = 0;  // of the lead
  for (const rondo_stream_t stream : part.streams) {
    std::shared_ptr<HostStream> held;
    RONDO_TRY_ASSIGN(const StreamRef found, stream_ref(stream, held));
    if (!part.held.empty()) {
      RONDO_TRY(part.comm->check_joined(found, capture));
    } else {
      part.lead = found;
      // A captured stream is refused here. Otherwise it would capture the other calls without the one-sided operations.
      if (!part.sends.empty() || !part.waits.empty()) RONDO_TRY(part.comm->check_one_sided(part.waits, found));
      if (!alone || part.streams.size() > 1) {
        RONDO_TRY_ASSIGN(capture, part.comm->check_usable(found));
      }
    }
    part.held.push_back(std::move(held));
  }
  return {};
}

/// Makes later operations on `behind` wait until the operations that `before` has now are complete.
Result<void> join(const Part &part, StreamRef before, StreamRef behind) {
  if (!part.comm->capabilities().runs_in_call) return part.comm->join_streams(before, behind);
  const auto event = std::make_shared<HostEvent>();
  RONDO_TRY(event->record(before.host));
  return event->hold(behind.host);
}

/// Returns a stream of the part, which check() has found.
StreamRef stream_at(const Part &part, size_t index) {
  return part.held[index] ? StreamRef{part.held[index].get(), nullptr} : StreamRef{nullptr, part.streams[index]};
}

/// Submits the operations of a part. Puts and signals go first, and waits last, so that their order among the other
/// calls of the group cannot make ranks wait for each other.
Result<void> submit(const Part &part) {
  if (!part.sends.empty()) {
    RONDO_TRY(part.comm->prepare(part.calls));  // so that no put runs if a later call is refused
    RONDO_TRY(part.comm->submit(part.sends, part.lead));
  }
  if (!part.calls.empty() || !part.messages.empty())
    RONDO_TRY(part.comm->submit(part.calls, part.messages, part.lead));
  return part.waits.empty() ? Result<void>() : part.comm->submit(part.waits, part.lead);
}

bool runs_in_call(const Part &part) { return part.lead.none() && part.comm->capabilities().runs_in_call; }

Result<void> join_before(const Part &part) {
  for (size_t other = 1; other < part.held.size(); ++other) RONDO_TRY(join(part, stream_at(part, other), part.lead));
  return {};
}

Result<void> join_after(const Part &part) {
  for (size_t other = 1; other < part.held.size() && !runs_in_call(part); ++other)
    RONDO_TRY(join(part, part.lead, stream_at(part, other)));
  return {};
}

Result<void> run_safely(const Part &part, Result<void> (*step)(const Part &)) noexcept {
  try {
    return step(part);
  } catch (const std::exception &) {
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
  }
}

/// Runs a part alone. Its streams also wait for what was enqueued before a failure.
Result<void> run(const Part &part) noexcept {
  RONDO_TRY(run_safely(part, join_before));
  Result<void> done = run_safely(part, submit), joined = run_safely(part, join_after);
  return done.ok() ? std::move(joined) : std::move(done);
}

/// Threads that each run one part. They wait for release() before they run it. So if one thread cannot start, no part
/// has begun.
class Helpers {
 public:
  explicit Helpers(size_t count) : results_(count), released_(go_.get_future().share()) { threads_.reserve(count); }
  ~Helpers() { release(false); }
  Helpers(const Helpers &) = delete;
  Helpers &operator=(const Helpers &) = delete;

  Result<void> start(const Part &part) {
    Result<void> &result = results_[threads_.size()];
    RONDO_TRY_ASSIGN(auto thread, start_thread("a further communicator of a group", [&part, &result, go = released_] {
      if (go.get()) result = run(part);
    }));
    threads_.push_back(std::move(thread));
    return {};
  }
  /// Lets the threads run their parts if `runs`, or end without running them.
  void release(bool runs) {
    if (!is_released_) go_.set_value(runs);
    is_released_ = true;
    if (!runs) join();
  }
  /// Waits until all threads have ended, and returns their results.
  std::span<Result<void>> join() {
    for (std::thread &thread : threads_)
      if (thread.joinable()) thread.join();
    return results_;
  }

 private:
  std::vector<Result<void>> results_;
  std::promise<bool> go_;
  std::shared_future<bool> released_;
  std::vector<std::thread> threads_;
  bool is_released_ = false;
};

/// Runs all parts. First it enqueues the parts that have a stream. The other parts run at the same time, so that no
/// part waits for another. The last part runs in this thread, each other one in a new thread. All streams are joined
/// before the first part and after the last one, since two communicators may have the same streams in another order.
Result<void> run_all(std::span<const Part> all) {
  Result<void> first;
  const auto note = [&](Result<void> result) {
    if (first.ok() && !result.ok()) first = std::move(result);
  };
  const Part *last = nullptr;
  Helpers helpers(all.size());
  for (const Part &part : all) {
    if (!runs_in_call(part)) continue;
    if (last != nullptr) RONDO_TRY(helpers.start(*last));
    last = &part;
  }
  for (const auto step : {join_before, submit, join_after}) {
    for (const Part &part : all)
      if (!runs_in_call(part)) note(run_safely(part, step));
    if (step == join_before && !first.ok()) return first;  // nothing is enqueued
  }
  helpers.release(true);
  if (last != nullptr) note(run(*last));
  for (Result<void> &result : helpers.join()) note(std::move(result));
  return first;
}

Error no_group(const char *function) {
  return {RONDO_ERROR_INVALID_USAGE,
          std::string(function) + ": this thread has no group; call rondo_group_begin before it"};
}

/// Checks all parts before any part runs. submit() itself prepares a single part.
Result<void> check_all(std::span<Part> parts) {
  const bool alone = parts.size() == 1;
  for (Part &part : parts) RONDO_TRY(check(part, alone));
  if (alone) return {};
  for (const Part &part : parts) RONDO_TRY(part.comm->prepare(part.calls));
  return {};
}

Result<void> run(Group &group) {
  if (group.refusal) return *std::move(group.refusal);
  const auto parts = group.parts();
  Result<void> done = check_all(parts);
  if (done.ok()) done = parts.size() == 1 ? run(parts.front()) : run_all(parts);
  for (const Part &part : parts)
    if (!done.ok()) part.comm->forget_stream();
  return done;
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
  Result<void> result = run(*group);
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
