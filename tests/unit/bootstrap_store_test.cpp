// SPDX-License-Identifier: Apache-2.0
// The store over real sockets on loopback: client, server, authentication, deadlines.
#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/unique_id.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/test_clock.h"
#include "tests/timed.h"
#include "tests/unit/soon.h"

using namespace rondo;

namespace {

Bytes text(std::string_view value) {
  const ByteView bytes = bytes_of(value);
  return {bytes.begin(), bytes.end()};
}

/// Prints a line that scripts/summary.py counts.
void skip_ipv6(const char *what, const Error &error) {
  std::printf("skipped: %s over IPv6: no loopback here: %s\n", what, error.message.c_str());
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("endpoint: several hosts are tried in turn, and something else that listens at one of them is passed over") {
  CHECK(split_hosts(join_hosts(std::vector<std::string>{"192.0.2.7", "fd00::7"})) ==
        std::vector<std::string>{"192.0.2.7", "fd00::7"});
  const Endpoint both{"192.0.2.7,fd00::7", 4000};
  CHECK(format_endpoint(both) == "[192.0.2.7,fd00::7]:4000");
  CHECK(parse_endpoint(format_endpoint(both)).value() == both);
  CHECK(addresses_of(both).value().size() == 2);
  CHECK_FALSE(addresses_of({"192.0.2.7,", 4000}).ok());
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.3", 0}, secret);
  REQUIRE(server.ok());
  const uint16_t port = server.value()->endpoint().port;
  const auto other = start_store_server({"127.0.0.2", port}, random_secret());
  REQUIRE(other.ok());
  const auto store = connect_store({"127.0.0.1,127.0.0.2,127.0.0.3", port}, secret, soon());  // no server at the first
  REQUIRE(store.ok());
  CHECK(store.value()->is_on_this_host());
  for (const char *hosts : {"127.0.0.2,127.0.0.3", "127.0.0.1,127.0.0.2,127.0.0.3", "127.0.0.2,127.0.0.1"}) {
    const auto refused = connect_store({hosts, port}, random_secret(), soon());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().status == RONDO_ERROR_AUTHENTICATION);
  }
}

TEST_CASE("store: a value that one client puts, another one gets, also when it asked first") {
  for (const char *host : {"127.0.0.1", "::1"}) {
    CAPTURE(host);
    const Secret secret = random_secret();
    const auto server = start_store_server({host, 0}, secret);
    if (!server.ok() && std::string(host) == "::1") {
      skip_ipv6("store", server.error());
      continue;
    }
    REQUIRE(server.ok());
    const Endpoint endpoint = server.value()->endpoint();
    std::thread asker([&] {
      const auto store = connect_store(endpoint, secret, soon());
      if (store.ok()) (void)store.value()->put("answer", text("here"), soon());
    });
    auto store = connect_store(endpoint, secret, soon());
    REQUIRE(store.ok());
    const auto got = store.value()->get("answer", soon());
    asker.join();
    REQUIRE(got.ok());
    CHECK(text_of(got.value()) == "here");
    CHECK(store.value()->put("answer", text("here"), soon()).ok());
    CHECK(store.value()->put("answer", text("there"), soon()).error().status == RONDO_ERROR_MISMATCH);
  }
}

TEST_CASE("store: one struct of each rank is read back in rank order, and one of another size names its rank") {
  struct Info {
    uint32_t node;
    uint16_t port;
    bool operator==(const Info &) const = default;
  };
  const auto bytes_of_info = [](const Info &info) {
    const auto bytes = std::as_bytes(std::span(&info, 1));
    return Bytes(bytes.begin(), bytes.end());
  };
  std::vector<Bytes> parts{bytes_of_info({7, 1}), bytes_of_info({9, 2})};
  const auto all = structs_of<Info>(parts);
  REQUIRE(all.ok());
  CHECK(all.value() == std::vector<Info>{{7, 1}, {9, 2}});
  parts[1].push_back(std::byte{0});
  const auto other = structs_of<Info>(parts);
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().status == RONDO_ERROR_MISMATCH);
  CHECK(other.error().peer == 1);
}

