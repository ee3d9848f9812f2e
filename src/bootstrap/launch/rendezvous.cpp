// SPDX-License-Identifier: Apache-2.0
// This file lets the ranks of a job or of a unique id meet.
#include "src/bootstrap/launch/rendezvous.h"

#include <algorithm>
#include <cerrno>

#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/rendezvous_file.h"
#include "src/bootstrap/resolver.h"
#include "src/bootstrap/store/store.h"

namespace rondo {
namespace {

constexpr uint64_t claim_ns = 3'000'000'000;
constexpr uint64_t file_attempt_ns = 5'000'000'000;
constexpr uint64_t file_pause_ns = 100'000'000;

Membership member_of(const Rendezvous &rendezvous) {
  return {rendezvous.key_prefix, rendezvous.rank, rendezvous.size, rendezvous.generation};
}

/// Waits for all ranks at the store of the group, which this rank has entered.
Result<Rendezvous> meet(Rendezvous rendezvous, uint64_t deadline_ns, std::function<void()> idle = {}) {
  const IdleWork work(*rendezvous.store, std::move(idle));
  const auto met =
      rendezvous.store->gather(rendezvous.key_prefix + "join", rendezvous.rank, rendezvous.size, {}, deadline_ns);
  if (met.ok()) return rendezvous;
  rendezvous.store->leave(met.error());
  return met.error();
}

/// Enters the group at its store, and waits for all ranks.
Result<Rendezvous> complete(Rendezvous rendezvous, const Endpoint &endpoint, const Secret &secret,
                            const StoreHost &host, uint64_t deadline_ns, const Cancel *cancel,
                            std::function<void()> idle = {}) {
  rendezvous.secret = secret;
  log::debug({log::Subsystem::bootstrap, rendezvous.rank}, "meets the other ranks at " + format_endpoint(endpoint));
  const Membership member = member_of(rendezvous);
  RONDO_TRY_ASSIGN(rendezvous.store, connect_store(endpoint, secret, deadline_ns, member, host, cancel));
  return meet(std::move(rendezvous), deadline_ns, std::move(idle));
}

/// Completes the rendezvous on rank 0, which runs the store for this group only. If it fails, the other ranks get the
/// error.
Result<Rendezvous> complete_as_host(Rendezvous rendezvous, std::unique_ptr<StoreServer> server,
                                    const Endpoint &endpoint, const Secret &secret, const StoreHost &host,
                                    uint64_t deadline_ns, const Cancel *cancel) {
  server->hosted_by(rendezvous.rank);
  auto met = complete(std::move(rendezvous), endpoint, secret, host, deadline_ns, cancel);
  if (met.ok()) {
    met.value().server = std::move(server);
    return met;
  }
  Error error = met.error();
  if (const std::string others = server->turned_away(); error.status == RONDO_ERROR_TIMEOUT && !others.empty())
    error.message += "; " + others + (host.secret_source.empty() ? "" : "; here it is from " + host.secret_source);
  const Error own = error;
  error.message = "rank 0 failed: " + error.message;
  if (error.peer < 0) error.peer = 0;
  server->host_failed(error, 0);
  return own;
}

/// Adds the launcher to the error. at_init() in src/core/init.cpp adds the rank.
Error in_job(Error error, const Job &job) {
  if (!job.launcher.empty()) error.message.insert(0, "launched by " + job.launcher + "; ");
  return error;
}

Rendezvous begin(const Job &job, uint32_t generation) {
  Rendezvous rendezvous;
  rendezvous.rank = job.rank;
  rendezvous.size = job.size;
  rendezvous.generation = generation;
  rendezvous.key_prefix = "g" + std::to_string(generation) + "/";
  return rendezvous;
}

Result<Rendezvous> rendezvous_at_store(const Job &job, Rendezvous rendezvous, uint64_t deadline_ns,
                                       const Cancel *cancel) {
  const StoreHost host{.name = job.launcher, .runs_already = true, .secret_source = job.secret_source};
  return complete(std::move(rendezvous), job.endpoint, job.secret, host, deadline_ns, cancel);
}

/// Adds advice to the error of a rank 0 that could not listen on an address. If another job with the same description
/// uses the port, that job gets an error, too.
Error cannot_listen(Error error, int error_number, const Job &job, const ListenPlace &place,
                    const Rendezvous &rendezvous, uint64_t deadline_ns, const Cancel *cancel) {
  if (error_number == EACCES) {
    error.message += "; ports below 1024 need a privilege: set RONDO_PORT to a higher one on all ranks";
  } else if (error_number == EADDRINUSE) {
    Membership rival = member_of(rendezvous);
    rival.group.insert(0, rival_prefix);
    bool absent = true;
    const auto claim = connect_store(place.connect, job.secret, std::min(deadline_ns, now_ns() + claim_ns), rival, {},
                                     cancel, &absent);
    if (!claim.ok() && !absent) return claim.error();
    error.message += "; the port is taken, and no store of this job answers there: set RONDO_PORT to a free one on all "
                     "ranks";
  }
  return error;
}

Result<Rendezvous> rendezvous_at_rank_0(const Job &job, bool serving, std::string_view network_interface,
                                        Rendezvous rendezvous, uint64_t deadline_ns, const Cancel *cancel) {
  const StoreHost host{.rank = 0, .name = "the process", .secret_source = job.secret_source};
  if (job.rank != 0)
    return complete(std::move(rendezvous), job.endpoint, job.secret, host, deadline_ns, cancel);
  RONDO_TRY_ASSIGN(const ListenPlace place, find_listen_place(job.endpoint, network_interface, deadline_ns, cancel));
  if (serving) return complete(std::move(rendezvous), place.connect, job.secret, host, deadline_ns, cancel);
  int error_number = 0;
  auto server = start_store_server(place.listen, job.secret, GroupNames::elsewhere, &error_number);
  if (!server.ok())
    return cannot_listen(std::move(server).error(), error_number, job, place, rendezvous, deadline_ns, cancel);
  return complete_as_host(std::move(rendezvous), std::move(server).value(), place.connect, job.secret, host,
                          deadline_ns, cancel);
}

/// Says whether the error may come from an old file. At its address, no store answers, or another job's store does.
bool may_be_stale(rondo_status_t status) {
  return status == RONDO_ERROR_REMOTE || status == RONDO_ERROR_TIMEOUT || status == RONDO_ERROR_AUTHENTICATION;
}

/// Meets at the store that rank 0's file names. An old file may remain from a rank 0 that was killed on another host.
/// No store, or another job's store, answers at the address in such a file. So the function reads the file again until
/// this job's rank 0 has replaced it.
Result<Rendezvous> follow_file(const RendezvousFile &file, const Rendezvous &rendezvous, uint64_t deadline_ns,
                               const Cancel *cancel) {
  while (true) {  // ends at the deadline
    RONDO_TRY_ASSIGN(const rondo_unique_id_t encoded, file.wait(deadline_ns, cancel));
    RONDO_TRY_ASSIGN(const UniqueId id, decode_unique_id(encoded));
    log::debug({log::Subsystem::bootstrap, rendezvous.rank},
               "meets the other ranks at " + format_endpoint(id.endpoint) + ", as " + file.path() + " says");
    const StoreHost host{.rank = 0,
                         .name = maker_name(id),
                         .runs_already = true,
                         .attempts_end_ns = std::min(deadline_ns, now_ns() + file_attempt_ns)};
    Rendezvous mine{rendezvous.rank, rendezvous.size, id.secret, rendezvous.generation, rendezvous.key_prefix, {}, {}};
    bool absent = false;
    auto store = connect_store(id.endpoint, id.secret, deadline_ns, member_of(mine), host, cancel, &absent);
    if (store.ok()) {
      mine.store = std::move(store).value();
      return meet(std::move(mine), deadline_ns);
    }
    if (!absent || !may_be_stale(store.error().status)) return store.error();
    RONDO_TRY_ASSIGN(const bool left, file.is_there());
    if (!left) return store.error();  // the file's writer is dead, or gave up and removed the file
    if (now_ns() < deadline_ns) {
      sleep_for_ns(file_pause_ns);
      continue;
    }
    Error error = store.error();
    error.status = RONDO_ERROR_TIMEOUT;
    error.message += "; rank 0 listens there according to " + file.path() +
                     ". If an earlier job left that file, rank 0 of this job has not started; start it";
    return error;
  }
}

Result<Rendezvous> rendezvous_by_file(const Job &job, uint32_t generation, std::string_view network_interface,
                                      Rendezvous rendezvous, uint64_t deadline_ns, const Cancel *cancel) {
  RONDO_TRY_ASSIGN(RendezvousFile file,
                   RendezvousFile::open(job.directory, job.name + "-" + std::to_string(generation)));
  if (job.rank != 0) return follow_file(file, rendezvous, deadline_ns, cancel);
  // Ranks on one host need no network. Still, an interface that the user chose is used.
  const bool loopback = network_interface.empty() && !job.several_hosts;
  RONDO_TRY_ASSIGN(UniqueIdServer made, start_unique_id_server(loopback ? "127.0.0.1" : network_interface));
  RONDO_TRY(file.publish(made.id));
  RONDO_TRY_ASSIGN(const UniqueId id, decode_unique_id(made.id));
  const StoreHost host{.rank = 0, .name = maker_name(id), .runs_already = true};
  return complete_as_host(std::move(rendezvous), std::move(made.server), id.endpoint, id.secret, host, deadline_ns,
                          cancel);  // the destructor of `file` removes the file
}

Result<Rendezvous> join_once(const Job &job, uint32_t generation, bool serving, std::string_view network_interface,
                             uint64_t deadline_ns, const Cancel *cancel) {
  Rendezvous rendezvous = begin(job, generation);
  switch (job.rendezvous) {
    case Job::RendezvousMethod::alone:
      rendezvous.store = std::move(make_local_stores(1).front());
      return rendezvous;
    case Job::RendezvousMethod::store:
      return rendezvous_at_store(job, std::move(rendezvous), deadline_ns, cancel);
    case Job::RendezvousMethod::listen:
      return rendezvous_at_rank_0(job, serving, network_interface, std::move(rendezvous), deadline_ns, cancel);
    case Job::RendezvousMethod::file:
      return rendezvous_by_file(job, generation, network_interface, std::move(rendezvous), deadline_ns, cancel);
  }
  return Error{RONDO_ERROR_INTERNAL, "unknown kind of rendezvous"};
}

constexpr uint64_t own_name_interval_ns = 1'000'000'000;

/// Says whether `host` is written as loopback: "localhost" or a similar name, or a loopback address.
bool spells_loopback(const std::string &host) {
  if (const auto address = socket_address({host, 1}); address.ok()) return is_loopback(address.value());
  const std::string_view name = host;
  return name.starts_with("localhost") || name.starts_with("ip6-l") || name.ends_with(".localhost");
}

bool is_one_of(const std::vector<HostAddress> &own, const std::string &address) {
  return std::ranges::any_of(own, [&](const HostAddress &each) { return each.up && each.address == address; });
}

std::string listed_addresses(const std::vector<HostAddress> &own) {
  std::string text;
  for (const HostAddress &each : own)
    if (each.up && !each.loopback) text += (text.empty() ? "" : ", ") + each.address + " (" + each.interface + ")";
  return text.empty() ? "none but loopback" : text;
}

/// Returns the address that stands for all addresses of this host, with IPv4 and IPv6 if it has both.
std::string any_address(const std::vector<HostAddress> &own) {
  return std::ranges::any_of(own, &HostAddress::v6) ? "::" : "0.0.0.0";
}

}  // namespace

Result<Rendezvous> join_job(const Job &job, uint32_t generation, bool serving, std::string_view network_interface,
                            uint64_t deadline_ns, const Cancel *cancel) {
  auto met = join_once(job, generation, serving, network_interface, deadline_ns, cancel);
  if (!met.ok()) return in_job(std::move(met).error(), job);
  return met;
}

GroupServer server_of(const UniqueId &id) {
  return {id, {.name = maker_name(id) + ", which made the unique id,", .runs_already = true}};
}

Result<Rendezvous> join_group(const GroupServer &server, uint32_t rank, uint32_t size, uint64_t deadline_ns,
                              const Cancel *cancel) {
  const UniqueId &id = server.id;
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.size = size;
  rendezvous.key_prefix = group_name(id) + "/";
  return complete(std::move(rendezvous), id.endpoint, id.secret, server.host, deadline_ns, cancel, server.idle);
}

Result<Rendezvous> join_unique_id(const rondo_unique_id_t &id, uint32_t rank, uint32_t size, uint64_t deadline_ns,
                                  const Cancel *cancel) {
  RONDO_TRY_ASSIGN(const UniqueId decoded, decode_unique_id(id));
  return join_group(server_of(decoded), rank, size, deadline_ns, cancel);
}

Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                      const std::vector<HostAddress> &own, const std::string &chosen) {
  std::vector<Endpoint> reached;
  for (const SocketAddress &address : master_is) {
    const Endpoint here = endpoint_of(address);
    const bool any = here.host == "0.0.0.0" || here.host == "::";  // MASTER_ADDR requests to listen on all addresses
    if (any) return ListenPlace{here, here};
    const auto is_same = [&](const Endpoint &other) { return other.host == here.host; };
    const bool is_known = std::any_of(reached.begin(), reached.end(), is_same);  // a name may have an address twice
    if (!is_known && !is_loopback(address) && is_one_of(own, here.host)) reached.push_back(here);
  }
  if (reached.size() == 1) return ListenPlace{reached[0], reached[0]};
  // Another host may reach only some of these addresses, so rank 0 listens on all of them.
  if (reached.size() > 1) return ListenPlace{{any_address(own), master.port}, reached[0]};
  for (const SocketAddress &address : master_is) {
    if (!is_loopback(address)) continue;
    const Endpoint here = endpoint_of(address);
    return ListenPlace{spells_loopback(master.host) ? here : Endpoint{any_address(own), master.port}, here};
  }
  if (!chosen.empty()) return ListenPlace{{chosen, master.port}, {chosen, master.port}};
  const std::string address = master_is.empty() ? "no address" : endpoint_of(master_is.front()).host;
  return invalid_argument(
      "MASTER_ADDR: " + in_quotes(master.host) + (address == master.host ? "" : ", which is " + address + ",") +
      " is not an address of this host, on which rank 0 listens. This host has: " + listed_addresses(own) +
      ". Give the address of rank 0's host. If a service, as of Kubernetes, forwards connections "
      "to this host, set RONDO_INTERFACE for rank 0 to the interface on which they arrive");
}

Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                      uint64_t deadline_ns, const Cancel *cancel) {
  std::string chosen;
  if (!network_interface.empty()) {
    RONDO_TRY_ASSIGN(chosen, choose_address(network_interface));
  }
  for (bool first = true;; first = false) {  // ends at the deadline
    Resolver resolver(master);
    RONDO_TRY_ASSIGN(const std::vector<SocketAddress> master_is, resolver.wait(deadline_ns, cancel));
    RONDO_TRY_ASSIGN(const std::vector<HostAddress> own, host_addresses());
    auto place = pick_listen_place(master, master_is, own, chosen);
    if (place.ok()) {
      log::debug(log::Subsystem::bootstrap, "MASTER_ADDR " + in_quotes(master.host) + ": listens on " +
                                                format_endpoint(place.value().listen));
      return place;
    }
    // A restarted pod has another address, which the name service learns a moment later.
    const bool again = resolver.is_name() && now_ns() + own_name_interval_ns < deadline_ns;
    if (!again || (cancel != nullptr && cancel->requested())) return place;
    if (first) log::warning(log::Subsystem::bootstrap, place.error().message + ". Rondo looks it up again");
    sleep_for_ns(own_name_interval_ns);
  }
}

}  // namespace rondo
