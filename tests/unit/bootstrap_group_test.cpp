// SPDX-License-Identifier: Apache-2.0
// Tests groups of ranks at a store, without sockets: which ranks learn of a death, a failure, a wrong size, and when.
#include <algorithm>

#include "tests/unit/bootstrap_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr uint32_t rank_count = 4;

/// A rank that is a client, and the error that it received.
struct Rank {
  uint32_t rank;
  uint64_t connection;
  StoreClientSession session;
  std::optional<Error> told;  ///< by a reply or a notice

  Rank(World &world, uint32_t rank_, uint32_t count = rank_count)
      : rank(rank_),
        connection(world.connect()),
        session(world.secret, challenge_of(world.random()), "test", Membership{"group", rank_, count},
                StoreHost{.name = "the host"}) {}

  void listen() {
    if (const auto reply = session.take_reply(); reply && reply->kind == Reply::Kind::failure) told = reply->error;
    if (!told && session.notice()) told = session.notice();
    if (!told && session.failure()) told = session.failure();
  }
};

struct Group {
  explicit Group(uint64_t seed) : world(seed) {
    for (uint32_t rank = 0; rank < rank_count; ++rank) ranks.push_back(std::make_unique<Rank>(world, rank));
  }
  void carry(int turns = 400) {
    for (int turn = 0; turn < turns; ++turn)
      for (const auto &rank : ranks) {
        world.carry(rank->connection, rank->session);
        rank->listen();
      }
  }
  void enter() {
    carry();
    for (const auto &rank : ranks) REQUIRE(rank->session.open());
  }
  Rank &operator[](uint32_t rank) { return *ranks[rank]; }

  World world;
  std::vector<std::unique_ptr<Rank>> ranks;
};

/// Makes a client's attempt to enter, without sockets. Returns the store's reply.
Reply enter(StoreCore &core, uint64_t client, const std::string &group, uint32_t rank, uint32_t count = 2,
            uint32_t generation = 0) {
  Request request = make_request(Request::Kind::enter, group);
  request.rank = rank;
  request.count = count;
  request.generation = generation;
  std::vector<Delivery> deliveries;
  core.handle(client, request, deliveries);
  for (const Delivery &each : deliveries)
    if (each.client == client) return each.reply;
  return {};
}

void leave(StoreCore &core, uint64_t client) {
  std::vector<Delivery> deliveries;
  core.handle(client, make_request(Request::Kind::leave, ""), deliveries);
}

Request make_leave(const Error &outcome) {
  Request request = make_request(Request::Kind::leave, "");
  request.error = outcome;
  return request;
}

}  // namespace

TEST_CASE("store group: a rank whose connection ends without a goodbye is named to all at once, waiting or not") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Group group(seed);
  group.enter();
  group[0].session.begin(make_gather("g", 0, rank_count, "part"), no_deadline);
  group[1].session.begin(make_request(Request::Kind::get, "k"), no_deadline);
  group.carry();
  group.world.hub.closed(group[2].connection, group.world.now);
  group.carry();
  for (const uint32_t rank : {0u, 1u, 3u}) {
    CAPTURE(rank);
    REQUIRE(group[rank].told);
    CHECK(group[rank].told->status == RONDO_ERROR_REMOTE);
    CHECK(group[rank].told->peer == 2);
    CHECK(group[rank].told->message.find("rank 2 ended") != std::string::npos);
    CHECK_FALSE(group[rank].session.failure());
    // From now on, no request of this rank waits.
    group[rank].told.reset();
    group[rank].session.begin(make_request(Request::Kind::get, "other"), no_deadline);
    group.carry();
    CHECK(group[rank].told->peer == 2);
  }
  CHECK(group.world.hub.core().waiting_count() == 0);
  CHECK(group.world.hub.take_cut().empty());
}

