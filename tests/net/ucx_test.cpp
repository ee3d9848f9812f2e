// SPDX-License-Identifier: Apache-2.0
// These tests check that UCX changes nothing forbidden in a process, and that strangers and broken peers do no harm.
#include <dlfcn.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "src/base/clock.h"
#include "src/bootstrap/store/forwarding_store.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"
#include "tests/net/side.h"
#include "tests/net/ucx_pair.h"
#include "tests/sanitized.h"
#include "transports/ucx/worker.h"

using namespace rondo;
using namespace rondo::net_test;

extern char **environ;

namespace {

constexpr uint64_t patience_ns = 60'000'000'000;
constexpr size_t outcome_bytes = sizeof(uint32_t);  // the status in front of each part of gather_outcomes()
constexpr size_t offer_head = outcome_bytes + wire::challenge_bytes + sizeof(uint8_t);

wire::Challenge challenge_in(const Bytes &offer) {
  wire::Challenge challenge{};
  std::copy_n(offer.begin() + outcome_bytes, challenge.size(), challenge.begin());
  return challenge;
}

/// Two ranks that have met over UCX, and a third worker, which sends the test's messages to rank 0.
struct Scene {
  Side sides[2] = {Side(0), Side(1)};
  Gathered gathered;
  std::unique_ptr<ucx::Worker> worker;
  ucp_ep_h endpoint = nullptr;

  Scene() {
    NetworkPair pair = connect_ucx_pair({NetworkEnd{sides[0].memory.links}, NetworkEnd{sides[1].memory.links}}, "inf");
    gathered = std::move(pair.gathered);
    for (Side &side : sides)
      side.progress = std::make_unique<net::Progress>(side.memory.links, std::move(pair.networks[side.number]));
    auto opened = ucx::Worker::open();
    REQUIRE(opened.ok());
    worker = std::move(opened).value();
    const Bytes of_rank_0 = offer(0);
    auto connected = worker->connect(
        ByteView(of_rank_0).subspan(offer_head), [](void *, ucp_ep_h, ucs_status_t) {}, nullptr);
    REQUIRE(connected.ok());
    endpoint = connected.value();
  }

  Bytes offer(uint32_t rank) const { return gathered.at("test/ucx").at(rank); }

  /// Returns a header as rank 1 would send it to rank 0.
  ucx::Header header_of_rank_1() {
    const ucx::Introduction known =
        ucx::introduce(ucx_request(1).secret, 1, challenge_in(offer(1)), 0, challenge_in(offer(0)));
    ucx::Header header;
    header.tag = known.own_tag;
    header.rank = 1;
    header.kind = static_cast<uint16_t>(ucx::MessageKind::slot);
    header.bytes = 8;
    return header;
  }

  /// Sends the header with 8 bytes. Waits until the network of rank 0's host has taken the message. If the message is
  /// not dropped, also waits until rank 0 has seen it.
  void send(const ucx::Header &header, bool dropped = false) {
    ucp_request_param_t how{};
    finish(worker->api().ucp_am_send_nbx(endpoint, ucx::slot_id, &header, sizeof header, "12345678", 8, &how));
    finish(worker->api().ucp_ep_flush_nbx(endpoint, &how));
    const uint64_t deadline_ns = now_ns() + patience_ns;
    const auto seen = [&] { return !sides[0].progress->lost().empty() || sides[0].receivers[0].can_receive(); };
    for (int round = 0; round < 1'000 || (!dropped && !seen() && now_ns() < deadline_ns); ++round)
      sides[0].progress->step();
  }

  void finish(ucs_status_ptr_t said) {
    REQUIRE_FALSE(UCS_PTR_IS_ERR(said));
    const uint64_t deadline_ns = now_ns() + patience_ns;
    while (said != nullptr && worker->api().ucp_request_check_status(said) == UCS_INPROGRESS) {
      worker->progress();
      sides[0].progress->step();
      REQUIRE(now_ns() < deadline_ns);
    }
    if (said != nullptr) worker->api().ucp_request_free(said);
  }
};

/// The store of a rank that enters the last exchange of all ranks when the test allows it.
class HeldStore final : public ForwardingStore {
 public:
  HeldStore(Store &store, bool hold) : ForwardingStore(store), held(hold) {}
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) override {
    const bool last = key == "test/ucx/met";
    if (last) came = true;
    while (last && held && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
    auto parts = ForwardingStore::gather(key, rank, count, value, deadline_ns);
    if (!last && parts.ok()) offers = parts.value();
    return parts;
  }

  std::vector<Bytes> offers;  ///< set when the rank has entered
  std::atomic<bool> came = false;
  std::atomic<bool> held;
};

/// Checks that the worker at `address` answers a stranger's rendezvous message, and fetches nothing for it.
Result<void> check_rendezvous(ByteView address) {
  RONDO_TRY_ASSIGN(const auto opened, ucx::Worker::open());
  const ucx::Worker &worker = *opened;
  RONDO_TRY_ASSIGN(const ucp_ep_h endpoint, worker.connect(address, [](void *, ucp_ep_h, ucs_status_t) {}, nullptr));
  const ucx::Header header{};
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = UCP_AM_SEND_FLAG_RNDV;
  const ucs_status_ptr_t said = worker.api().ucp_am_send_nbx(endpoint, ucx::slot_id, &header, sizeof header,
                                                             "12345678", 8, &how);
  if (!UCS_PTR_IS_PTR(said)) return Error{RONDO_ERROR_INTERNAL, "the message did not go by rendezvous"};
  const auto waits = [&] { return worker.api().ucp_request_check_status(said) == UCS_INPROGRESS; };
  for (const uint64_t deadline_ns = now_ns() + patience_ns; waits() && now_ns() < deadline_ns;) worker.progress();
  const bool answered = !waits();
  worker.api().ucp_request_free(said);
  if (!answered) return Error{RONDO_ERROR_TIMEOUT, "no answer came"};
  return {};
}

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char **each = environ; *each != nullptr; ++each) all.emplace_back(*each);
  return all;
}

}  // namespace

