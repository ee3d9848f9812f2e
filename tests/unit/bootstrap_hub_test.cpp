// SPDX-License-Identifier: Apache-2.0
// Tests the whole store server without sockets: groups, floods of strangers, limits, and the store's own rules.
#include <algorithm>
#include <deque>

#include "tests/sanitized.h"
#include "tests/unit/bootstrap_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr uint32_t hub_rank_count = 8;
constexpr uint32_t round_count = 10;

/// A member of the group. Once accepted, it runs one gather after another.
struct Member {
  uint32_t rank = 0;
  std::optional<StoreClientSession> session;
  uint64_t connection = 0;
  bool knocked = false;
  uint32_t rounds_done = 0;
  bool right = true;

  [[nodiscard]] bool finished() const { return rounds_done == round_count; }

  void enter(World &world) {
    connection = world.connect();
    session.emplace(world.secret, challenge_of(world.random()), "test");
  }
  void turned_away() {
    connection = 0;
    knocked = false;
  }
  void step(World &world) {
    if (finished() || connection == 0) return;
    world.carry(connection, *session);
    if (!session->open()) return;
    if (const auto reply = session->take_reply()) {
      right = right && reply->kind == Reply::Kind::parts && reply->parts.size() == hub_rank_count;
      for (uint32_t from = 0; right && from < hub_rank_count; ++from)
        right = text_of(reply->parts[from]) == std::to_string(from) + "@" + std::to_string(rounds_done);
      ++rounds_done;
    }
    if (!session->in_flight() && !finished())
      session->begin(make_gather("round " + std::to_string(rounds_done), rank, hub_rank_count,
                                 std::to_string(rank) + "@" + std::to_string(rounds_done)),
                     no_deadline);
  }
};

/// A client without the secret. It is silent or slow, sends garbage, replays, or stops halfway through a handshake.
struct Stranger {
  uint64_t connection = 0;
  uint64_t manner = 0;
  Bytes script;
  size_t said = 0;

  Stranger(World &world, uint64_t number, const Bytes &recorded) : connection(number), manner(world.between(0, 4)) {
    StoreClientSession lost(secret_of(9), challenge_of(number), "test");
    script = manner == 1 ? recorded : copy_of(lost.output());
    if (manner == 2) script = Bytes(100, std::byte(world.random()));
    if (manner == 3) script.resize(wire::client_hello_bytes + wire::proof_bytes);
    if (manner == 4) script.clear();
  }
  void step(World &world) {
    if (said >= script.size()) return;
    const size_t count = manner == 0 ? 1 : world.between(1, script.size() - said);
    world.hub.receive(connection, ByteView(script).subspan(said, count), world.now);
    said += count;
  }
};

Bytes record_a_member(World &world) {
  StoreClientSession client(world.secret, challenge_of(77), "test");
  const uint64_t connection = world.connect();
  Bytes recorded = copy_of(client.output());
  client.sent(recorded.size());
  world.hub.receive(connection, recorded, world.now);
  client.receive(copy_of(world.hub.output(connection)));
  append_bytes(recorded, client.output());
  world.hub.closed(connection, world.now);
  return recorded;
}

std::vector<Reply> handle(StoreCore &core, uint64_t client, const Request &request) {
  std::vector<Delivery> deliveries;
  core.handle(client, request, deliveries);
  std::vector<Reply> own;
  for (Delivery &each : deliveries)
    if (each.client == client) own.push_back(std::move(each.reply));
  return own;
}

rondo_status_t status_of(const std::vector<Reply> &replies) {
  REQUIRE(replies.size() == 1);
  return replies[0].kind == Reply::Kind::failure ? replies[0].error.status : RONDO_OK;
}

}  // namespace

TEST_CASE("store hub: a flood of strangers of every manner does not disturb a group that gathers") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  World world(seed);
  const Bytes recorded = record_a_member(world);
  std::vector<Member> members(hub_rank_count);
  for (uint32_t rank = 0; rank < hub_rank_count; ++rank) members[rank].rank = rank;
  std::map<uint64_t, Stranger> strangers;
  size_t stranger_total = 0;
  std::deque<Member *> backlog;  // clients that have knocked, in order; null for a stranger
  const auto group_done = [&] { return std::ranges::all_of(members, &Member::finished); };
  for (int turn = 0; turn < 20'000 && !group_done(); ++turn) {  // a turn is 0 to 20 ms
    world.now += world.between(0, second_ns / 50);
    world.hub.on_time(world.now);
    while (backlog.size() < 200) backlog.push_back(nullptr);  // strangers fill the queue of new connections
    for (Member &member : members)
      if (!std::exchange(member.knocked, true)) backlog.push_back(&member);
    for (; !backlog.empty() && world.hub.can_accept(); backlog.pop_front()) {
      if (backlog.front() != nullptr) {
        backlog.front()->enter(world);
        continue;
      }
      const uint64_t number = world.connect();
      strangers.emplace(number, Stranger(world, number, recorded));
      ++stranger_total;
    }
    for (auto &[number, stranger] : strangers)
      if (world.between(0, 3) == 0) stranger.step(world);
    for (int step = 0; step < 4; ++step)
      for (Member &member : members) member.step(world);
    for (const StoreHub::Cut &cut : world.hub.take_cut()) {
      CHECK_FALSE(cut.authenticated);
      strangers.erase(cut.connection);
      for (Member &member : members)
        if (member.connection == cut.connection) member.turned_away();  // a client tries again
    }
    REQUIRE(world.hub.stranger_count() <= HubLimits{}.silent_count + HubLimits{}.greeted_count);
  }
  CHECK(group_done());
  for (const Member &member : members) CHECK(member.right);
  CHECK(stranger_total > 100);
  world.now += handshake_timeout_ns;
  world.hub.on_time(world.now);
  CHECK(world.hub.connection_count() == hub_rank_count);  // all half-open connections have expired
}