TEST_CASE("store: 8 ranks gather over sockets, repeatedly, large and empty parts alike") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  constexpr uint32_t rank_count = 8;
  std::vector<int> right(rank_count, 0);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto store = connect_store(server.value()->endpoint(), secret, soon());
      if (!store.ok()) return;
      for (const size_t part_bytes : {0u, 1u, 1000u, 900'000u}) {
        const Bytes part(part_bytes, std::byte(rank));
        const auto parts = store.value()->gather("round " + std::to_string(part_bytes), rank, rank_count, part, soon());
        if (!parts.ok() || parts.value().size() != rank_count) return;
        for (uint32_t from = 0; from < rank_count; ++from)
          right[rank] += parts.value()[from] == Bytes(part_bytes, std::byte(from));
      }
    });
  }
  for (auto &thread : ranks) thread.join();
  CHECK(right == std::vector<int>(rank_count, 4 * rank_count));
}

TEST_CASE("store: without the secret neither side talks to the other") {
  const auto server = start_store_server({"127.0.0.1", 0}, random_secret());
  REQUIRE(server.ok());
  const auto store = connect_store(server.value()->endpoint(), random_secret(), soon());
  REQUIRE((!store.ok() && store.error().status == RONDO_ERROR_AUTHENTICATION));
  const StoreHost host{.rank = 3, .name = "the host", .has_secret = true};
  const auto ended = connect_store(server.value()->endpoint(), random_secret(), soon(), {}, host);
  REQUIRE((!ended.ok() && ended.error().status == RONDO_ERROR_REMOTE && ended.error().peer == 3));
  CHECK(ended.error().message.starts_with("another program listens at "));
}

TEST_CASE("store: a deadline that passes names the key or the missing ranks, and the connection stays usable") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const auto store = connect_store(server.value()->endpoint(), secret, soon());
  REQUIRE(store.ok());
  rondo_test::HeldClock clock;  // no deadline passes while the server is slow to answer
  const auto nothing = store.value()->get("never", now_ns());
  REQUIRE_FALSE(nothing.ok());
  CHECK(nothing.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(nothing.error().message.find("'never'") != std::string::npos);
  const uint64_t deadline_ns = now_ns() + second_ns / 100;
  std::thread passing([&] { clock.advance(second_ns / 100); });
  const auto alone = store.value()->gather("group", 1, 4, text("me"), deadline_ns);
  passing.join();
  REQUIRE_FALSE(alone.ok());
  CHECK(alone.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(alone.error().peer == 0);
  CHECK(alone.error().message.find("ranks 0, 2, 3 (3 of 4)") != std::string::npos);
  CHECK(store.value()->put("still", text("fine"), soon()).ok());
}

TEST_CASE("store: a question that does not wait is answered by a later call, and other calls may come between") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const auto store = connect_store(server.value()->endpoint(), secret, soon());
  const auto other = connect_store(server.value()->endpoint(), secret, soon());
  REQUIRE(store.ok());
  REQUIRE(other.ok());
  for (int call = 0; call < 2'000; ++call) {
    const auto nothing = store.value()->try_get("answer");
    REQUIRE(nothing.ok());
    REQUIRE_FALSE(nothing.value());
  }
  REQUIRE(other.value()->put("answer", text("here"), soon()).ok());
  const auto answer_of = [&](std::string_view key) {
    const uint64_t deadline_ns = soon();
    for (;;) {  // ends at the deadline
      const auto said = store.value()->try_get(key);
      REQUIRE(said.ok());
      if (said.value()) return text_of(*said.value());
      // The query may still be in flight.
      REQUIRE(store.value()->put("own", text("part"), soon()).ok());
      REQUIRE(now_ns() < deadline_ns);
      sleep_for_ns(second_ns / 100);
    }
  };
  CHECK(store.value()->try_get("own").ok());  // the next query must not take this answer
  CHECK(answer_of("answer") == "here");
  const auto again = store.value()->try_get("answer");  // finds the answer that came before
  REQUIRE(again.ok());
  REQUIRE(again.value());
  CHECK(text_of(*again.value()) == "here");
  CHECK(answer_of("own") == "part");
  REQUIRE(store.value()->get("answer", soon()).ok());
}

TEST_CASE("store: a thousand questions that do not wait take less than a second", "[.timed]") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const auto store = connect_store(server.value()->endpoint(), secret, soon());
  REQUIRE(store.ok());
  const auto ask = [&] {
    const uint64_t begun_ns = now_ns();
    for (int call = 0; call < 1'000; ++call) REQUIRE(store.value()->try_get("answer").ok());
    return now_ns() - begun_ns;
  };
  rondo_test::check_timed("store: 1000 questions that do not wait", second_ns, ask);
}

