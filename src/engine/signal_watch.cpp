// SPDX-License-Identifier: Apache-2.0
#include "src/engine/signal_watch.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "src/base/clock.h"
#include "src/engine/watch.h"
#include "src/proto/memory.h"

namespace rondo {
namespace {

constexpr uint64_t refusal_look_interval_ns = 5'000'000;
constexpr int refusal_looks_max = 100;  // counts checks, not time, because a suspended machine delays both ranks

/// Returns whether this process can read a range of its own memory. It tries one byte of each page.
bool is_readable(const std::byte *from, uint64_t bytes) {
  constexpr uint64_t page_bytes = 4096;
  std::byte copy{};
  const iovec local{&copy, 1};
  for (uint64_t at = 0; at < bytes; at += std::min(page_bytes, std::max<uint64_t>(1, bytes - 1 - at))) {
    const iovec own{const_cast<std::byte *>(from) + at, 1};
    if (::process_vm_readv(::getpid(), &local, 1, &own, 1, 0) < 0 && errno == EFAULT) return false;
  }
  return true;
}

}  // namespace

uint64_t SignalWatch::seen_count() const {
  return memory::load_acquire(links_.signals(operation_.peer, owner_.rank())[operation_.signal]);  // pairs with a put
}

/// Returns text that says how many of the signals for which this operation waits have arrived.
std::string SignalWatch::counts(uint64_t seen) const {
  const uint64_t before = operation_.total - operation_.count;
  return "rank " + std::to_string(owner_.rank()) + " waits for " + std::to_string(operation_.count) +
         " signals of number " + std::to_string(operation_.signal) + " from rank " + std::to_string(operation_.peer) +
         ", and " + std::to_string(seen > before ? seen - before : 0) + " have arrived (" + std::to_string(seen) +
         " of " + std::to_string(operation_.total) + " since the communicator was made)";
}

/// Returns text that describes a put or a signal.
std::string SignalWatch::doing() const {
  const std::string own = "rank " + std::to_string(owner_.rank()), peer = "rank " + std::to_string(operation_.peer);
  if (operation_.kind == OneSided::Kind::signal) return own + " signals " + peer;
  return own + " puts " + std::to_string(operation_.bytes) + " bytes into the window of " + peer;
}

bool SignalWatch::look(uint64_t now_ns) {
  if (start_ns_ == 0) start_ns_ = now_ns;
  if (ranks_.failed()) return true;
  if (now_ns >= next_death_check_ns_) {
    next_death_check_ns_ = now_ns + death_check_interval_ns;
    if (raise_end()) return true;
  }
  if (now_ns - start_ns_ < owner_.timeout_ns()) return false;
  if (operation_.kind != OneSided::Kind::wait) {
    raise(RONDO_ERROR_TIMEOUT, operation_.peer,
          doing() + ", and the process of that rank on another host has not taken all of it in time; check whether it "
                    "is stopped, or raise timeout_ms (RONDO_TIMEOUT)");
    return true;
  }
  const uint64_t seen = seen_count();
  if (seen >= operation_.total) return false;
  raise(RONDO_ERROR_TIMEOUT, operation_.peer,
        counts(seen) + "; call rondo_put_signal or rondo_signal on that rank as often as this rank waits, or raise "
                       "timeout_ms (RONDO_TIMEOUT)");
  return true;
}

/// Fails the communicator if the peer has ended and this operation still needs the peer. It reads first whether the
/// peer has ended, and then the peer's signals. So it counts all signals that the peer has sent.
bool SignalWatch::raise_end() {
  if (operation_.peer == owner_.rank()) return false;
  const RankState state = ranks_.state(operation_.peer);
  const bool left = has_ended_calls(state);
  if (!left) {
    const std::vector<uint32_t> dead = ranks_.find_dead();
    if (std::ranges::find(dead, operation_.peer) == dead.end()) return false;
  }
  const bool waits = operation_.kind == OneSided::Kind::wait;
  const uint64_t seen = waits ? seen_count() : 0;
  if (waits && seen >= operation_.total) return false;
  // A rank of another host may have taken the data before it ended, and its last messages may still be on their way.
  if (ranks_.may_deliver(operation_.peer)) {
    if (ended_ns_ == 0) ended_ns_ = now_ns();
    if (now_ns() - ended_ns_ < delivery_patience_ns) return false;
  }
  uint32_t ended = operation_.peer;
  Departure departure = left ? departure_of(state) : Departure{RONDO_ERROR_REMOTE, ""};
  std::string how = left ? departure.how : ranks_.how_dead(ended);
  // A rank may leave because another rank died. In that case, that death is the reason.
  const auto any = [](uint32_t) { return true; };
  if (const auto dead = left ? find_dead_rank(ranks_, owner_.rank(), any) : std::nullopt) {
    ended = *dead;
    departure.status = RONDO_ERROR_REMOTE;
    how = ranks_.how_dead(ended);
  }
  raise(departure.status, ended, ranks_.describe_rank(ended) + how + "; " + (waits ? counts(seen) : doing()));
  return true;
}

void SignalWatch::explain_refusal(int error_number) {
  if (error_number == EFAULT && !is_readable(operation_.from, operation_.bytes)) {
    raise(RONDO_ERROR_SYSTEM, owner_.rank(),
          "rank " + std::to_string(owner_.rank()) + " cannot read its buffer `send` of " +
              std::to_string(operation_.bytes) + " bytes for a put to rank " + std::to_string(operation_.peer) +
              "; keep that memory until the put is complete");
    return;
  }
  for (int look = 0; look < refusal_looks_max; ++look) {  // a dying rank's memory disappears before the rank is dead
    if (ranks_.failed() || raise_end()) return;
    sleep_for_ns(refusal_look_interval_ns);
  }
  raise(RONDO_ERROR_SYSTEM, operation_.peer,
        system_error("rank " + std::to_string(owner_.rank()) + " cannot write to the window of rank " +
                         std::to_string(operation_.peer),
                     error_number)
                .message +
            "; keep the memory of a window until rondo_window_deregister");
}

void SignalWatch::raise_held_up(const std::string &stream) {
  const char *const what = operation_.kind == OneSided::Kind::wait  ? "wait for signals of"
                           : operation_.kind == OneSided::Kind::put ? "put to"
                                                                    : "signal to";
  raise(RONDO_ERROR_TIMEOUT, operation_.peer,
        "rank " + std::to_string(owner_.rank()) + " has enqueued a " + what + " rank " +
            std::to_string(operation_.peer) + " on stream " + stream +
            ", which has not ended in time; check what holds up that stream, or raise timeout_ms (RONDO_TIMEOUT)");
}

void SignalWatch::raise(rondo_status_t status, uint32_t peer, const std::string &message) {
  Error error{status, message + what_now};
  error.rank = static_cast<int32_t>(owner_.rank());
  error.peer = static_cast<int32_t>(peer);
  ranks_.raise(error);
}

}  // namespace rondo
