// SPDX-License-Identifier: Apache-2.0
// One rank of a job whose hosts have control connections as in a ring: `ring_rank MESH_MAX`, with the environment of a
// launcher. It says "begun" after its first sum, sums until the communicator has failed, and prints these lines.
//     rank R returned MICROSECONDS      the last sum, by a clock that all processes of the machine share
//     rank R: STATUS peer P operation N: MESSAGE
// The public interface has no way to ask for fewer hosts in a mesh, so this uses the library's inside.
#include <rondo/rondo.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/launch/rendezvous.h"
#include "src/core/communicator.h"
#include "src/core/init.h"
#include "src/core/process.h"
#include "src/core/registry.h"

using namespace rondo;

namespace {

constexpr uint64_t init_patience_ns = 60'000'000'000, pause_ns = 1'000'000;
constexpr uint64_t sums_max = 60'000;  // a minute's at least

Result<std::shared_ptr<Communicator>> init(const Job &job, uint32_t mesh_max) {
  const uint64_t deadline_ns = now_ns() + init_patience_ns;
  RONDO_TRY_ASSIGN(const Config config, process().config);
  RONDO_TRY_ASSIGN(const Settings settings, merge(nullptr, config));
  RONDO_TRY_ASSIGN(const Topology topology, process().topology());
  RONDO_TRY_ASSIGN(auto group, join_job(job, 0, false, settings.network_interface, deadline_ns));
  RONDO_TRY_ASSIGN(const GroupInfo info, exchange_peer_info(*group.store, group.key_prefix, group.rank, group.size,
                                                            settings, topology, deadline_ns));
  ConnectArgs args{{group.rank, group.size, settings, info, group.secret, group.key_prefix, deadline_ns}};
  args.mesh_hosts_max = mesh_max;
  args.permitted = permitted_ranks(args);
  RONDO_TRY_ASSIGN(auto transport, connect_ranks(args, *group.store, process().segments));
  RONDO_TRY_ASSIGN(auto executor, connect_executor(args, *group.store, transport->links()));
  RONDO_TRY(wait_for_all(transport->ranks(), group.size, *group.store, deadline_ns, init_patience_ns));
  group.store->leave({});
  return std::make_shared<Communicator>(Communicator::Parts{group.rank, group.size, settings, info,
                                                            std::move(transport), std::move(executor),
                                                            &process().regions, nullptr});
}

Result<void> sum(Communicator &comm) {
  std::vector<int32_t> values(1000, 1);
  Call call;
  call.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, values.size(), 0};
  call.send = call.recv = values.data();
  call.in_place = true;
  RONDO_TRY(comm.submit(call, {}));
  if (values.back() != static_cast<int32_t>(comm.rank_count())) return Error{RONDO_ERROR_INTERNAL, "a wrong sum"};
  return {};
}

Result<void> run(const Job &job, uint32_t mesh_max) {
  RONDO_TRY_ASSIGN(const auto comm, init(job, mesh_max));
  Result<void> outcome = sum(*comm);
  std::puts("begun");
  std::fflush(stdout);
  for (uint64_t each = 0; each < sums_max && outcome.ok(); ++each) {
    sleep_for_ns(pause_ns);
    outcome = sum(*comm);
  }
  std::printf("rank %u returned %llu\n", static_cast<uint32_t>(job.rank),
              static_cast<unsigned long long>(now_ns() / 1000));
  comm->close();
  return outcome;
}

}  // namespace

int main(int argc, char **argv) {
  const auto job = detect_job(process_environment());
  if (argc != 2 || !job.ok()) {
    std::fprintf(stderr, "usage: ring_rank MESH_MAX, as a launcher starts it\n");
    return 2;
  }
  const Result<void> outcome = run(job.value(), static_cast<uint32_t>(std::atoi(argv[1])));
  const Error error = outcome.ok() ? Error{RONDO_OK, ""} : outcome.error();
  std::printf("rank %u: %s peer %d operation %llu: %s\n", static_cast<uint32_t>(job.value().rank),
              rondo_status_string(error.status), error.peer, static_cast<unsigned long long>(error.operation),
              error.message.c_str());
  return outcome.ok() ? 0 : 1;
}
