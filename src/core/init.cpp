// SPDX-License-Identifier: Apache-2.0
#include "src/core/init.h"

#include <sodium.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/bootstrap/address.h"
#include "src/bootstrap/launch/rendezvous.h"
#include "src/bootstrap/store/store.h"
#include "src/core/diagnostics/debug_lines.h"
#include "src/core/registry.h"
#include "src/links/ranks.h"

namespace rondo {
namespace {

constexpr uint64_t state_look_interval_ns = 50'000;
constexpr uint64_t failure_look_interval_ns = 10'000'000;
constexpr uint64_t ranks_lag_reports = 5;  // number of a host's reports after which other hosts know its ranks
constexpr const char *job_server_name = "job";  // no unique id has this name

/// Returns the secret of one communicator. The communicators of a job share its secret, but not the prefix of keys.
Secret own_secret(const Rendezvous &group) {
  Secret own;
  crypto_generichash(reinterpret_cast<unsigned char *>(own.bytes.data()), own.bytes.size(),
                     reinterpret_cast<const unsigned char *>(group.key_prefix.data()), group.key_prefix.size(),
                     reinterpret_cast<const unsigned char *>(group.secret.bytes.data()), group.secret.bytes.size());
  return own;
}

Result<std::shared_ptr<Communicator>> connect_all(const Rendezvous &group, const Settings &settings,
                                                  uint64_t deadline_ns) {
  debug_lines::settings(group.rank, settings);
  if (!process().topology().ok()) return process().topology().error();
  debug_lines::topology(group.rank, process().topology().value());
  RONDO_TRY_ASSIGN(const GroupInfo info, exchange_peer_info(*group.store, group.key_prefix, group.rank, group.size,
                                                            settings, process().topology().value(), deadline_ns));
  debug_lines::group(group.rank, info);
  ConnectArgs args{{group.rank, group.size, settings, info, group.secret, group.key_prefix, deadline_ns},
                   &process().tuning().value()};
  args.permitted = permitted_ranks(args);
  RONDO_TRY_ASSIGN(auto transport, connect_ranks(args, *group.store, process().segments));
  debug_lines::links(group.rank, settings, info, transport->links());
  RONDO_TRY_ASSIGN(auto executor, connect_executor(args, *group.store, transport->links()));
  log::debug({log::Subsystem::device, group.rank}, "runs on " + executor->describe());
  // On several hosts, another rank may end the store before this rank sees all arrive. So failures count after lag_ns.
  const uint64_t lag_ns = info.one_node() ? 0 : ranks_lag_reports * report_interval_ns(info.node_count());
  RONDO_TRY(wait_for_all(transport->ranks(), group.size, *group.store, deadline_ns, lag_ns));
  debug_lines::made(group.rank, settings, info, executor->describe());
  log::debug({log::Subsystem::bootstrap, group.rank},
             "the communicator of " + counted(group.size, "rank") + " is made");
  return std::make_shared<Communicator>(Communicator::Parts{group.rank, group.size, settings, info,
                                                            std::move(transport), std::move(executor),
                                                            &process().regions, &process().tuning().value(),
                                                            own_secret(group)});
}

Result<std::shared_ptr<Communicator>> assemble(const Rendezvous &group, const Settings &settings,
                                               uint64_t deadline_ns) {
  auto comm = connect_all(group, settings, deadline_ns);
  group.store->leave(comm.ok() ? Result<void>() : comm.error());  // an error ends other ranks' waits
  return comm;
}

Result<rondo_unique_id_t> serve_unique_id(std::string_view network_interface) {
  RONDO_TRY_ASSIGN(auto served, start_unique_id_server(network_interface));
  RONDO_TRY_ASSIGN(const UniqueId id, decode_unique_id(served.id));
  process().id_servers.add(group_name(id), std::move(served.server));
  return served.id;
}

/// Completes the error that the other ranks get if this rank serves the store and fails, perhaps before it has
/// connected to the store.
Error about_host(Error error, uint32_t rank) {
  error.message = "rank " + std::to_string(rank) + " failed: " + error.message;
  if (error.peer < 0) error.peer = static_cast<int32_t>(rank);
  return error;
}

/// Watches for a second job with the same description. If it arrives before the initialisation timeout, its ranks may
/// have entered this job's first communicator, so that communicator fails. If the second job arrives later, its ranks
/// were refused, so a warning suffices.
void watch_for_rivals(const std::shared_ptr<Communicator> &comm, uint64_t init_timeout_ns) {
  const auto report = [weak = std::weak_ptr(comm), until_ns = now_ns() + init_timeout_ns](const Error &error) {
    const auto made = weak.lock();
    const bool fails = made != nullptr && now_ns() < until_ns;
    log::warning(log::Subsystem::bootstrap, error.message + (fails ? "" : ". The ranks of the second were refused"));
    if (fails) made->fail(error);
  };
  process().id_servers.on_rival(job_server_name, report);
}

bool all_have_come(const Ranks &ranks, uint32_t rank_count) {
  for (uint32_t peer = 0; peer < rank_count; ++peer)
    if (ranks.state(peer) == RankState::absent) return false;
  return true;
}

/// Returns whether the store ended because no rank needs it any more. That is so if the rank that served it is alive,
/// because that rank ends the store only after all ranks have arrived. This rank will then see all of them, or a death.
bool store_has_served(const Ranks &ranks, const Store &store, const Error &known, const std::vector<uint32_t> &dead) {
  if (!store.gone() || known.peer < 0) return false;
  const auto host = static_cast<uint32_t>(known.peer);
  return ranks.state(host) != RankState::absent && std::ranges::find(dead, host) == dead.end();
}

/// Returns the failure that keeps a rank from arriving, if one is known by now.
Result<void> look_for_failure(const Ranks &ranks, Store &store) {
  const auto known = store.check();
  const std::vector<uint32_t> dead = ranks.find_dead();
  if (!known.ok() && !store_has_served(ranks, store, known.error(), dead)) return known;
  for (const uint32_t peer : dead) {
    if (ranks.state(peer) != RankState::absent) continue;
    return Error{RONDO_ERROR_REMOTE, ranks.describe_rank(peer) + " has ended before the communicator was made", -1,
                 static_cast<int32_t>(peer)};
  }
  return {};
}

/// Adds this rank's number to the error of a failed initialisation, and advice if the initialisation as a whole took
/// too long. If a wait had a shorter deadline, it has added its own advice.
Error at_init(Error error, uint32_t rank, uint32_t rank_count, uint64_t timeout_ns, uint64_t deadline_ns) {
  if (error.status == RONDO_ERROR_TIMEOUT && now_ns() >= deadline_ns)
    error.message += "; it took longer than the " + show_seconds(timeout_ns) +
                     " s of init_timeout_ms (RONDO_INIT_TIMEOUT). Check that all " + std::to_string(rank_count) +
                     " ranks were started and can reach each other (RONDO_LOG=debug reports how far each came). If "
                     "they need longer to start, raise it";
  error.message = "rank " + std::to_string(rank) + " of " + std::to_string(rank_count) +
                  " could not initialise its communicator: " + error.message;
  if (error.rank < 0) error.rank = static_cast<int32_t>(rank);
  return error;
}

}  // namespace

Result<Settings> settings_of(const rondo_config_t *config) {
  if (!process().config.ok()) return process().config.error();
  RONDO_TRY_ASSIGN(Settings settings, merge(config, process().config.value()));
  RONDO_TRY(check_device(settings));  // before other ranks can wait for this rank
  RONDO_TRY(check_interfaces(settings.network_interface));
  if (!process().tuning().ok()) return process().tuning().error();
  settings.tuning_hash = process().tuning().value().hash();
  return settings;
}

Result<void> wait_for_all(const Ranks &ranks, uint32_t rank_count, Store &store, uint64_t deadline_ns,
                          uint64_t lag_ns) {
  uint64_t next_look_ns = 0;
  uint64_t failed_since_ns = 0;  // 0 while no failure is known
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    while (ranks.state(peer) == RankState::absent) {
      const uint64_t now = now_ns();
      if (now >= deadline_ns)
        return Error{RONDO_ERROR_TIMEOUT, ranks.describe_rank(peer) + " did not finish its initialisation in time",
                     -1, static_cast<int32_t>(peer)};
      if (now >= next_look_ns) {
        auto known = look_for_failure(ranks, store);
        // If all ranks have arrived, the end of the store or of a rank is no failure of the initialisation.
        if (!known.ok() && all_have_come(ranks, rank_count)) return {};
        if (!known.ok() && known.error().status == RONDO_ERROR_ABORTED) return known;  // from an aborted rank
        if (!known.ok() && failed_since_ns == 0) failed_since_ns = now;
        // A failure is checked twice, even if lag_ns is 0. Each check tests the store, and then the ranks. If the
        // store fails between these tests, and a rank dies because of that, the second check finds the store's failure.
        if (!known.ok() && failed_since_ns != now && now - failed_since_ns >= lag_ns) return known;
        next_look_ns = now_ns() + failure_look_interval_ns;
      }
      sleep_for_ns(state_look_interval_ns);
    }
  }
  return {};
}

