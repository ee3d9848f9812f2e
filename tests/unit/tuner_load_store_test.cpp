// SPDX-License-Identifier: Apache-2.0
// These tests check when the tuner chooses the kernel load_store, and when it refuses this kernel.
#include <string>
#include <vector>

#include "tests/unit/tuner_input.h"

using namespace rondo;
using namespace rondo_test;

TEST_CASE("tuner: load_store by kernels of a device is chosen where it is asked for and nowhere else") {
  for (const uint32_t rank_count : {1u, 2u, 5u, 64u})
    for (const uint64_t bytes : sizes) {
      TunerInput input = with(RONDO_ALL_REDUCE, rank_count, bytes);
      input.post_bytes = 64 << 10;
      input.exchange_chunk_bytes = 256 << 10;
      input.exchange_channels = 4;
      CHECK(choose_plan(input).value().kernel != RONDO_KERNEL_LOAD_STORE);
      CHECK(choose_plan(input).value() == choose_plan(with(RONDO_ALL_REDUCE, rank_count, bytes)).value());
      input.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
      const PlanChoice choice = choose_plan(input).value();
      CHECK((choice.kernel == RONDO_KERNEL_LOAD_STORE) == (rank_count > 1));
      if (rank_count == 1) continue;
      const bool small = bytes <= 32 << 10;
      CHECK(choice == PlanChoice{small ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO,
                                 small ? 1u : 4u, 256 << 10, RONDO_KERNEL_LOAD_STORE});
      input.overrides = {RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 8, 1000, RONDO_KERNEL_LOAD_STORE};
      CHECK(choose_plan(input).value() ==
            PlanChoice{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 4, 960, RONDO_KERNEL_LOAD_STORE});
      input.overrides.algorithm = RONDO_ALGORITHM_RING;
      CHECK(choose_plan(input).error().status == RONDO_ERROR_UNSUPPORTED);
      input.overrides.algorithm = RONDO_ALGORITHM_ONE_SHOT;
      CHECK(choose_plan(input).ok() == (bytes <= input.post_bytes));
    }
}

TEST_CASE("tuner: ranks of a device that share buffers have load_store, with as many blocks as help") {
  constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
  struct Expected {
    uint64_t bytes;
    rondo_algorithm_t algorithm;
    uint32_t channels;
  };
  TunerInput input = with(RONDO_ALL_REDUCE, 8, 0);
  input.post_bytes = 64 * KiB;
  input.exchange_chunk_bytes = 64;
  input.exchange_channels = 100;
  input.buffers = BufferPlace::shared_device;
  for (const Expected &it : {Expected{8, RONDO_ALGORITHM_ONE_SHOT, 1}, {2 * KiB, RONDO_ALGORITHM_ONE_SHOT, 1},
                             {2 * KiB + 1, RONDO_ALGORITHM_ONE_SHOT, 2}, {32 * KiB, RONDO_ALGORITHM_ONE_SHOT, 16},
                             {64 * KiB, RONDO_ALGORITHM_ONE_SHOT, 32}, {64 * KiB + 1, RONDO_ALGORITHM_TWO_SHOT, 5},
                             {MiB, RONDO_ALGORITHM_TWO_SHOT, 64}, {4 * MiB + 1, RONDO_ALGORITHM_TWO_SHOT, 100}}) {
    CAPTURE(it.bytes);
    input.bytes = it.bytes;
    CHECK(choose_plan(input).value() == PlanChoice{it.algorithm, RONDO_PROTOCOL_AUTO, it.channels, 64,
                                                    RONDO_KERNEL_LOAD_STORE});
  }
  input.rank_count = 9;  // each rank reads the data of all
  input.bytes = 32 * KiB;
  CHECK(choose_plan(input).value().algorithm == RONDO_ALGORITHM_ONE_SHOT);
  input.bytes = 32 * KiB + 1;
  CHECK(choose_plan(input).value().algorithm == RONDO_ALGORITHM_TWO_SHOT);
  input.exchange_channels = 3;
  CHECK(choose_plan(input).value().channels == 3);
  for (const PlanChoice &asked : {PlanChoice{RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_SIMPLE, 0, 0},
                                  PlanChoice{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_AUTO, 0, 0},
                                  PlanChoice{RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0, 0,
                                             RONDO_KERNEL_INTERPRETER}}) {
    input.overrides = asked;
    CHECK(choose_plan(input).value().protocol == RONDO_PROTOCOL_SIMPLE);
  }
}