TEST_CASE("store group: a rank says its number with its proof, so that its death is known from then on") {
  World world(1);
  StoreClientSession client(world.secret, challenge_of(1), "test", Membership{"group", 1, 2});
  const uint64_t connection = world.connect();
  world.hub.receive(connection, client.output(), world.now);
  client.sent(client.output().size());
  client.receive(copy_of(world.hub.output(connection)));
  CHECK_FALSE(client.open());  // the client sends its proof and its entry together
  world.hub.receive(connection, client.output(), world.now);
  world.hub.closed(connection, world.now);
  StoreClientSession other(world.secret, challenge_of(2), "test", Membership{"group", 0, 2});
  const uint64_t late = world.connect();
  for (int turn = 0; turn < 400; ++turn) world.carry(late, other);
  REQUIRE(other.failure());
  CHECK(other.failure()->status == RONDO_ERROR_REMOTE);
  CHECK(other.failure()->peer == 1);
}

TEST_CASE("store group: a rank that fails tells the others with which status, and the first failure stays") {
  Group group(2);
  group.enter();
  group[1].session.begin(make_leave({RONDO_ERROR_OUT_OF_RESOURCES, "no descriptor is free"}), no_deadline);
  group.carry();
  group[3].session.begin(make_leave({RONDO_ERROR_SYSTEM, "something else"}), no_deadline);
  group.carry();
  for (const uint32_t rank : {0u, 2u}) {
    REQUIRE(group[rank].told);
    CHECK(group[rank].told->status == RONDO_ERROR_OUT_OF_RESOURCES);
    CHECK(group[rank].told->peer == 1);
    CHECK(group[rank].told->message.find("rank 1 failed: no descriptor is free") != std::string::npos);
  }
  // If a rank reports that another one failed, its error names the other one.
  Group second(3);
  second.enter();
  second[0].session.begin(make_leave({RONDO_ERROR_TIMEOUT, "rank 3 is missing", -1, 3}), no_deadline);
  second.carry();
  CHECK(second[1].told->peer == 3);
}

TEST_CASE("store group: goodbyes in good order, then connections that end, are no failure") {
  Group group(4);
  group.enter();
  group[0].session.begin(make_leave({RONDO_OK, ""}), no_deadline);
  group.carry();
  group.world.hub.closed(group[0].connection, group.world.now);
  group.world.hub.closed(group[1].connection, group.world.now);  // killed right after all ranks had met
  group.carry();
  for (const uint32_t rank : {2u, 3u}) CHECK_FALSE(group[rank].told);
}

TEST_CASE("store group: a wrong size and a rank that comes twice are told to all, not to the latecomer alone") {
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    Group group(5);
    group.enter();
    group.ranks.push_back(std::make_unique<Rank>(group.world, 2, twice ? rank_count : rank_count + 1));
    group.carry();
    for (const auto &rank : group.ranks) {
      REQUIRE(rank->told);
      CHECK(rank->told->status == RONDO_ERROR_MISMATCH);
      CHECK(rank->told->peer == 2);
      CHECK(rank->told->message.find(twice ? "joined twice" : "5 ranks; others say 4") != std::string::npos);
    }
  }
}

TEST_CASE("store group: a communicator that is made does not fail for a rank that comes too late") {
  Group group(6);
  group.enter();
  group[0].session.begin(make_leave({RONDO_OK, ""}), no_deadline);
  group.carry();
  group.ranks.push_back(std::make_unique<Rank>(group.world, 2));
  group.carry();
  CHECK(group.ranks.back()->told->status == RONDO_ERROR_MISMATCH);
  for (const uint32_t rank : {1u, 2u, 3u}) CHECK_FALSE(group[rank].told);
}

