// SPDX-License-Identifier: Apache-2.0
#include "tests/soft_cuda/fibers.h"

#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

using soft_cuda::give_way;
using soft_cuda::run_fibers;
using soft_cuda::Waiting;

namespace {

bool have_fibers() {
  if (!soft_cuda::have_fibers) std::puts("skipped: fibers: threads of an emulated launch are host threads here");
  return soft_cuda::have_fibers;
}

}  // namespace

TEST_CASE("fibers run in turn, each until it waits, and those that have ended no more") {
  if (!have_fibers()) return;
  const std::thread::id host_thread = std::this_thread::get_id();
  const auto order_of = [&](uint32_t count) {
    std::string order;
    run_fibers(count, [&](uint32_t index) {
      for (uint32_t turn = 0; turn <= index; ++turn) {
        order += static_cast<char>('a' + index);
        give_way(turn % 2 == 0 ? Waiting::at_barrier : Waiting::for_others);
      }
      order += static_cast<char>('A' + index);
      CHECK(std::this_thread::get_id() == host_thread);
    });
    return order;
  };
  const std::string order = order_of(3);
  const bool backwards = order.front() == 'c';  // every other run goes backwards
  CHECK(order == (backwards ? "cbacbAcBC" : "abcAbcBcC"));
  CHECK(order_of(3) == (backwards ? "abcAbcBcC" : "cbacbAcBC"));
  CHECK(order_of(1) == "aA");  // a single fiber continues at once
}

TEST_CASE("a fiber's variables stay while others run, on host threads side by side and launch after launch") {
  if (!have_fibers()) return;
  const auto sum_in_turns = [](uint64_t &sum) {
    for (uint32_t count : {2u, 64u, 5u, 640u}) {
      std::vector<uint64_t> sums(count);
      run_fibers(count, [&](uint32_t index) {
        std::array<uint64_t, 64> own{};
        for (uint64_t turn = 0; turn < own.size(); ++turn) {
          own[turn] = index + turn;
          give_way(Waiting::at_barrier);
        }
        for (const uint64_t value : own) sums[index] += value;
      });
      for (uint32_t index = 0; index < count; ++index) {
        if (sums[index] != 64 * uint64_t{index} + 63 * 64 / 2) return;
        sum += sums[index];
      }
    }
  };
  std::array<uint64_t, 3> sums{};
  std::array<std::thread, 3> threads;
  for (size_t thread = 0; thread < threads.size(); ++thread)
    threads[thread] = std::thread([&, thread] { sum_in_turns(sums[thread]); });
  for (std::thread &thread : threads) thread.join();
  uint64_t expected = 0;
  for (const uint64_t count : {2u, 64u, 5u, 640u}) expected += 64 * count * (count - 1) / 2 + count * (63 * 64 / 2);
  for (const uint64_t sum : sums) CHECK(sum == expected);
}
