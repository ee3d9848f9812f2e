// SPDX-License-Identifier: Apache-2.0
#include "src/core/split.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/clock.h"
#include "src/base/start_thread.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/store/listener.h"
#include "src/core/init.h"
#include "src/core/process.h"

namespace rondo {
namespace {

constexpr uint64_t record_poll_ns = 50'000;
constexpr uint64_t record_lag_ns = 1'000'000'000;  // for which the record of a rank that has ended may be on its way
constexpr uint64_t report_patience_ns = 500'000'000;  // of a rank that has been aborted and is waited for
constexpr auto cancel_poll = std::chrono::milliseconds(1);
constexpr std::string_view derivation = "rondo_comm_split, format 1";
constexpr size_t shown_members_max = 16;

using Made = Result<std::shared_ptr<Communicator>>;

/// Returns the address of a rank that the members of its part can reach.
std::string address_of(const Communicator &parent, uint32_t rank) {
  if (parent.group().one_node()) return "127.0.0.1";
  return parent.group().infos[rank].interfaces.front().address;  // not empty: it has links to other hosts
}

/// Returns the id of the part of which `first`, a rank of the parent that made `call`, is the first member.
UniqueId id_of(const Communicator &parent, uint32_t first, const SplitCall &call) {
  Bytes input;
  append_bytes(input, bytes_of(derivation));
  append_number(input, first);
  append_number(input, call.nonce);
  UniqueId id;
  std::array<std::byte, sizeof id.secret.bytes + sizeof id.group> derived;
  crypto_generichash(raw(derived.data()), derived.size(), raw(input.data()), input.size(),
                     raw(parent.secret().bytes.data()), parent.secret().bytes.size());
  std::copy_n(derived.begin(), id.secret.bytes.size(), id.secret.bytes.begin());
  std::copy_n(derived.begin() + id.secret.bytes.size(), id.group.size(), id.group.begin());
  id.endpoint = {address_of(parent, first), static_cast<uint16_t>(call.port)};
  id.process = static_cast<uint32_t>(parent.group().infos[first].process);
  return id;
}

/// One rank's split. A thread of its own may wait for the parent, so that the handle can be given up meanwhile.
class Split : public std::enable_shared_from_this<Split> {
 public:
  Split(std::shared_ptr<Communicator> parent, Settings settings)
      : parent_(std::move(parent)), settings_(std::move(settings)) {}
  Split(const Split &) = delete;
  Split &operator=(const Split &) = delete;
  ~Split();

  /// Takes the turn on the parent.
  [[nodiscard]] Result<void> begin(int color, int key);
  /// Does the rest. Null: this rank has no color. `cancel` may be null; it ends the wait for the parent as well.
  [[nodiscard]] Made run(const Cancel *cancel);
  /// Agrees in a thread of its own. Returns false if no thread can be started.
  [[nodiscard]] bool agree_behind();

 private:
  [[nodiscard]] bool has_color() const { return call_.color != RONDO_NO_COLOR; }
  /// Says whether this rank serves the store of the part.
  [[nodiscard]] bool serves() const { return members_.front() == parent_->rank(); }

  [[nodiscard]] Result<void> agree();
  void finish_behind();
  [[nodiscard]] Result<SplitCall> call_of(uint32_t rank, uint64_t deadline_ns) const;
  [[nodiscard]] Result<void> wait_for_agreement(const Cancel &cancel);
  [[nodiscard]] Made make_part(const Cancel *cancel);
  [[nodiscard]] StoreHost store_host() const;
  [[nodiscard]] std::function<void()> death_watch() const;
  void report_given_up(uint64_t patience_ns);
  [[nodiscard]] Error about_part(Error error) const;

