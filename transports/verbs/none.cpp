// SPDX-License-Identifier: Apache-2.0
// This file replaces verbs if their headers were missing at build time.
#include "transports/verbs/verbs_network.h"

namespace rondo::verbs {
namespace {

constexpr const char *not_built =
    "this build of Rondo has no RDMA verbs; build it where their headers are (Debian: libibverbs-dev), or set "
    "RONDO_NETWORK=tcp";

}  // namespace

Report look_for_verbs() {
  Report report;
  report.why_not = not_built;
  return report;
}

Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &, const JoinRequest &request,
                                                   Store &store) {
  auto introductions = exchange_offers(request, Error{RONDO_ERROR_UNSUPPORTED, not_built}, store);
  if (!introductions.ok()) return std::move(introductions).error();
  return Error{RONDO_ERROR_UNSUPPORTED, not_built};
}

}  // namespace rondo::verbs