TEST_CASE("store: a rank that asks and does not wait hears of the group's failure, and says its goodbye") {
  const Secret secret = random_secret();
  auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  for (const bool fails : {true, false}) {
    CAPTURE(fails);
    std::vector<std::unique_ptr<Store>> ranks;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      auto store = connect_store(server.value()->endpoint(), secret, soon(), Membership{fails ? "a" : "b", rank, 2});
      REQUIRE(store.ok());
      ranks.push_back(std::move(store).value());
    }
    REQUIRE(ranks[0]->try_get("never").ok());
    if (!fails) ranks[0]->leave({});  // the rank leaves while its query is in flight
    ranks[0].reset();
    Error failure{RONDO_OK, ""};
    const uint64_t deadline_ns = fails ? soon() : now_ns() + second_ns / 2;
    while (failure.status == RONDO_OK && now_ns() < deadline_ns) {
      const auto said = ranks[1]->try_get("never");
      if (!said.ok()) failure = said.error();
      sleep_for_ns(second_ns / 100);
    }
    CHECK(failure.status == (fails ? RONDO_ERROR_REMOTE : RONDO_OK));
    CHECK(failure.peer == (fails ? 0 : -1));
    CHECK_FALSE(ranks[1]->gone());
  }
}

TEST_CASE("store: a rank works while it waits for others, over sockets and in one process") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  for (const bool sockets : {true, false}) {
    CAPTURE(sockets);
    auto stores = make_local_stores(2);
    for (auto &each : stores) {
      if (!sockets) continue;
      auto connected = connect_store(server.value()->endpoint(), secret, soon());
      REQUIRE(connected.ok());
      each = std::move(connected).value();
    }
    std::atomic<int> works = 0;
    bool gathered = false;
    std::thread waiter([&] {
      const IdleWork work(*stores[0], [&works] { ++works; });
      { const IdleWork inner(*stores[0], [] {}); }  // its end restores the outer work
      gathered = stores[0]->gather("group", 0, 2, text("me"), soon()).ok();
    });
    for (const uint64_t deadline_ns = soon(); works < 3 && now_ns() < deadline_ns;)
      sleep_for_ns(second_ns / 1000);
    CHECK(works >= 3);  // all before the other rank entered
    CHECK(stores[1]->gather("group", 1, 2, text("it"), soon()).ok());
    waiter.join();
    CHECK(gathered);
    const int before = works;
    CHECK_FALSE(stores[0]->get("never", now_ns() + second_ns / 50).ok());
    CHECK(works == before);
  }
}

TEST_CASE("store: nobody listening is a timeout that says so, and a server that ends is told apart") {
  const Secret secret = random_secret();
  auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  const Endpoint endpoint = server.value()->endpoint();
  const auto store = connect_store(endpoint, secret, soon());
  REQUIRE(store.ok());
  server.value().reset();
  const auto got = store.value()->get("key", soon());
  REQUIRE_FALSE(got.ok());
  CHECK(got.error().status == RONDO_ERROR_REMOTE);
  const auto late = connect_store(endpoint, secret, now_ns() + second_ns / 20);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().status == RONDO_ERROR_TIMEOUT);
  CHECK_THAT(late.error().message, Contains("do firewalls allow the port?"));
  for (const bool loopback : {true, false}) {  // 0.0.0.0 leads to this host, like an address that two hosts share
    const Endpoint nobody{loopback ? "127.0.0.1" : "0.0.0.0", endpoint.port};
    const auto absent = connect_store(nobody, secret, soon(), std::nullopt, {.runs_already = true});
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().status == RONDO_ERROR_REMOTE);
    CHECK_THAT(absent.error().message, Contains("no process listens"));
    CHECK(loopback != (absent.error().message.find("set RONDO_INTERFACE on both") != std::string::npos));
  }
}

