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
namespace {

/// The calls of one communicator.
struct Part {
  rondo_comm_t handle = nullptr;
  std::shared_ptr<Communicator> comm;
  std::vector<Call> calls;
  std::vector<Message> messages;
  std::vector<rondo_stream_t> streams;  ///< each once, in the order of the calls; null: the call itself
  std::vector<std::unique_ptr<size_t[]>> counts;  ///< of calls
};

struct Group {
  uint32_t depth = 0;
  std::optional<Error> refusal;
  std::vector<Part> parts;
};

Group &own_group() {
  thread_local Group group;
  return group;
}

/// Beside the group, since a variable without a constructor costs less to look at.
thread_local bool open = false;

Part &part_of(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, rondo_stream_t stream) {
  std::vector<Part> &parts = own_group().parts;
  auto found = std::find_if(parts.begin(), parts.end(), [&](const Part &part) { return part.comm == comm; });
  if (found == parts.end()) {
    parts.emplace_back();
    found = std::prev(parts.end());
    found->handle = handle;
    found->comm = comm;
  }
  if (std::find(found->streams.begin(), found->streams.end(), stream) == found->streams.end())
    found->streams.push_back(stream);
  return *found;
}

const size_t *keep_counts(Part &part, const size_t *counts) {
  if (counts == nullptr) return nullptr;
  const uint32_t rank_count = part.comm->rank_count();
  auto copy = std::make_unique<size_t[]>(rank_count);
  std::copy_n(counts, rank_count, copy.get());
  return part.counts.emplace_back(std::move(copy)).get();
}

/// Messages to this rank itself have both ends in the group, of equal sizes.
Result<void> check_own_messages(const Part &part) {
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

/// A part with its streams found.
struct Ready {
  Part *part = nullptr;
  std::vector<std::shared_ptr<HostStream>> streams;  ///< null: the call itself
  StreamRef lead;                                    ///< on which it runs
};

/// Checks all but plans, before anything of any communicator runs.
Result<Ready> check(Part &part) {
  Ready ready;
  ready.part = &part;
  if (process().communicators.find(part.handle) != part.comm)
    return invalid_handle(HandleKind::communicator, part.handle);
  RONDO_TRY(check_own_messages(part));
  // Where one of several streams is the call itself, all runs in the call.
  const auto null = std::find(part.streams.begin(), part.streams.end(), nullptr);
  if (null != part.streams.end()) std::iter_swap(null, part.streams.begin());
  for (const rondo_stream_t stream : part.streams) {
    std::shared_ptr<HostStream> held;
    RONDO_TRY_ASSIGN(const StreamRef found, stream_ref(stream, held));
    if (part.streams.size() > 1 && found.device != nullptr)
      return Error{RONDO_ERROR_UNSUPPORTED,
                   "a group has calls of one communicator on several streams of a device; give all of them one stream"};
    RONDO_TRY(part.comm->check_usable(found));
    if (ready.streams.empty()) ready.lead = found;
    ready.streams.push_back(std::move(held));
  }
  return ready;
}

/// What is enqueued on `behind` from now on waits for what is enqueued on `before` by now.
Result<void> join(HostStream *before, HostStream *behind) {
  const auto event = std::make_shared<HostEvent>();
  RONDO_TRY(event->record(before));
  return event->hold(behind);
}

Result<void> run(const Ready &ready) {
  HostStream *const lead = ready.lead.host;
  for (size_t other = 1; other < ready.streams.size(); ++other) RONDO_TRY(join(ready.streams[other].get(), lead));
  RONDO_TRY(ready.part->comm->submit(ready.part->calls, ready.part->messages, ready.lead));
  if (lead == nullptr) return {};  // all of it is complete
  for (size_t other = 1; other < ready.streams.size(); ++other) RONDO_TRY(join(lead, ready.streams[other].get()));
  return {};
}

Result<void> run_safely(const Ready &ready) noexcept {
  try {
    return run(ready);
  } catch (const std::exception &) {
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
  }
}

/// Threads that each run one part. None of them runs before release(), so that nothing has begun if one cannot start.
class Helpers {
 public:
  explicit Helpers(size_t count) : results_(count), released_(go_.get_future().share()) { threads_.reserve(count); }
  ~Helpers() { release(false); }
  Helpers(const Helpers &) = delete;
  Helpers &operator=(const Helpers &) = delete;

  Result<void> start(const Ready &ready) {
    Result<void> &result = results_[threads_.size()];
    RONDO_TRY_ASSIGN(auto thread, start_thread("a further communicator of a group", [&ready, &result, go = released_] {
      if (go.get()) result = run_safely(ready);
    }));
    threads_.push_back(std::move(thread));
    return {};
  }
  /// Lets the threads run their parts, or end without.
  void release(bool runs) {
    if (!is_released_) go_.set_value(runs);
    is_released_ = true;
    if (!runs) join();
  }
  /// Waits for all of them. Returns their results.
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

bool runs_in_call(const Ready &ready) {
  return ready.lead.none() && ready.part->comm->capabilities().runs_in_call;
}

/// Enqueues parts first. Of those that run in the call, each but the last has a thread, so that none waits for another.
Result<void> run_all(const std::vector<Ready> &all) {
  Result<void> first;
  const auto note = [&](Result<void> result) {
    if (first.ok() && !result.ok()) first = std::move(result);
  };
  const Ready *last = nullptr;
  Helpers helpers(all.size());
  for (const Ready &ready : all) {
    if (!runs_in_call(ready)) continue;
    if (last != nullptr) RONDO_TRY(helpers.start(*last));
    last = &ready;
  }
  for (const Ready &ready : all)
    if (!runs_in_call(ready)) note(run_safely(ready));
  helpers.release(true);
  if (last != nullptr) note(run_safely(*last));
  for (Result<void> &result : helpers.join()) note(std::move(result));
  return first;
}

Error no_group(const char *function) {
  return {RONDO_ERROR_INVALID_USAGE,
          std::string(function) + ": this thread has no group; call rondo_group_begin before it"};
}

Group take() {
  open = false;
  return std::exchange(own_group(), Group{});
}

}  // namespace

bool is_open() noexcept { return open; }

void begin() {
  ++own_group().depth;
  open = true;
}

Result<void> end() {
  Group &own = own_group();
  if (own.depth == 0) return no_group("rondo_group_end");
  if (--own.depth != 0) return {};
  Group group = take();  // no longer this thread's: what runs may use groups itself
  if (group.refusal) return *std::move(group.refusal);
  std::vector<Ready> all;
  for (Part &part : group.parts) {
    RONDO_TRY_ASSIGN(auto ready, check(part));
    all.push_back(std::move(ready));
  }
  if (all.size() == 1) return run(all.front());  // submit() takes all of one communicator or nothing
  for (const Part &part : group.parts) RONDO_TRY(part.comm->prepare(part.calls));
  return run_all(all);
}

Result<void> cancel() {
  if (own_group().depth == 0) return no_group("rondo_group_cancel");
  static_cast<void>(take());
  return {};
}

Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Call &call,
                  rondo_stream_t stream) {
  Part &part = part_of(handle, comm, stream);
  Call kept = call;
  kept.counts = keep_counts(part, call.counts);
  kept.displacements = keep_counts(part, call.displacements);
  part.calls.push_back(kept);
  return {};
}

Result<void> keep(rondo_comm_t handle, const std::shared_ptr<Communicator> &comm, const Message &message,
                  rondo_stream_t stream) {
  part_of(handle, comm, stream).messages.push_back(message);
  return {};
}

void refuse(const Error &error) {
  Group &own = own_group();
  if (!own.refusal) own.refusal = error;
}

}  // namespace rondo::group