TEST_CASE("ucx: loading it leaves the application's signals and environment alone", "[net]") {
  const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGHUP, SIGTERM, SIGUSR1, SIGCHLD};
  const std::vector<std::string> before = environment();
  if (!ucx::look_for_ucx().found) {
    std::printf("skipped: what UCX does to a process: %s\n", ucx::look_for_ucx().why_not.c_str());
    return;
  }
  CHECK(environment() == before);
  for (const int number : numbers) {
    struct sigaction action {};
    REQUIRE(::sigaction(number, nullptr, &action) == 0);
    INFO("signal " << number);
    // While a test runs, Catch has its own handlers, except for signals that it does not know.
    Dl_info owner{};
    if (::dladdr(reinterpret_cast<const void *>(action.sa_handler), &owner) != 0)
      CHECK(std::string(owner.dli_fname).find("libucs") == std::string::npos);
  }
}

TEST_CASE("ucx: a message whose tag is wrong is dropped, and the ranks go on", "[net]") {
  if (!ucx_is_there()) return;
  Scene scene;
  ucx::Header header = scene.header_of_rank_1();
  header.tag ^= 1;
  scene.send(header, true);
  CHECK(scene.sides[0].progress->lost().empty());
  CHECK_FALSE(scene.sides[0].receivers[0].can_receive());
  REQUIRE(scene.sides[1].post(0, 1));
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!scene.sides[0].receive(0)) {
    for (Side &side : scene.sides) side.progress->step();
    REQUIRE(now_ns() < deadline_ns);
  }
  CHECK_FALSE(scene.sides[0].wrong);
}

TEST_CASE("ucx: a peer's message that does not fit the link's state ends the link and is written nowhere", "[net]") {
  if (!ucx_is_there()) return;
  using Change = void (*)(ucx::Header &);
  const Change changes[] = {[](ucx::Header &it) { it.counter = small_geometry().slot_count; },
                            [](ucx::Header &it) { it.bytes = 9; },
                            [](ucx::Header &it) { it.channel = channel_count; },
                            [](ucx::Header &it) { it.kind = 0x1234; },
                            [](ucx::Header &it) { it.consumed = 1; }};
  for (const Change change : changes) {
    Scene scene;
    ucx::Header header = scene.header_of_rank_1();
    change(header);
    scene.send(header);
    REQUIRE(scene.sides[0].progress->lost() == std::vector<uint32_t>{1});
    CHECK(scene.sides[0].progress->why_lost(1).message.find("it sent an invalid message: ") != std::string::npos);
    CHECK_FALSE(scene.sides[0].receivers[0].can_receive());
    for (const net::NearLink &link : scene.sides[0].memory.links)
      CHECK(std::memcmp(link.incoming.payload(0), "12345678", 8) != 0);
  }
}

TEST_CASE("ucx: a well-formed message of a peer is taken, so that the refusals above mean something", "[net]") {
  if (!ucx_is_there()) return;
  Scene scene;
  scene.send(scene.header_of_rank_1());
  CHECK(scene.sides[0].progress->lost().empty());
  REQUIRE(scene.sides[0].receivers[0].can_receive());
  CHECK(std::memcmp(scene.sides[0].receivers[0].payload(), "12345678", 8) == 0);
}

TEST_CASE("ucx: a rank that does not know the secret is never let in", "[net]") {
  if (!ucx_is_there()) return;
  Side sides[2] = {Side(0), Side(1)};
  const auto stores = make_local_stores(2);
  ucx::JoinRequest honest = ucx_request(0);
  ucx::JoinRequest stranger = ucx_request(1);
  stranger.secret.bytes.fill(std::byte{8});
  const uint64_t limit_ns = rondo_test::sanitized() ? 20'000'000'000 : 5'000'000'000;  // enough to exchange addresses
  honest.deadline_ns = stranger.deadline_ns = now_ns() + limit_ns;
  std::thread other([&] {
    const auto refused = ucx::make_network(sides[1].memory.links, stranger, *stores[1]);
    static_cast<void>(refused.ok());
  });
  const auto made = ucx::make_network(sides[0].memory.links, honest, *stores[0]);
  other.join();
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().peer == 1);
  CHECK(made.error().message.find("rank 0 (host a, process 1) cannot reach rank 1") != std::string::npos);
}

TEST_CASE("ucx: a rank that waits for all others to have met still answers its peers", "[net]") {
  if (!ucx_is_there()) return;
  ::setenv("UCX_RNDV_THRESH", "inf", 1);  // otherwise the greeting itself would wait for the held rank
  Side sides[2] = {Side(0), Side(1)};
  const auto stores = make_local_stores(2);
  HeldStore waits(*stores[0], false), late(*stores[1], true);
  HeldStore *const by_rank[2] = {&waits, &late};
  bool made[2] = {};
  const auto join = [&](uint32_t rank) {
    made[rank] = ucx::make_network(sides[rank].memory.links, ucx_request(rank), *by_rank[rank]).ok();
  };
  std::thread first(join, 0), second(join, 1);
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!(waits.came && late.came) && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
  Result<void> answered = Error{RONDO_ERROR_TIMEOUT, "the ranks did not meet"};
  if (waits.came && late.came) answered = check_rendezvous(ByteView(waits.offers[0]).subspan(offer_head));
  late.held = false;
  first.join();
  second.join();
  INFO((answered.ok() ? "" : answered.error().message));
  CHECK(answered.ok());
  CHECK(made[0]);
  CHECK(made[1]);
}
