// SPDX-License-Identifier: Apache-2.0
// This file makes communicators on several hosts, with their ranks as threads of one process. The hosts are only
// simulated, and sockets use loopback.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/store/store.h"
#include "src/core/communicator.h"
#include "src/core/init.h"
#include "src/core/registry.h"
#include "src/memory/segment_table.h"
#include "tests/seconds.h"

namespace rondo_test {

struct World {
  rondo::SegmentTable segments;
  rondo::RegionTable regions;
  std::vector<std::unique_ptr<rondo::Store>> stores;
  rondo::Secret secret = rondo::random_secret();
  rondo::Settings settings;
  rondo::GroupInfo group;
  const rondo::TuningTable *tuning_of_calls = nullptr;

  explicit World(const std::vector<uint32_t> &node_of)
      : stores(rondo::make_local_stores(static_cast<uint32_t>(node_of.size()))), group(node_of) {
    group.oversubscribed = true;
    for (rondo::RankInfo &info : group.infos) info.interfaces = {{"lo", "127.0.0.1"}};
    settings.timeout_ns = 60 * second_ns;
  }
  [[nodiscard]] uint32_t rank_count() const { return group.rank_count(); }

  rondo::Result<std::shared_ptr<rondo::Communicator>> init(uint32_t rank) {
    const uint64_t deadline_ns = rondo::now_ns() + 60 * second_ns;
    rondo::ConnectArgs args{{rank, rank_count(), settings, group, secret, "world", deadline_ns}};
    args.permitted = permitted_ranks(args);
    RONDO_TRY_ASSIGN(auto transport, connect_ranks(args, *stores[rank], segments));
    RONDO_TRY(wait_for_all(transport->ranks(), rank_count(), *stores[rank], deadline_ns));
    RONDO_TRY_ASSIGN(auto executor, connect_executor(args, *stores[rank], transport->links()));
    return std::make_shared<rondo::Communicator>(
        rondo::Communicator::Parts{rank, rank_count(), settings, group, std::move(transport), std::move(executor),
                                   &regions, tuning_of_calls});
  }
};

/// Runs life(rank, communicator) on a thread for each rank. After all have ended, returns the ranks whose life returned
/// false.
template <class Life>
std::vector<uint32_t> run_ranks(World &world, const Life &life) {
  std::vector<std::thread> threads;
  std::vector<char> right(world.rank_count());
  for (uint32_t rank = 0; rank < world.rank_count(); ++rank)
    threads.emplace_back([&, rank] {
      auto comm = world.init(rank);
      right[rank] = comm.ok() && life(rank, *comm.value());
      if (comm.ok()) comm.value()->close();
    });
  for (std::thread &thread : threads) thread.join();
  std::vector<uint32_t> wrong;
  for (uint32_t rank = 0; rank < right.size(); ++rank)
    if (!right[rank]) wrong.push_back(rank);
  return wrong;
}

}  // namespace rondo_test
