// SPDX-License-Identifier: Apache-2.0
// This program is a rank for the tests of `rondo run`. It finds its job in the environment, joins the other ranks at
// the launcher's store, and prints the message of each rank.
#include <cstdio>
#include <string>

#include "src/base/clock.h"
#include "src/bootstrap/launch/environment.h"

namespace {

rondo::Result<std::string> call_the_roll() {
  constexpr uint64_t limit_ns = 60'000'000'000;
  RONDO_TRY_ASSIGN(const rondo::Job job, rondo::detect_job(rondo::process_environment()));
  RONDO_TRY_ASSIGN(const auto store, rondo::connect_store(job.endpoint, job.secret, rondo::now_ns() + limit_ns));
  const std::string own = job.launcher + "/" + std::to_string(job.rank) + "/" + std::to_string(job.local_rank);
  const auto bytes = std::as_bytes(std::span(own));
  RONDO_TRY_ASSIGN(const auto parts, store->gather("roll call", job.rank, job.size, bytes, rondo::now_ns() + limit_ns));
  std::string all;
  for (const rondo::Bytes &part : parts) {
    all += all.empty() ? "" : " ";
    all.append(reinterpret_cast<const char *>(part.data()), part.size());
  }
  return all;
}

}  // namespace

int main() {
  const auto roll = call_the_roll();
  if (!roll.ok()) {
    std::fprintf(stderr, "%s\n", roll.error().message.c_str());
    return 1;
  }
  std::puts(roll.value().c_str());
  return 0;
}
