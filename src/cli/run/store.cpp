// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/store.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "src/bootstrap/address.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/launch/environment.h"

namespace rondo::cli {
namespace {

template <size_t capacity>
void place(const std::string &text, std::array<char, capacity> *to) {
  assert(text.size() < capacity);
  std::copy(text.begin(), text.end(), to->begin());
}

Result<JobStore> start_at(const Offer &offer, const Secret &secret) {
  JobStore store;
  RONDO_TRY_ASSIGN(store.server, start_store_server({offer.listen, 0}, secret, GroupNames::renewed));
  const Endpoint reached{offer.host, store.server->endpoint().port};
  store.start = start_order(format_endpoint(reached), format_secret(secret));
  return store;
}

}  // namespace

Order start_order(const std::string &store, const std::string &secret) {
  Order order;
  order.kind = Order::Kind::start;
  place(store, &order.store);
  place(secret, &order.secret);
  return order;
}

Result<JobStore> start_job_store() { return start_at({"127.0.0.1", "127.0.0.1"}, random_secret()); }

Result<JobStore> start_job_store_for_hosts(const std::string &secret) {
  RONDO_TRY_ASSIGN(const Secret parsed, parse_secret(secret));
  const char *const chosen = std::getenv("RONDO_INTERFACE");
  RONDO_TRY_ASSIGN(const Offer offer, offer_addresses(chosen != nullptr ? chosen : ""));
  return start_at(offer, parsed);
}

}  // namespace rondo::cli
