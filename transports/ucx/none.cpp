// SPDX-License-Identifier: Apache-2.0
// This file replaces UCX if its headers were missing at build time.
#include "transports/ucx/ucx_network.h"

namespace rondo::ucx {
namespace {

constexpr const char *not_built =
    "this build of Rondo has no UCX; build it where UCX's headers are (Debian: libucx-dev), or set RONDO_NETWORK=tcp";

}  // namespace

Report look_for_ucx() {
  Report report;
  report.why_not = not_built;
  return report;
}

Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &, const JoinRequest &request,
                                                   Store &store) {
  auto introductions = exchange_addresses(request, Error{RONDO_ERROR_UNSUPPORTED, not_built}, false, store);
  if (!introductions.ok()) return std::move(introductions).error();
  return Error{RONDO_ERROR_UNSUPPORTED, not_built};
}

}  // namespace rondo::ucx