TEST_CASE("store hub: silent clients give way to new ones, the oldest first; those that have said hello stay") {
  HubLimits limits;
  limits.silent_count = 4;
  World world(1, limits);
  StoreClientSession member(world.secret, challenge_of(5), "test");
  const uint64_t connection = world.connect();
  world.hub.receive(connection, member.output(), world.now);
  member.sent(member.output().size());
  for (int at = 0; at < 4; ++at) CHECK(world.connect() != 0);
  CHECK(world.hub.take_cut().empty());
  for (uint64_t oldest = 2; oldest < 1000; ++oldest) {
    CHECK(world.connect() == oldest + 4);
    const auto cut = world.hub.take_cut();
    REQUIRE(cut.size() == 1);
    CHECK(cut[0].connection == oldest);
    CHECK(world.hub.stranger_count() == 5);
  }
  for (int turn = 0; turn < 100 && !member.open(); ++turn) world.carry(connection, member);
  for (int turn = 0; turn < 100 && !member.output().empty(); ++turn) world.carry(connection, member);
  CHECK(world.hub.is_member(connection));
  CHECK(world.hub.stranger_count() == 4);
}

TEST_CASE("store hub: for want of descriptors silent clients go first, then those that said hello, never a member") {
  World world(1);
  const auto say_hello = [&](uint64_t number) {
    StoreClientSession client(world.secret, challenge_of(number), "test");
    const uint64_t connection = world.connect();
    world.hub.receive(connection, client.output(), world.now);
    return connection;
  };
  StoreClientSession member(world.secret, challenge_of(99), "test");
  const uint64_t proved = world.connect();
  for (int turn = 0; turn < 1000 && !world.hub.is_member(proved); ++turn) world.carry(proved, member);
  REQUIRE(world.hub.is_member(proved));
  const uint64_t first = say_hello(1), second = say_hello(2), silent = world.connect(), third = say_hello(3);
  std::vector<uint64_t> order;
  while (world.hub.make_room(world.now))
    for (const StoreHub::Cut &cut : world.hub.take_cut()) order.push_back(cut.connection);
  CHECK(order == std::vector<uint64_t>{silent, first, second, third});
  CHECK(world.hub.is_member(proved));
}

TEST_CASE("store hub: no more members than its limit, and each that ends makes room") {
  HubLimits limits;
  limits.member_count = 2;
  World world(1, limits);
  std::vector<uint64_t> members;
  for (uint64_t at = 0; at < 2; ++at) {
    StoreClientSession client(world.secret, challenge_of(at), "test");
    members.push_back(world.connect());
    for (int turn = 0; turn < 1000 && !world.hub.is_member(members[at]); ++turn) world.carry(members[at], client);
  }
  CHECK(world.connect() == 0);
  world.hub.closed(members[0], world.now);
  CHECK(world.connect() != 0);
}

TEST_CASE("store core: a key is put once; waiting clients are served when it comes and forgotten when they go") {
  StoreCore core;
  CHECK(handle(core, 1, make_request(Request::Kind::get, "k")).empty());
  CHECK(handle(core, 2, make_request(Request::Kind::get, "k")).empty());
  std::vector<Delivery> deliveries;
  core.forget(2, deliveries);
  CHECK(deliveries.empty());
  core.handle(3, make_request(Request::Kind::put, "k", "v"), deliveries);
  REQUIRE(deliveries.size() == 2);
  CHECK(deliveries[1].client == 1);
  CHECK(text_of(deliveries[1].reply.value) == "v");
  CHECK(core.waiting_count() == 0);
  CHECK(status_of(handle(core, 4, make_request(Request::Kind::put, "k", "v"))) == RONDO_OK);
  CHECK(status_of(handle(core, 4, make_request(Request::Kind::put, "k", "w"))) == RONDO_ERROR_MISMATCH);
  CHECK(status_of(handle(core, 4, make_gather("k", 0, 2, ""))) == RONDO_ERROR_MISMATCH);
}

