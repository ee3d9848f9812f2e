// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run_store.h"

#include <algorithm>
#include <string>

namespace rondo::cli {
namespace {

std::string to_hex(const Secret &secret) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : secret.bytes) {
    text.push_back(digits[std::to_integer<size_t>(byte >> 4)]);
    text.push_back(digits[std::to_integer<size_t>(byte & std::byte{15})]);
  }
  return text;
}

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
  const Endpoint &endpoint = store.server->endpoint();
  store.start.kind = Order::Kind::start;
  place(endpoint.host + ":" + std::to_string(endpoint.port), &store.start.store);
  place(to_hex(secret), &store.start.secret);
  return store;
}

}  // namespace rondo::cli