Result<rondo_unique_id_t> make_unique_id(const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(const Settings settings, settings_of(config));
  return serve_unique_id(settings.network_interface);
}

Result<void> free_unique_id(const rondo_unique_id_t &id) {
  RONDO_TRY_ASSIGN(const UniqueId decoded, decode_unique_id(id));
  process().id_servers.remove(group_name(decoded));
  return {};
}

Result<std::shared_ptr<Communicator>> make_at(const GroupServer &server, uint32_t rank, uint32_t rank_count,
                                              const Settings &settings, uint64_t deadline_ns, const Cancel *cancel) {
  const std::string group_id = group_name(server.id);
  const auto join = [&]() -> Result<std::shared_ptr<Communicator>> {
    RONDO_TRY_ASSIGN(const auto group, join_group(server, rank, rank_count, deadline_ns, cancel));
    return assemble(group, settings, deadline_ns);
  };
  process().id_servers.hosted_by(group_id, rank);
  auto comm = join();
  if (!comm.ok()) process().id_servers.host_failed(group_id, about_host(comm.error(), rank), rank);
  // Each id makes one communicator. Another process may have the server. An abort does not wait for other ranks, which
  // must learn of it.
  const bool aborted = cancel != nullptr && cancel->requested();
  if (server.ends_with_rank) aborted ? process().id_servers.dismiss(group_id) : process().id_servers.remove(group_id);
  if (!comm.ok()) return at_init(std::move(comm).error(), rank, rank_count, settings.init_timeout_ns, deadline_ns);
  return comm;
}

