// SPDX-License-Identifier: Apache-2.0
// Random programs of messages, groups and collectives through the public interface must yield the expected results.
#include <cstdio>
#include <memory>

#include "tests/catch.h"
#include "tests/message_caller.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "tests/unit/ranks.h"

using namespace rondo_test;

namespace {

void run_program(uint64_t seed) {
  INFO("RONDO_SEED=" << seed);
  const MessageProgram program = ProgramMaker(seed, {}).make();
  std::vector<std::unique_ptr<Ranks>> groups;
  for (uint32_t comm = 0; comm < program.comm_count; ++comm)
    groups.push_back(std::make_unique<Ranks>(static_cast<int>(program.rank_count)));
  const auto statuses = groups[0]->run([&](int rank, rondo_comm_t) {
    std::vector<rondo_comm_t> comms;
    for (const auto &group : groups) comms.push_back((*group)[rank]);
    rondo_stream_t stream = nullptr;
    // Only a program with one communicator gets a stream. On a stream, calls of several would run one after another.
    const bool streamed = program.comm_count == 1 && (seed + static_cast<uint64_t>(rank)) % 3 == 0;
    if (streamed && rondo_stream_create(&stream) != RONDO_OK) return RONDO_ERROR_INTERNAL;
    rondo_status_t status = Caller(program, static_cast<uint32_t>(rank), comms, stream).run();
    if (streamed) static_cast<void>(rondo_stream_destroy(stream));
    for (const rondo_comm_t comm : comms)
      if (status == RONDO_OK) status = rondo_comm_finalize(comm);
    if (status != RONDO_OK) std::fprintf(stderr, "rank %d: %s\n", rank, error_message(comms[0]).c_str());
    return status;
  });
  CHECK(all_ok(statuses));
}

}  // namespace

TEST_CASE("message programs: random messages, groups and collectives yield what they must") {
  rondo_test::GateShare share("programs of messages", std::getenv("RONDO_SEED") == nullptr);
  rondo_test::for_each_seed(rondo_test::sanitized() ? 48 : 100, [&](uint64_t seed) {
    if (share.has_next()) run_program(seed);
  });
}