TEST_CASE("store group: a rank whose process has ended before it came fails the groups that wait, and later ones") {
  Group group(7);
  group.ranks.pop_back();
  group.carry();
  group.world.hub.rank_ended(1, group.world.now);  // no failure: rank 1 has entered, and its connection still lives
  group.carry();
  for (const auto &rank : group.ranks) CHECK_FALSE(rank->told);
  group.world.hub.rank_ended(3, group.world.now);
  group.carry();
  for (const auto &rank : group.ranks) {
    REQUIRE(rank->told);
    CHECK(rank->told->status == RONDO_ERROR_REMOTE);
    CHECK(rank->told->peer == 3);
  }
  StoreClientSession late(group.world.secret, challenge_of(9), "test", Membership{"next group", 0, rank_count});
  const uint64_t connection = group.world.connect();
  for (int turn = 0; turn < 400; ++turn) group.world.carry(connection, late);
  REQUIRE(late.failure());
  CHECK(late.failure()->status == RONDO_ERROR_REMOTE);
}

TEST_CASE("store group: what the process of the store lacks fails every group, and is the host's") {
  Group group(10);
  group.ranks.pop_back();
  group.enter();
  group.world.hub.hosted_by(2, group.world.now);
  group.world.hub.fail_all({RONDO_ERROR_OUT_OF_RESOURCES, "no descriptor"}, group.world.now);
  group.ranks.push_back(std::make_unique<Rank>(group.world, 3));
  group.carry();
  for (const auto &rank : group.ranks) {
    REQUIRE(rank->told);
    CHECK(rank->told->status == RONDO_ERROR_OUT_OF_RESOURCES);
    CHECK(rank->told->peer == 2);
  }
}

TEST_CASE("store group: if a rank of the store's process fails before any rank has entered, the others are awaited") {
  Group group(12);
  StoreHub &hub = group.world.hub;
  CHECK_FALSE(hub.core().expects_ranks());
  hub.fail_all({RONDO_ERROR_ABORTED, "aborted"}, group.world.now, 0);
  group.ranks.erase(group.ranks.begin());
  CHECK(hub.core().expects_ranks());
  group.carry();
  for (const auto &rank : group.ranks) {
    REQUIRE(rank->told);
    CHECK(rank->told->status == RONDO_ERROR_ABORTED);
  }
  CHECK_FALSE(hub.core().expects_ranks());  // all except rank 0 know of the failure
}

TEST_CASE("store group: clients that were told whose process runs the store name that rank when the store ends") {
  Group group(8);
  group.carry();
  group.world.hub.hosted_by(3, group.world.now);
  group.carry();
  group[1].session.peer_closed();
  REQUIRE(group[1].session.failure());
  CHECK(group[1].session.failure()->status == RONDO_ERROR_REMOTE);
  CHECK(group[1].session.failure()->peer == 3);
  CHECK(group[1].session.failure()->message.find("the host (rank 3) has ended") != std::string::npos);
  Group later(9);
  later.world.hub.hosted_by(2, later.world.now);
  later.enter();
  later[0].session.peer_closed();
  CHECK(later[0].session.failure()->peer == 2);
}

TEST_CASE("store group: ranks of a job's next program meet under the same name, even before the last one has left") {
  StoreCore core({}, GroupNames::renewed);
  CHECK(enter(core, 1, "g0", 0).kind == Reply::Kind::done);
  CHECK(enter(core, 2, "g0", 1).kind == Reply::Kind::done);
  CHECK(enter(core, 3, "g0", 1).kind == Reply::Kind::failure);  // rank 1 is present, so it entered twice
  core = StoreCore({}, GroupNames::renewed);
  CHECK(enter(core, 11, "g0", 0).kind == Reply::Kind::done);
  for (uint64_t program = 1; program <= 3; ++program) {
    const uint64_t first = 10 * program + 1, second = first + 1;
    CHECK(enter(core, second, "g0", 1).kind == Reply::Kind::done);
    if (program > 1) leave(core, first - 10);  // rank 0 of the previous program
    if (program > 1) CHECK(enter(core, first, "g0", 0).kind == Reply::Kind::done);
    std::vector<Delivery> deliveries;
    core.handle(first, make_request(Request::Kind::put, "key", "of program " + std::to_string(program)), deliveries);
    REQUIRE(deliveries.size() == 1);
    CHECK(deliveries[0].reply.kind == Reply::Kind::done);  // the key of the previous program does not count
    CHECK(core.key_count() == 1);
    leave(core, second);
  }
  leave(core, 31);
  CHECK(core.group_count() == 0);
  CHECK(core.key_count() == 0);
}

