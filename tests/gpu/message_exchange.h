// SPDX-License-Identifier: Apache-2.0
// This file has a group of messages between all ranks on devices, and shows how far these ranks have come.
#pragma once

#include <unistd.h>

#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/core/diagnostics/recorder.h"
#include "tests/gpu/device_ranks.h"
#include "transports/shm/recorder.h"

namespace rondo_test {

/// Returns the float32 values of message `number` from rank `from` to rank `to`.
inline std::vector<float> message(int from, int to, size_t number, size_t count) {
  return whole_numbers(static_cast<uint64_t>(from * 1000 + to) * 100 + number, count);
}

/// One group on each rank. In it, a rank sends a message of each size to every rank, also itself, and receives as many.
struct Exchange {
  Exchange(DeviceRanks &of, std::vector<size_t> of_counts) : group(of), counts(std::move(of_counts)) {
    const int size = group.ranks.size();
    for (int rank = 0; rank < size; ++rank)
      for (int peer = 0; peer < size; ++peer)
        for (size_t number = 0; number < counts.size(); ++number) {
          sent.emplace_back(group.world_of(rank), bytes_of(message(rank, peer, number, counts[number])));
          received.emplace_back(group.world_of(rank), bytes_of(std::vector<float>(counts[number], -1)));
        }
  }
  [[nodiscard]] size_t at(int rank, int peer, size_t number) const {
    return static_cast<size_t>(rank * group.ranks.size() + peer) * counts.size() + number;
  }
  rondo_status_t call(int rank, rondo_comm_t comm) const {
    if (rondo_group_begin() != RONDO_OK) return RONDO_ERROR_INTERNAL;
    for (int peer = 0; peer < group.ranks.size(); ++peer)
      for (size_t number = 0; number < counts.size(); ++number) {
        const size_t place = at(rank, peer, number);
        static_cast<void>(
            rondo_send(sent[place].pointer(), counts[number], RONDO_FLOAT32, peer, comm, group.stream(rank)));
        static_cast<void>(
            rondo_recv(received[place].pointer(), counts[number], RONDO_FLOAT32, peer, comm, group.stream(rank)));
      }
    return rondo_group_end();
  }
  void check() const {
    for (int rank = 0; rank < group.ranks.size(); ++rank)
      for (int peer = 0; peer < group.ranks.size(); ++peer)
        for (size_t number = 0; number < counts.size(); ++number)
          CHECK_VALUES(received[at(rank, peer, number)].read(), message(peer, rank, number, counts[number]));
  }

  DeviceRanks &group;
  const std::vector<size_t> counts;
  std::vector<DeviceBuffer> sent, received;
};

/// Returns what the ranks of this process's only communicator do, as `rondo status` shows it.
inline std::vector<rondo::RankNow> look_at_own_ranks() {
  const auto observed = rondo::shm::observe_process(::getpid());
  REQUIRE(observed.ok());
  REQUIRE(observed.value().recordings.size() == 1);
  return rondo::look_at_ranks(*observed.value().recordings[0]);
}

/// Waits until `is_so` says so about a rank.
inline void await(size_t rank, bool (*is_so)(const rondo::RankNow &)) {
  for (int look = 0; look < 120'000; ++look) {  // a limit for a test that hangs
    if (is_so(look_at_own_ranks()[rank])) return;
    rondo::sleep_for_ns(1'000'000);
  }
  FAIL("rank " << rank << " does not get so far");
}

}  // namespace rondo_test