Result<std::shared_ptr<Communicator>> make_alone(const std::string &key_prefix, const Settings &settings) {
  Rendezvous group;
  group.secret = random_secret();
  group.key_prefix = key_prefix;
  group.store = std::move(make_local_stores(1).front());
  return assemble(group, settings, now_ns() + settings.init_timeout_ns);
}

Result<Initialisation> init_unique_id(const rondo_unique_id_t &id, int rank, int size, const rondo_config_t *config) {
  const auto own = static_cast<uint32_t>(rank);
  const auto count = static_cast<uint32_t>(size);
  RONDO_TRY_ASSIGN(const UniqueId decoded, decode_unique_id(id));
  RONDO_TRY_ASSIGN(const Settings settings, settings_of(config));
  const uint64_t deadline_ns = now_ns() + settings.init_timeout_ns;
  if (own == 0) warn_of_unknown_variables();
  const auto run = [=](const Cancel *cancel) {
    return make_at(server_of(decoded), own, count, settings, deadline_ns, cancel);
  };
  return Initialisation{run, settings.nonblocking};
}

Result<Initialisation> init_unique_ids(std::span<const rondo_unique_id_t> ids, int rank, int size,
                                       const rondo_config_t *config) {
  std::vector<std::string> groups;
  for (const rondo_unique_id_t &id : ids) {
    const auto decoded = decode_unique_id(id);
    if (!decoded.ok())
      return invalid_argument("ids[" + std::to_string(groups.size()) + "]: " + decoded.error().message);
    groups.push_back(group_name(decoded.value()));
  }
  RONDO_TRY_ASSIGN(auto begun, init_unique_id(ids.front(), rank, size, config));
  for (const std::string &group : groups)
    if (group != groups.front()) process().id_servers.remove(group);
  return begun;
}