TEST_CASE("tuner: ranks that share buffers have load_store for all but _v, on several devices above 32 KiB") {
  constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
  const BufferPlace place = GENERATE(BufferPlace::shared_device, BufferPlace::peer_devices, BufferPlace::registered);
  for (const auto collective : {RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    CAPTURE(rondo_collective_string(collective));
    const bool blocks = collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER;
    const rondo_algorithm_t algorithm = blocks ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT;
    const rondo_algorithm_t other = blocks ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_ONE_SHOT;
    TunerInput input = with(collective, 8, MiB);
    input.post_bytes = 64 * KiB;
    input.exchange_chunk_bytes = 1 << 30;
    input.exchange_channels = 100;
    input.buffers = place;
    const uint32_t channels = place == BufferPlace::shared_device ? 64 : 16;
    const auto kernel = [&] { return choose_plan(input).value().kernel; };
    CHECK(choose_plan(input).value() ==
          PlanChoice{algorithm, RONDO_PROTOCOL_AUTO, channels, 1 << 30, RONDO_KERNEL_LOAD_STORE});
    input.bytes = 32 * KiB;
    CHECK((kernel() == RONDO_KERNEL_LOAD_STORE) == (place == BufferPlace::shared_device));
    input.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
    CHECK(kernel() == RONDO_KERNEL_LOAD_STORE);
    input.bytes = MiB;
    input.overrides = {RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 3, 1000};
    CHECK(choose_plan(input).value() == PlanChoice{algorithm, RONDO_PROTOCOL_AUTO, 3, 960, RONDO_KERNEL_LOAD_STORE});
    input.overrides = {other, RONDO_PROTOCOL_AUTO, 0, 0};
    CHECK(kernel() == RONDO_KERNEL_INTERPRETER);
    input.overrides = {};
    input.uneven_blocks = true;
    CHECK(kernel() == RONDO_KERNEL_INTERPRETER);
    input.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
    CHECK(choose_plan(input).error().status == RONDO_ERROR_UNSUPPORTED);
    input.uneven_blocks = false;
    input.buffers = BufferPlace::device;  // through places, if requested
    CHECK(kernel() == RONDO_KERNEL_LOAD_STORE);
    input.overrides = {};
    CHECK(kernel() == RONDO_KERNEL_INTERPRETER);
  }
}

TEST_CASE("tuner: load_store that cannot be is refused with what it is for") {
  TunerInput input = with(RONDO_ALL_GATHER, 4, 8);
  input.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for at most 64 ranks of one host, and on devices for the "
        "executor 'kernel' alone; these can be: 'auto', 'interpreter'");
  input.post_bytes = 4096;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for all_reduce of at most 4096 bytes by one_shot, or of any "
        "size by two_shot or ring, on one channel among at most 64 ranks of one host; use 'auto'");
  input.exchange_channels = 4;
  input.uneven_blocks = true;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for is for all_reduce of at most 4096 bytes by one_shot, or of any "
        "size by two_shot, for reduce_scatter and all_gather by one_shot, and for broadcast and reduce by two_shot; of "
        "even blocks only, so not for calls whose name ends with _v; use 'auto'");
  input.overrides.protocol = RONDO_PROTOCOL_LL;
  CHECK(choose_plan(input, registry).error().message ==
        "the kernel 'load_store' that was asked for has no protocol, but 'll' was asked for, too; ask for one of the "
        "two");
}

TEST_CASE("tuner: on a host, at 4 KiB two ranks leave one_shot for a ring, and more ranks for two_shot") {
  for (const uint32_t rank_count : {2u, 3u, 8u})
    for (const uint64_t bytes : {8u, 4096u, 4100u, 16384u, 262144u}) {
      TunerInput input = with(RONDO_ALL_REDUCE, rank_count, bytes);
      input.post_bytes = input.exchange_chunk_bytes = 65536;
      const rondo_algorithm_t longer = rank_count == 2 ? RONDO_ALGORITHM_RING : RONDO_ALGORITHM_TWO_SHOT;
      CAPTURE(rank_count, bytes);
      CHECK(choose_plan(input).value().algorithm ==
            (bytes <= 4096u ? RONDO_ALGORITHM_ONE_SHOT : longer));
    }
}

TEST_CASE("tuner: a protocol, or the interpreter, that is asked for is not passed over for load_store") {
  TunerInput input = with(RONDO_ALL_REDUCE, 4, 4096);
  input.post_bytes = input.exchange_chunk_bytes = 65536;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_LOAD_STORE);
  CHECK(choose_plan(input).value().protocol == RONDO_PROTOCOL_AUTO);
  input.overrides.kernel = RONDO_KERNEL_INTERPRETER;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(choose_plan(input).value().protocol != RONDO_PROTOCOL_AUTO);
  input.overrides = {};
  input.overrides.protocol = RONDO_PROTOCOL_SIMPLE;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_INTERPRETER);
  CHECK(choose_plan(input).value().protocol == RONDO_PROTOCOL_SIMPLE);
}

TEST_CASE("tuner: devices that reach each other, and processes, have load_store for an all-reduce, by fewer blocks") {
  constexpr uint64_t KiB = 1024, MiB = 1024 * KiB;
  const BufferPlace place = GENERATE(BufferPlace::peer_devices, BufferPlace::registered);
  TunerInput input = with(RONDO_ALL_REDUCE, 8, MiB);
  input.post_bytes = 64 * KiB;
  input.exchange_chunk_bytes = 1 << 30;
  input.exchange_channels = 32;
  input.buffers = place;
  CHECK(choose_plan(input).value() ==
        PlanChoice{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 16, 1 << 30, RONDO_KERNEL_LOAD_STORE});
  input.overrides.protocol = RONDO_PROTOCOL_SIMPLE;
  CHECK(choose_plan(input).value().kernel == RONDO_KERNEL_INTERPRETER);
}
