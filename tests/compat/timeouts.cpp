// SPDX-License-Identifier: Apache-2.0
// This part of the test program checks the timeouts that the library requests. NCCL has no timeouts, so a framework's
// own timeout must pass first. This file replaces a function of Rondo that the library calls, and passes the calls on.
#include <dlfcn.h>

#include <cstring>

#include "rondo/rondo.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

rondo_config_t latest{};  ///< the configuration of the latest call

}  // namespace

extern "C" rondo_status_t rondo_comm_init_ids(rondo_comm_t *comm, const rondo_unique_id_t *ids, int id_count, int rank,
                                              int size, const rondo_config_t *config) noexcept {
  static auto *const real =
      reinterpret_cast<decltype(&rondo_comm_init_ids)>(::dlsym(RTLD_NEXT, "rondo_comm_init_ids"));
  static const bool counts = std::getenv("CLIENT_TIMEOUTS") != nullptr;
  if (counts) latest = *config;  // one thread makes communicators then
  return real(comm, ids, id_count, rank, size, config);
}

/// Checks that both timeouts are CLIENT_TIMEOUTS milliseconds. 0 means that Rondo's variables decide.
void compat_test::check_timeouts() {
  const OnDevice current(0);
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  const auto wanted = static_cast<uint32_t>(std::atol(std::getenv("CLIENT_TIMEOUTS")));
  CHECK(latest.timeout_ms == wanted && latest.init_timeout_ms == wanted);
  NCCL(ncclCommDestroy(comm));
}