Result<Initialisation> init_environment(const rondo_config_t *config) {
  // A call that is refused below is also counted, because the other ranks continue with their next call.
  const auto generation =
      static_cast<uint32_t>(process().environment_communicator_count.fetch_add(1, std::memory_order_relaxed));
  RONDO_TRY_ASSIGN(const Settings settings, settings_of(config));
  const uint64_t deadline_ns = now_ns() + settings.init_timeout_ns;
  RONDO_TRY_ASSIGN(const Job job, detect_job(process_environment()));
  if (job.size > 1) log::set_process_rank(job.rank);
  if (job.rank == 0) warn_of_unknown_variables();
  log::debug({log::Subsystem::bootstrap, job.rank},
             "rank " + std::to_string(job.rank) + " of " + std::to_string(job.size) + " as " +
                 (job.launcher.empty() ? "no launcher" : job.launcher) + " says");
  const auto run = [=](const Cancel *cancel) -> Result<std::shared_ptr<Communicator>> {
    const auto join = [&]() -> Result<std::shared_ptr<Communicator>> {
      const bool serving = process().id_servers.contains(job_server_name);
      RONDO_TRY_ASSIGN(auto group, join_job(job, generation, serving, settings.network_interface, deadline_ns, cancel));
      // All communicators of such a job use one port, so the server stays for the next one.
      const bool serves = job.rendezvous == Job::RendezvousMethod::listen && group.server != nullptr;
      if (serves) process().id_servers.add(job_server_name, std::move(group.server));
      auto comm = assemble(group, settings, deadline_ns);
      if (serves && comm.ok()) watch_for_rivals(comm.value(), settings.init_timeout_ns);
      return comm;
    };
    auto comm = join();
    if (comm.ok()) return comm;
    process().id_servers.remove(job_server_name);  // the next communicator makes a new server
    return at_init(std::move(comm).error(), job.rank, job.size, settings.init_timeout_ns, deadline_ns);
  };
  return Initialisation{run, settings.nonblocking};
}

Result<std::vector<std::shared_ptr<Communicator>>> init_all(int size, const rondo_config_t *configs) {
  const auto count = static_cast<size_t>(size);
  // The caller's struct may be larger or smaller than ours, so its field `size` is the distance between the entries.
  const auto config_of = [&](size_t rank) -> const rondo_config_t * {
    if (configs == nullptr) return nullptr;
    return reinterpret_cast<const rondo_config_t *>(reinterpret_cast<const std::byte *>(configs) +
                                                    rank * configs->size);
  };
  for (size_t rank = 0; rank < count; ++rank) {
    RONDO_TRY_ASSIGN(const Settings settings, settings_of(config_of(rank)));
    if (settings.nonblocking)
      return invalid_argument("rondo_comm_init_all() waits for its ranks, which are all here; set nonblocking to 0");
  }
  // The ranks' memory is allocated before the server of the id starts, since an exception would leave the server.
  std::vector<std::optional<Result<std::shared_ptr<Communicator>>>> made(count);
  std::vector<std::shared_ptr<Communicator>> comms;
  comms.reserve(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  const Error exhausted{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory or threads"};
  RONDO_TRY_ASSIGN(const rondo_unique_id_t id, serve_unique_id("127.0.0.1"));  // for this process alone
  RONDO_TRY_ASSIGN(const UniqueId decoded, decode_unique_id(id));
  const std::string server = group_name(decoded);
  const auto init = [&](size_t rank) {
    try {
      const auto begun = init_unique_id(id, static_cast<int>(rank), size, config_of(rank));
      made[rank] = begun.ok() ? begun.value().run(nullptr) : begun.error();
    } catch (const std::exception &) {  // made[rank] stays empty
    }
  };
  try {
    for (size_t rank = 1; rank < count; ++rank) threads.emplace_back(init, rank);
    init(0);
  } catch (const std::exception &) {
    process().id_servers.remove(server);  // makes the ranks that have begun fail
  }
  for (std::thread &thread : threads) thread.join();
  for (auto &result : made) {
    if (!result) return exhausted;
    if (!result->ok()) return std::move(*result).error();
    comms.push_back(std::move(*result).value());
  }
  return comms;
}

}  // namespace rondo
