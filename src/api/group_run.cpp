// SPDX-License-Identifier: Apache-2.0
#include "src/api/group_run.h"

#include <algorithm>
#include <exception>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "src/api/lookup.h"
#include "src/base/start_thread.h"
#include "src/core/host_event.h"

namespace rondo::group {
namespace {

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
  return Error{RONDO_ERROR_INVALID_USAGE, "message " + std::to_string(differs + 1) + " of the group from rank " + rank +
                                              " to itself is sent as " + std::to_string(sent[differs]) +
                                              " bytes and received as " + std::to_string(received[differs]) +
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
  if (!part.calls.empty() || !part.messages.empty()) RONDO_TRY(part.comm->submit(part.calls, part.messages, part.lead));
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

template <class Subject>
Result<void> run_safely(Subject &subject, Result<void> (*step)(Subject &)) noexcept {
  try {
    return step(subject);
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

/// The parts with one stream, which are submitted one after the other.
struct Queue {
  std::vector<const Part *> parts;
  size_t part = 0;   ///< parts that are submitted
  size_t calls = 0;  ///< calls of the next part that are submitted

  [[nodiscard]] bool takes(const Part &other) const {
    const Part &own = *parts.front();
    return own.lead.host == other.lead.host && own.lead.device == other.lead.device &&
           own.comm->settings().device == other.comm->settings().device;
  }
  [[nodiscard]] bool is_done() const { return part == parts.size(); }
};

/// Submits the next call of a queue. With the last call of a part, submits its other operations, as submit() does. If
/// that fails, the rest of the part is left out.
Result<void> submit_next(Queue &queue) {
  const Part &part = *queue.parts[queue.part++];
  const size_t done = std::exchange(queue.calls, 0);
  if (done == 0 && !part.sends.empty()) RONDO_TRY(part.comm->submit(part.sends, part.lead));
  const auto call = std::span(part.calls).subspan(done, part.calls.empty() ? 0 : 1);
  const bool last = done + 1 >= part.calls.size();
  if (!call.empty() || !part.messages.empty())
    RONDO_TRY(part.comm->submit(call, last ? std::span(part.messages) : std::span<const Message>(), part.lead));
  if (last) return part.waits.empty() ? Result<void>() : part.comm->submit(part.waits, part.lead);
  --queue.part;
  queue.calls = done + 1;
  return {};
}

/// Submits the parts that have a stream. Streams take turns call by call. So even if a launch queue takes few calls, it
/// is not filled by calls of one rank that wait for a later rank of the group.
Result<void> submit_in_turns(std::span<const Part> all) {
  std::vector<Queue> queues;
  for (const Part &part : all) {
    if (runs_in_call(part)) continue;
    const auto known = std::ranges::find_if(queues, [&](const Queue &each) { return each.takes(part); });
    (known != queues.end() ? *known : queues.emplace_back()).parts.push_back(&part);
  }
  Result<void> first;
  for (; !queues.empty(); std::erase_if(queues, [](const Queue &each) { return each.is_done(); }))
    for (Queue &queue : queues)
      if (auto done = run_safely(queue, submit_next); first.ok() && !done.ok()) first = std::move(done);
  return first;
}

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
  for (const Part &part : all)
    if (!runs_in_call(part)) note(run_safely(part, join_before));
  if (!first.ok()) return first;  // nothing is enqueued
  note(submit_in_turns(all));
  for (const Part &part : all)
    if (!runs_in_call(part)) note(run_safely(part, join_after));
  helpers.release(true);
  if (last != nullptr) note(run(*last));
  for (Result<void> &result : helpers.join()) note(std::move(result));
  return first;
}

/// Checks all parts before any part runs. submit() itself prepares a single part.
Result<void> check_all(std::span<Part> parts) {
  const bool alone = parts.size() == 1;
  for (Part &part : parts) RONDO_TRY(check(part, alone));
  if (alone) return {};
  for (const Part &part : parts) RONDO_TRY(part.comm->prepare(part.calls));
  return {};
}

}  // namespace

Result<void> run_parts(std::span<Part> parts) {
  Result<void> done = check_all(parts);
  if (done.ok()) done = parts.size() == 1 ? run(parts.front()) : run_all(parts);
  for (const Part &part : parts)
    if (!done.ok()) part.comm->forget_stream();
  return done;
}

}  // namespace rondo::group