  const std::shared_ptr<Communicator> parent_;
  const Settings settings_;
  SplitCall call_;  ///< of this rank
  Signature record_;
  WorkItem work_;
  bool owes_turn_ = false;  ///< the turn on the parent is taken, and agree() has not begun
  StoreListener listener_;  ///< until this rank serves the part's store, or knows that it does not
  std::optional<Error> not_listening_;  ///< why there is no listener
  // agree() sets these:
  std::vector<uint32_t> members_;  ///< ranks of the parent, in the order of the part
  uint32_t rank_ = 0;              ///< of this rank in the part
  UniqueId id_;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable agreement_;
  std::optional<Result<void>> agreed_;
  bool given_up_ = false;  ///< nobody waits for agreed_ any more
};

Result<void> Split::begin(int color, int key) {
  call_.color = color;
  call_.key = key;
  randombytes_buf(&call_.nonce, sizeof call_.nonce);
  if (has_color()) {
    auto listener = listen_for_store({address_of(*parent_, parent_->rank()), 0});
    if (listener.ok()) listener_ = std::move(listener).value();
    else not_listening_ = std::move(listener).error();  // the other ranks wait for this one, and then learn of it
    call_.port = listener_.endpoint.port;
  }
  record_ = record_of(call_);
  RONDO_TRY_ASSIGN(work_, parent_->begin_split(record_));
  owes_turn_ = true;
  return {};
}

/// If its turn is not run, nothing can be called on the parent any more.
Split::~Split() {
  if (owes_turn_)
    parent_->fail({RONDO_ERROR_OUT_OF_RESOURCES, "rondo_comm_split could not be continued here, for lack of memory or "
                                                 "handles; only rondo_comm_abort and rondo_comm_destroy are left"});
}

Result<void> Split::agree() {
  owes_turn_ = false;
  RONDO_TRY(parent_->end_split(work_));
  if (!has_color()) return {};
  const uint64_t deadline_ns = now_ns() + parent_->settings().timeout_ns;
  std::vector<SplitCall> calls;
  for (uint32_t rank = 0; rank < parent_->rank_count(); ++rank) {
    RONDO_TRY_ASSIGN(const SplitCall call, call_of(rank, deadline_ns));
    calls.push_back(call);
  }
  members_ = members_of(calls, call_.color);
  rank_ = static_cast<uint32_t>(std::ranges::find(members_, parent_->rank()) - members_.begin());
  id_ = id_of(*parent_, members_.front(), calls[members_.front()]);
  if (members_.size() > 1 && calls[members_.front()].port == 0) {
    if (not_listening_ && serves()) return *not_listening_;
    return Error{RONDO_ERROR_REMOTE,
                 parent_->ranks().describe_rank(members_.front()) +
                     " cannot listen for the ranks of its part; its own error says why",
                 static_cast<int32_t>(parent_->rank()), static_cast<int32_t>(members_.front()), work_.number};
  }
  if (!serves() || members_.size() == 1) listener_ = {};
  return {};
}

/// All ranks of this host have recorded their calls by now. The record of a rank of another host may still be on its
/// way.
Result<SplitCall> Split::call_of(uint32_t rank, uint64_t deadline_ns) const {
  if (rank == parent_->rank()) return call_;
  const Ranks &ranks = parent_->ranks();
  uint64_t ended_ns = 0;  // the time at which its end was seen, or 0
  while (true) {          // ends at the deadline
    if (const auto entered = ranks.entered(rank, work_.number)) {
      if (const auto call = split_call_of(entered->signature)) return *call;
      return Error{RONDO_ERROR_INTERNAL, ranks.describe_rank(rank) + " recorded another call than its split"};
    }
    const uint64_t now = now_ns();
    const auto dead = ranks.find_dead();
    const bool has_ended = ranks.state(rank) == RankState::left || std::ranges::find(dead, rank) != dead.end();
    if (has_ended && ended_ns == 0) ended_ns = now;
    if (ranks.failed()) return ranks.failure();
    const bool lost = ended_ns != 0 && now - ended_ns >= record_lag_ns;
    if (lost || now >= deadline_ns)
      return Error{lost ? RONDO_ERROR_REMOTE : RONDO_ERROR_TIMEOUT,
                   "the color of " + ranks.describe_rank(rank) + " in rondo_comm_split did not arrive" +
                       (lost ? " before that rank left" : " in time; raise timeout_ms (RONDO_TIMEOUT)"),
                   static_cast<int32_t>(parent_->rank()), static_cast<int32_t>(rank), work_.number};
    sleep_for_ns(record_poll_ns);
  }
}

bool Split::agree_behind() {
  auto thread = start_thread("a split that is not waited for", [self = shared_from_this()] { self->finish_behind(); });
  if (thread.ok()) thread.value().detach();
  return thread.ok();
}

void Split::finish_behind() {
  Result<void> agreed = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
  try {
    agreed = agree();
    std::unique_lock lock(mutex_);
    agreed_ = agreed;
    agreement_.notify_all();
    const bool reports = given_up_ && agreed.ok() && has_color();
    lock.unlock();
    if (reports) report_given_up(settings_.init_timeout_ns);
  } catch (const std::exception &) {
    const std::lock_guard lock(mutex_);
    if (!agreed_) agreed_ = std::move(agreed);
    agreement_.notify_all();
  }
}

Result<void> Split::wait_for_agreement(const Cancel &cancel) {
  std::unique_lock lock(mutex_);
  while (!agreed_ && !cancel.requested()) agreement_.wait_for(lock, cancel_poll);  // ends at the parent's deadline
  if (agreed_) return *agreed_;
  given_up_ = true;
  return Error{RONDO_ERROR_ABORTED, "rondo_comm_split was aborted here before all ranks had called it"};
}

/// Enters the store of the part only to leave it, so that the other members do not wait for this rank.
void Split::report_given_up(uint64_t patience_ns) {
  if (members_.size() == 1) return;
  std::unique_ptr<StoreServer> server;  // its end waits for members that have yet to hear
  if (serves()) {
    auto started = start_store_server(std::move(listener_), id_.secret);
    if (!started.ok()) return;
    server = std::move(started).value();
  }
  const auto rank = static_cast<int32_t>(rank_);
  const Membership member{group_name(id_) + "/", rank_, static_cast<uint32_t>(members_.size()), 0};
  const auto store = connect_store(id_.endpoint, id_.secret, now_ns() + patience_ns, member, store_host());
  const Error error{RONDO_ERROR_ABORTED, "rank " + std::to_string(rank_) + " was aborted", rank, rank};
  if (store.ok()) store.value()->leave(error);
}

Made Split::run(const Cancel *cancel) {
  const bool behind = cancel != nullptr && agree_behind();
  RONDO_TRY(behind ? wait_for_agreement(*cancel) : agree());
  if (!has_color()) return Made(nullptr);
  auto part = make_part(cancel);
  if (part.ok()) return part;
  // This rank may not have entered the store yet. If it serves the store, the store is gone, and the others notice.
  if (cancel != nullptr && cancel->requested() && !serves()) report_given_up(report_patience_ns);
  return about_part(std::move(part).error());
}

Made Split::make_part(const Cancel *cancel) {
  const std::string name = group_name(id_);
  if (members_.size() == 1) return make_alone(name + "/", settings_);
  if (serves()) {
    RONDO_TRY_ASSIGN(auto server, start_store_server(std::move(listener_), id_.secret));
    process().id_servers.add(name, std::move(server));
  }
  return make_at({id_, store_host(), serves() ? death_watch() : nullptr}, rank_,
                 static_cast<uint32_t>(members_.size()), settings_, now_ns() + settings_.init_timeout_ns, cancel);
}

StoreHost Split::store_host() const {
  return {.rank = 0, .name = parent_->ranks().describe_rank(members_.front()) + " of the parent", .runs_already = true};
}

/// Reports members that die before they have entered the store: only ranks of the parent can see that.
std::function<void()> Split::death_watch() const {
  return [parent = parent_, members = members_, name = group_name(id_),
          reported = std::vector<bool>(members_.size())]() mutable {
    for (const uint32_t dead : parent->ranks().find_dead()) {
      const auto place = static_cast<size_t>(std::ranges::find(members, dead) - members.begin());
      if (place == members.size() || reported[place]) continue;
      reported[place] = true;
      process().id_servers.rank_ended(name, static_cast<uint32_t>(place));
    }
  };
}

/// Completes an error whose text numbers ranks as the part does. Its fields number them as the parent does.
Error Split::about_part(Error error) const {
  std::string ranks;
  for (size_t at = 0; at < std::min(members_.size(), shown_members_max); ++at)
    ranks += (at == 0 ? "" : ", ") + std::to_string(members_[at]);
  if (members_.size() > shown_members_max) ranks += " and more";
  error.message = "rondo_comm_split with color " + std::to_string(call_.color) + " (" + ranks +
                  " of the parent): " + error.message;
  for (int32_t *const rank : {&error.rank, &error.peer})
    if (*rank >= 0 && static_cast<size_t>(*rank) < members_.size())
      *rank = static_cast<int32_t>(members_[static_cast<size_t>(*rank)]);
  return error;
}

/// Returns the settings of the part. Without a configuration they are the parent's.
Result<Settings> part_settings(const Communicator &parent, const rondo_config_t *config) {
  if (config == nullptr) return parent.settings();
  return settings_of(config);
}

}  // namespace

std::vector<uint32_t> members_of(std::span<const SplitCall> calls, int32_t color) {
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < calls.size(); ++rank)
    if (calls[rank].color == color) members.push_back(rank);
  std::ranges::stable_sort(members, {}, [&](uint32_t rank) { return calls[rank].key; });
  return members;
}

Result<Initialisation> begin_split(std::shared_ptr<Communicator> parent, int color, int key,
                                   const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(Settings settings, part_settings(*parent, config));
  const bool nonblocking = settings.nonblocking;
  const auto split = std::make_shared<Split>(std::move(parent), std::move(settings));
  RONDO_TRY(split->begin(color, key));
  if (color == RONDO_NO_COLOR && nonblocking && split->agree_behind())
    return Initialisation{[](const Cancel *) { return Made(nullptr); }, false};
  return Initialisation{[split](const Cancel *cancel) { return split->run(cancel); },
                        nonblocking && color != RONDO_NO_COLOR};
}

}  // namespace rondo
