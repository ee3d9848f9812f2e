// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_store.h"

#include <algorithm>
#include <string>

#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/environment.h"

namespace rondo::cli {
namespace {

template <size_t capacity>
void place(const std::string &text, std::array<char, capacity> *to) {
  assert(text.size() < capacity);
  std::copy(text.begin(), text.end(), to->begin());
}

}  // namespace

Result<JobStore> start_job_store() {
  const Secret secret = random_secret();
  JobStore store;
  RONDO_TRY_ASSIGN(store.server, start_store_server({"127.0.0.1", 0}, secret));
  store.start.kind = Order::Kind::start;
  place(format_endpoint(store.server->endpoint()), &store.start.store);
  place(format_secret(secret), &store.start.secret);
  return store;
}

}  // namespace rondo::cli