TEST_CASE("store core: a question that does not wait is answered at once, and its client misses no failure") {
  StoreCore core;
  const Request question = make_request(Request::Kind::try_get, "k");
  auto replies = handle(core, 1, question);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].kind == Reply::Kind::done);
  CHECK(core.waiting_count() == 0);
  CHECK(status_of(handle(core, 2, make_request(Request::Kind::put, "k", "v"))) == RONDO_OK);
  replies = handle(core, 1, question);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].kind == Reply::Kind::value);
  CHECK(text_of(replies[0].value) == "v");
  CHECK(handle(core, 2, make_gather("g", 0, 2, "a")).empty());
  CHECK(status_of(handle(core, 1, make_request(Request::Kind::try_get, "g"))) == RONDO_ERROR_MISMATCH);
}

TEST_CASE("store core: ranks that disagree about a gather are told so") {
  StoreCore core;
  CHECK(handle(core, 1, make_gather("g", 0, 3, "a")).empty());
  CHECK(status_of(handle(core, 2, make_gather("g", 1, 4, "b"))) == RONDO_ERROR_MISMATCH);
  CHECK(status_of(handle(core, 2, make_gather("g", 0, 3, "other"))) == RONDO_ERROR_MISMATCH);
  CHECK(status_of(handle(core, 2, make_request(Request::Kind::get, "g"))) == RONDO_ERROR_MISMATCH);
  CHECK(status_of(handle(core, 2, make_request(Request::Kind::put, "g", "x"))) == RONDO_ERROR_MISMATCH);
  Request early = make_gather("g", 1, 3, "");
  early.kind = Request::Kind::collect;
  CHECK(status_of(handle(core, 2, early)) == RONDO_ERROR_MISMATCH);
}

TEST_CASE("store core: a cancelled gather lists the missing ranks, at most 16 of them") {
  StoreCore core;
  CHECK(handle(core, 1, make_gather("g", 2, 40, "a")).empty());
  const auto replies = handle(core, 1, make_request(Request::Kind::cancel, ""));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].error.status == RONDO_ERROR_TIMEOUT);
  CHECK(replies[0].error.peer == 0);
  CHECK(replies[0].error.message ==
        "not arrived at the step 'g': ranks 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 "
        "and 23 more (39 of 40)");
  CHECK(handle(core, 1, make_request(Request::Kind::cancel, "")).empty());  // nothing waits any more
}

TEST_CASE("store core: what a group had is gone when all its ranks have left, however many groups there were") {
  constexpr uint32_t group_count = 70'000;  // more than the 65,536 that a store holds at a time
  rondo_test::GateShare share("rules for the names of groups");
  for (const GroupNames names : {GroupNames::renewed, GroupNames::elsewhere}) {
    if (!share.has_next()) continue;
    StoreCore core({.key_count = 3, .total_bytes = 1'000}, names);
    std::vector<Delivery> deliveries;
    uint64_t client = 0;
    for (uint32_t group = 0; group < group_count; ++group) {
      const uint64_t first = ++client, second = ++client;
      for (const uint64_t each : {first, second}) {
        Request enter = make_request(Request::Kind::enter, "g" + std::to_string(group));
        enter.rank = each == first ? 0 : 1;
        enter.count = 2;
        enter.generation = group + 1;  // generation 0 failed at an earlier store
        core.handle(each, enter, deliveries);
      }
      core.handle(first, make_request(Request::Kind::put, "value", "10 bytes.."), deliveries);
      core.handle(first, make_gather("whole", 0, 2, "a"), deliveries);
      core.handle(second, make_gather("whole", 1, 2, "b"), deliveries);
      core.handle(first, make_gather("begun", 0, 2, "part"), deliveries);
      core.handle(first, make_request(Request::Kind::cancel, ""), deliveries);
      for (const Delivery &each : deliveries) {
        const bool cancelled = each.reply.error.status == RONDO_ERROR_TIMEOUT;
        if (each.reply.kind == Reply::Kind::failure && !cancelled) FAIL(each.reply.error.message);
      }
      deliveries.clear();
      core.handle(first, make_request(Request::Kind::leave, ""), deliveries);
      core.forget(second, deliveries);  // this is no failure, since the first has left
      deliveries.clear();
    }
    CHECK(core.key_count() == 0);
    CHECK(core.used_bytes() == 0);
    CHECK(core.group_count() == 0);
  }
}

TEST_CASE("store core: keys and bytes are bounded, and a gather that is over gives its bytes back") {
  StoreCore core({.key_count = 2, .total_bytes = 1'000});
  CHECK(status_of(handle(core, 1, make_request(Request::Kind::put, "a", std::string(100, 'x')))) == RONDO_OK);
  CHECK(status_of(handle(core, 1, make_request(Request::Kind::put, "b", std::string(901, 'x')))) ==
        RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(core.used_bytes() == 100);
  CHECK(handle(core, 1, make_gather("g", 0, 2, "first")).empty());
  CHECK(core.used_bytes() > 100);
  std::vector<Delivery> deliveries;
  core.handle(2, make_gather("g", 1, 2, "second"), deliveries);
  CHECK(deliveries.size() == 2);
  CHECK(core.used_bytes() == 100);
  CHECK(status_of(handle(core, 1, make_request(Request::Kind::put, "c", ""))) == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(status_of(handle(core, 1, make_gather("g", 0, 2, "first"))) == RONDO_ERROR_MISMATCH);
}
