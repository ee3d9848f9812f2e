// SPDX-License-Identifier: Apache-2.0
// These tests check how streams report the copy-engine executor's calls to the host, also those that graphs replay.
#include "cuda/executors/copy_progress.h"
#include "tests/gpu/copy_group.h"

using namespace rondo;
using namespace rondo::cuda;
using rondo::cuda::conformance::becomes_true;
using rondo::cuda::conformance::Gate;
using rondo_test::captured;
using rondo_test::World;

namespace {

/// Calls that only report their begin and end. Some also wait at a gate in between.
struct Told {
  Told() : scratch(world.memory(CopyProgress::scratch_bytes)) {
    REQUIRE(progress.open(world.context()).ok());
    progress.use_scratch(scratch.get().object);
  }
  void call(uint64_t number, bool is_captured, Gate *gate = nullptr) {
    const StreamWork work{&world.cu, world.stream(), wait_value_geq};
    DeviceCall call;
    call.turn = number;
    call.captured = is_captured;
    REQUIRE(progress.begin(work, is_captured).ok());
    if (gate != nullptr) gate->close(world.stream());
    REQUIRE(progress.end(work, call, true).ok());
  }
  void replay(const GraphExec &graph) const { CU_OK(world.cu.graph_launch(graph.get().object, world.stream())); }
  void check(uint64_t begun, uint64_t ended, uint64_t number) const {
    const DeviceReport report = progress.report();
    CHECK(report.begun_calls == begun);
    CHECK(report.ended_calls == ended);
    CHECK(report.ended_number == number);
    CHECK_FALSE(report.failed);
    CHECK(progress.drained() == (begun == ended));
  }

  World world;
  DeviceMemory scratch;
  CopyProgress progress;
};

}  // namespace

TEST_CASE("copy progress: each replay counts, and leaves the numbers of other calls alone") {
  Told told;
  told.check(0, 0, 0);
  const GraphExec twice = captured(told.world, told.world.stream(), [&] {
    told.call(1, true);
    told.call(2, true);
  });
  told.check(0, 0, 0);  // nothing ran yet
  uint64_t ended = 0;
  for (uint64_t number = 3; number < 8; ++number) {
    told.call(number, false);
    told.replay(twice);
    CU_OK(told.world.cu.stream_synchronize(told.world.stream()));
    ended += 3;
    told.check(ended, ended, number);
  }
  for (uint64_t replay = 0; replay < CopyProgress::wheel_words + 10; ++replay) {
    told.replay(twice);
    if (replay % 50 != 0) continue;  // only some replays are checked
    CU_OK(told.world.cu.stream_synchronize(told.world.stream()));
    static_cast<void>(told.progress.report());
  }
  CU_OK(told.world.cu.stream_synchronize(told.world.stream()));
  ended += 2 * (CopyProgress::wheel_words + 10);
  told.check(ended, ended, 7);
}

TEST_CASE("copy progress: a replay is seen to run, and so is a call") {
  Told told;
  Gate gate(told.world);
  const GraphExec waits = captured(told.world, told.world.stream(), [&] { told.call(1, true, &gate); });
  const auto runs = [&] {
    const DeviceReport report = told.progress.report();
    return report.begun_calls != report.ended_calls;
  };
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t before = 2 * round;
    told.replay(waits);
    told.call(2 + round, false);
    CHECK(becomes_true(runs));
    const DeviceReport report = told.progress.report();
    CHECK(report.begun_calls == before + 1);
    CHECK(report.ended_calls == before);
    CHECK_FALSE(told.progress.drained());
    gate.open();
    CU_OK(told.world.cu.stream_synchronize(told.world.stream()));
    gate.word() = 0;
    told.check(before + 2, before + 2, 2 + round);
  }
}