TEST_CASE("store group: at a program's own store, ranks of the next program are sent to the store that follows") {
  StoreCore core({}, GroupNames::elsewhere);
  for (const uint32_t rank : {0u, 1u}) CHECK(enter(core, 1 + rank, "g0", rank).kind == Reply::Kind::done);
  leave(core, 2);
  CHECK(enter(core, 3, "g0", 1).kind == Reply::Kind::later);  // rank 0 has not left yet
  leave(core, 1);
  CHECK(enter(core, 4, "g0", 1).kind == Reply::Kind::later);
  CHECK(enter(core, 5, "g1", 1, 2, 1).kind == Reply::Kind::done);  // the next communicator of the same program
  CHECK(enter(core, 6, "g1", 1, 2, 1).kind == Reply::Kind::failure);
}

TEST_CASE("store group: a proof of zeros says that the client has another secret, and nothing else does") {
  for (const bool says_so : {true, false}) {
    World world(1);
    const StoreClientSession client(secret_of(8), challenge_of(1), "test");
    const uint64_t connection = world.connect();
    world.hub.receive(connection, client.output(), world.now);
    if (says_so) world.hub.receive(connection, wire::other_secret, world.now);
    if (!says_so) world.hub.receive(connection, Bytes(4, std::byte{0}), world.now);
    world.now += handshake_timeout_ns;
    world.hub.on_time(world.now);
    const auto cut = world.hub.take_cut();
    REQUIRE(cut.size() == 1);
    CHECK(cut[0].other_secret == says_so);
    CHECK_FALSE(cut[0].authenticated);
  }
}

TEST_CASE("store group: a second job's rank 0 fails the group of the first, or reports that ranks are mixed") {
  const std::string rival = std::string(rival_prefix) + "g0";
  StoreCore waiting({}, GroupNames::elsewhere);
  std::vector<Delivery> deliveries;
  CHECK(enter(waiting, 1, "g0", 0).kind == Reply::Kind::done);
  Request claim = make_request(Request::Kind::enter, rival);
  claim.count = 2;
  waiting.handle(2, claim, deliveries);
  REQUIRE(deliveries.size() == 2);  // the first job's rank and its rival get the error
  for (const Delivery &each : deliveries) CHECK(each.reply.error.message.find("two jobs") != std::string::npos);
  CHECK_FALSE(waiting.take_mixed_up());

  StoreCore complete({}, GroupNames::elsewhere);
  for (const uint32_t rank : {0u, 1u}) CHECK(enter(complete, 1 + rank, "g0", rank).kind == Reply::Kind::done);
  for (const uint64_t client : {1, 2}) leave(complete, client);
  CHECK(enter(complete, 3, "g0", 1).kind == Reply::Kind::later);
  CHECK(enter(complete, 4, rival, 0).error.status == RONDO_ERROR_MISMATCH);
  CHECK(complete.take_mixed_up());
  CHECK_FALSE(complete.take_mixed_up());  // reported only once
  CHECK(enter(complete, 5, "g0", 1).error.message.find("two jobs") != std::string::npos);  // the rival's rank 1
  CHECK(enter(complete, 6, "g0", 1).kind == Reply::Kind::later);
  CHECK(enter(complete, 7, "g1", 1, 2, 1).kind == Reply::Kind::done);  // the first job continues
  CHECK(enter(complete, 8, rival, 0).error.status == RONDO_ERROR_MISMATCH);
  complete.at(StoreGroups::rival_memory_ns);
  CHECK(enter(complete, 9, "g0", 1).kind == Reply::Kind::later);  // by now this is the first job's next program

  StoreCore early({}, GroupNames::elsewhere);  // the process that runs the store has not entered
  CHECK(enter(early, 1, rival, 0).kind == Reply::Kind::failure);
  CHECK(enter(early, 2, "g0", 0).error.message.find("two jobs") != std::string::npos);
}
