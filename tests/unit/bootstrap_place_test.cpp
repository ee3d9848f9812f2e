// SPDX-License-Identifier: Apache-2.0
// These tests check where the ranks of a job meet if their address is unusual. The name may resolve later, or to other
// addresses on other hosts. Another job may use the port, or an earlier job may have left the file.
#include <dlfcn.h>
#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "src/bootstrap/bytes.h"
#include "src/bootstrap/launch/process_info.h"
#include "src/bootstrap/launch/rendezvous.h"
#include "src/bootstrap/launch/rendezvous_file.h"
#include "src/bootstrap/launch/unique_id.h"
#include "src/bootstrap/resolver.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/unit/held_port.h"
#include "tests/unit/soon.h"

using namespace rondo;
using rondo_test::HeldPort;

namespace {

constexpr const char *soon_name = "rank0.soon.invalid";
std::atomic<int> lookups_left{0};  // the number of lookups of the name that fail

SocketAddress address(const char *host) { return socket_address({host, 29'500}).value(); }

Job job_of_two(uint32_t rank, const std::string &host, uint16_t port) {
  Job job;
  job.rendezvous = Job::RendezvousMethod::listen;
  job.rank = rank;
  job.size = 2;
  job.endpoint = {host, port};
  return job;
}

}  // namespace

/// Replaces the C library's function. One name resolves only after some lookups have failed.
extern "C" int getaddrinfo(const char *host, const char *port, const addrinfo *hints, addrinfo **list) {
  using Function = int(const char *, const char *, const addrinfo *, addrinfo **);
  static auto *const real = reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool numeric = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  if (host == nullptr || numeric || std::string_view(host) != soon_name) return real(host, port, hints, list);
  if (lookups_left.fetch_sub(1) > 0) return EAI_NONAME;
  return real("127.0.0.1", port, hints, list);
}

TEST_CASE("rendezvous: a name that does not resolve yet is looked up again, by rank 0 and by the others") {
  const HeldPort held;
  const uint16_t port = held.number();
  lookups_left = 3;
  bool met = false;
  std::thread other([&] { met = join_job(job_of_two(1, soon_name, port), 0, false, "", soon()).ok(); });
  CHECK(join_job(job_of_two(0, soon_name, port), 0, false, "", soon()).ok());
  other.join();
  CHECK(met);
  CHECK(lookups_left < 0);

  lookups_left = 1'000'000;
  const auto never = join_job(job_of_two(1, soon_name, port), 0, false, "", now_ns() + second_ns / 5);
  REQUIRE_FALSE(never.ok());
  CHECK(never.error().status == RONDO_ERROR_TIMEOUT);
  CHECK(never.error().message.find(soon_name) != std::string::npos);
  const auto cancel = Cancel::make();
  REQUIRE(cancel.ok());
  cancel.value()->request();
  for (const uint32_t rank : {0u, 1u})
    CHECK(join_job(job_of_two(rank, soon_name, port), 0, false, "", soon(), cancel.value().get()).error().status ==
          RONDO_ERROR_ABORTED);
  lookups_left = 0;
}

TEST_CASE("address: of several networks all are offered, the likeliest first, and bridges to guests only alone") {
  const auto of = [](const char *interface, const char *address, bool default_route = false, bool v6 = false) {
    return HostAddress{
        .interface = interface, .address = address, .up = true, .v6 = v6, .default_route = default_route};
  };
  using List = std::vector<std::string>;
  const HostAddress docker = of("docker0", "172.17.0.1"), nat = of("eth0", "10.0.2.15", true);
  const HostAddress cluster = of("eth1", "10.1.0.5"), cluster_v6 = of("eth1", "fd00::5", false, true);
  CHECK(pick_offers({docker, cluster, nat}) == List{"10.0.2.15", "10.1.0.5"});
  CHECK(pick_offers({docker, cluster_v6, cluster}) == List{"10.1.0.5"});
  CHECK(pick_offers({docker, of("virbr0", "192.168.122.1")}) == List{"172.17.0.1"});
  HostAddress loopback = of("lo", "127.0.0.1"), down = of("eth2", "10.2.0.5");
  loopback.loopback = true;
  down.up = false;
  CHECK(pick_offers({loopback, down}).empty());
  std::vector<HostAddress> many;
  for (int each = 0; each < 9; ++each)
    many.push_back(of(("eth" + std::to_string(each)).c_str(), ("10.9.0." + std::to_string(each)).c_str()));
  CHECK(pick_offers(many).size() == offers_max);
  CHECK(offer_addresses("lo").value().host == "127.0.0.1");
  CHECK(address_of_route("127.0.0.1")->interface == "lo");
  CHECK_FALSE(address_of_route("no address"));
}

TEST_CASE("unique id: it carries the addresses of several networks") {
  UniqueId id;
  for (const char *hosts : {"192.0.2.7", "192.0.2.7,198.51.100.7", "fd00::7,10.0.2.15",
                            "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5"}) {
    id.endpoint = {hosts, 4000};
    CHECK(decode_unique_id(encode_unique_id(id).value()).value() == id);
  }
  id.endpoint.host = "10.0.0.1,fd00::7,10.0.0.2";  // with mixed addresses, an id keeps only the IPv4 ones
  CHECK(decode_unique_id(encode_unique_id(id).value()).value().endpoint.host == "10.0.0.1,10.0.0.2");
}

TEST_CASE("listen place: rank 0 listens so that others reach it, or says what is wrong with MASTER_ADDR") {
  const std::vector<HostAddress> own{{"lo", "127.0.0.1", true, true, false, false},
                                     {"eth0", "10.0.0.5", true, false, false, false},
                                     {"eth1", "10.1.0.5", false, false, false, false}};
  std::vector<HostAddress> both = own;
  both.push_back({"eth0", "2001:db8::5", true, false, true, false});
  const auto listens = [&](const char *master, std::vector<SocketAddress> is, const std::vector<HostAddress> &mine,
                           const char *chosen = "") {
    const auto place = pick_listen_place({master, 29'500}, is, mine, chosen);
    return place.ok() ? place.value().listen.host + " " + place.value().connect.host : place.error().message;
  };
  CHECK(listens("10.0.0.5", {address("10.0.0.5")}, own) == "10.0.0.5 10.0.0.5");
  CHECK(listens("h0", {address("10.0.0.5")}, own) == "10.0.0.5 10.0.0.5");
  // With Debian's /etc/hosts, a host's name is loopback on that host, but not on others.
  CHECK(listens("h0", {address("127.0.1.1")}, own) == "0.0.0.0 127.0.1.1");
  CHECK(listens("h0", {address("127.0.1.1")}, both) == ":: 127.0.1.1");
  CHECK(listens("h0", {address("127.0.1.1"), address("10.0.0.5")}, own) == "10.0.0.5 10.0.0.5");
  // Another host may reach only some of the addresses of a name.
  std::vector<HostAddress> two_networks = own;
  two_networks[2].up = true;
  CHECK(listens("h0", {address("10.0.0.5"), address("10.1.0.5")}, two_networks) == "0.0.0.0 10.0.0.5");
  CHECK(listens("h0", {address("10.0.0.5"), address("2001:db8::5")}, both) == ":: 10.0.0.5");
  CHECK(listens("h0", {address("10.0.0.5"), address("10.1.0.5")}, own) == "10.0.0.5 10.0.0.5");  // one is down
  CHECK(listens("h0", {address("10.0.0.5"), address("10.0.0.5")}, own) == "10.0.0.5 10.0.0.5");  // named twice
  // If an address is local to this host, the server listens only there.
  for (const char *loopback : {"127.0.0.1", "localhost", "127.0.1.1"})
    CHECK(listens(loopback, {address("127.0.0.1")}, both) == "127.0.0.1 127.0.0.1");
  CHECK(listens("::1", {address("::1")}, both) == "::1 ::1");
  CHECK(listens("0.0.0.0", {address("0.0.0.0")}, own) == "0.0.0.0 0.0.0.0");
  for (const char *foreign : {"192.0.2.7", "10.1.0.5"}) {  // the second is of an interface that is down
    const std::string why = listens(foreign, {address(foreign)}, own);
    CHECK(why.find(foreign) != std::string::npos);
    CHECK(why.find("not an address of this host") != std::string::npos);
    CHECK(why.find("10.0.0.5 (eth0)") != std::string::npos);
    CHECK(why.find("RONDO_INTERFACE") != std::string::npos);
    CHECK(why.find("port") == std::string::npos);
  }
  CHECK(listens("192.0.2.7", {address("192.0.2.7")}, own, "10.0.0.5") == "10.0.0.5 10.0.0.5");
  const auto refused = join_job(job_of_two(0, "192.0.2.7", 29'500), 0, false, "", soon());
  CHECK(refused.error().message.find("not an address of this host") != std::string::npos);
}

TEST_CASE("rendezvous: a port that is taken is spoken of, and a job of the same description is told", "[file]") {
  const HeldPort held;
  const uint16_t port = held.number();
  const Job zero = job_of_two(0, "127.0.0.1", port);
  Result<Rendezvous> first = Error{RONDO_ERROR_INTERNAL, ""};
  std::thread waits([&] { first = join_job(zero, 0, false, "", soon()); });
  Result<Rendezvous> second = Error{RONDO_ERROR_INTERNAL, ""};
  while (second = join_job(zero, 0, false, "", now_ns() + 20 * second_ns), second.ok()) {
  }
  waits.join();
  // Either rank 0 may have become the server. In both cases, both of them must get the error.
  for (const auto *each : {&first, &second}) {
    REQUIRE_FALSE(each->ok());
    CHECK(each->error().status == RONDO_ERROR_MISMATCH);
    CHECK(each->error().message.find("two jobs meet at this address and port") != std::string::npos);
  }
  const auto other = start_store_server({"127.0.0.1", port}, random_secret());
  REQUIRE(other.ok());
  const auto taken = join_job(zero, 0, false, "", soon());
  CHECK(taken.error().message.find("RONDO_PORT") != std::string::npos);
  CHECK(taken.error().message.find("no store of this job answers there") != std::string::npos);
}

TEST_CASE("rendezvous: a file that names a store which is gone is read again until rank 0 has replaced it", "[file]") {
  char directory[] = "/tmp/rondo-test-XXXXXX";
  REQUIRE(::mkdtemp(directory) != nullptr);
  Job job;
  job.rendezvous = Job::RendezvousMethod::file;
  job.size = 2;
  job.name = "requeued";
  job.directory = directory;
  for (const bool port_taken : {false, true}) {
    CAPTURE(port_taken);
    auto old = start_unique_id_server("lo");
    REQUIRE(old.ok());
    RendezvousRecord record{old.value().id, {}, 1, 1};
    record.boot.fill(std::byte{7});  // another host's boot id
    const Endpoint place = old.value().server->endpoint();
    old.value().server.reset();
    const auto later = port_taken ? start_store_server(place, random_secret())
                                  : Result<std::unique_ptr<StoreServer>>(std::unique_ptr<StoreServer>());
    REQUIRE(later.ok());
    const std::string folder = std::string(directory) + "/rondo-" + std::to_string(::geteuid());
    ::mkdir(folder.c_str(), 0700);
    const Bytes bytes = encode(record);
    std::ofstream(folder + "/requeued-0", std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(::chmod((folder + "/requeued-0").c_str(), 0600) == 0);
    Job one = job;
    one.rank = 1;
    const auto alone = join_job(one, 0, false, "", now_ns() + 2 * second_ns);  // rank 0 never joins
    REQUIRE_FALSE(alone.ok());
    CHECK(alone.error().status == RONDO_ERROR_TIMEOUT);
    CHECK(alone.error().message.find("requeued-0") != std::string::npos);
    std::atomic<bool> met = false;
    std::thread first([&] { met = join_job(one, 0, false, "", soon()).ok(); });
    sleep_for_ns(second_ns + second_ns / 2);  // longer than a rank tries a port without a listener
    CHECK(join_job(job, 0, false, "", soon()).ok());
    first.join();
    CHECK(met);
    ::rmdir(folder.c_str());
  }
  ::rmdir(directory);
}