TEST_CASE("store: a server that ends tells clients that wait which ranks they waited for") {
  const Secret secret = random_secret();
  auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  auto here = connect_store(server.value()->endpoint(), secret, soon());
  const auto there = connect_store(server.value()->endpoint(), secret, soon());
  REQUIRE(here.ok());
  REQUIRE(there.ok());
  Result<std::vector<Bytes>> waited = std::vector<Bytes>();
  std::thread waiter([&] { waited = here.value()->gather("group", 1, 3, text("me"), soon()); });
  // If, according to the store, only rank 0 is missing for the other client's gather, rank 1's part has arrived.
  std::optional<rondo_test::HeldClock> clock(std::in_place);  // no deadline passes while the server is slow to answer
  for (bool come = false; !come;) {
    const auto asked = there.value()->gather("group", 2, 3, text("it"), now_ns());
    REQUIRE_FALSE(asked.ok());
    come = asked.error().message.find("rank 0 (1 of 3)") != std::string::npos;
  }
  clock.reset();
  server.value().reset();
  waiter.join();
  REQUIRE_FALSE(waited.ok());
  CHECK(waited.error().status == RONDO_ERROR_REMOTE);
  CHECK(waited.error().message.find("rank 0 (1 of 3)") != std::string::npos);
}

TEST_CASE("unique id: its server can be reached with what it carries, and damage anywhere is refused") {
  for (const char *interface : {"lo", "::1", ""}) {
    CAPTURE(interface);
    const auto made = start_unique_id_server(interface);
    if (!made.ok() && std::string(interface) == "::1") {
      skip_ipv6("unique id", made.error());
      continue;
    }
    REQUIRE(made.ok());
    const auto id = decode_unique_id(made.value().id);
    REQUIRE(id.ok());
    CHECK(id.value().endpoint.port == made.value().server->endpoint().port);
    const bool several = split_hosts(id.value().endpoint.host).size() > 1;  // if so, the server listens on all
    if (!several) CHECK(id.value().endpoint == made.value().server->endpoint());
    CHECK((!several || std::string(interface) == ""));
    CHECK(group_name(id.value()).size() == 32);
    if (std::string(interface) != "") CHECK(connect_store(id.value().endpoint, id.value().secret, soon()).ok());
    for (size_t at = 0; at < sizeof made.value().id.internal; ++at) {
      rondo_unique_id_t damaged = made.value().id;
      damaged.internal[at] = static_cast<char>(damaged.internal[at] ^ 1);
      const auto refused = decode_unique_id(damaged);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().status == RONDO_ERROR_INVALID_ARGUMENT);
    }
  }
  CHECK_FALSE(decode_unique_id(rondo_unique_id_t{}).ok());
}

TEST_CASE("store: a rank that has failed tells the others, which need not wait for it") {
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  constexpr uint32_t rank_count = 3;
  const std::vector<std::string> names{"rank 0 (host a)", "rank 1 (host b)", "rank 2 (host b)"};
  // In the last case two ranks fail, and the message names them.
  for (const uint32_t failures : {0u, 1u, 2u}) {
    const bool fails = failures > 0, named = failures == 2;
    CAPTURE(failures);
    std::vector<Error> errors(rank_count, Error{RONDO_OK, {}});
    std::vector<std::vector<Bytes>> parts(rank_count);
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      ranks.emplace_back([&, rank] {
        const auto store = connect_store(server.value()->endpoint(), secret, soon());
        if (!store.ok()) return;
        Result<Bytes> own = text("part " + std::to_string(rank));
        if (rank != 0 && rank <= failures) own = Error{RONDO_ERROR_OUT_OF_RESOURCES, "no memory left"};
        auto all = gather_outcomes(*store.value(), std::to_string(failures), rank, rank_count, own, soon(),
                                   named ? std::span<const std::string>(names) : std::span<const std::string>());
        if (all.ok())
          parts[rank] = std::move(all.value());
        else
          errors[rank] = all.error();
      });
    for (std::thread &rank : ranks) rank.join();
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      CAPTURE(rank);
      if (!fails) {
        CHECK(errors[rank].message.empty());
        REQUIRE(parts[rank].size() == rank_count);
        CHECK(text_of(parts[rank][2]) == "part 2");
        continue;
      }
      CHECK(errors[rank].status == RONDO_ERROR_OUT_OF_RESOURCES);
      if (named) {
        CHECK(errors[rank].message == "rank 1 (host b): no memory left");
        CHECK(errors[rank].peer == 1);
        continue;
      }
      CHECK(errors[rank].message == (rank == 1 ? "no memory left" : "rank 1 failed: no memory left"));
      CHECK(errors[rank].peer == (rank == 1 ? -1 : 1));
    }
  }
}
