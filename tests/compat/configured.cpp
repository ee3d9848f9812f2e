// SPDX-License-Identifier: Apache-2.0
// This part of the test program calls collectives that each have their own configuration (ncclCollConfig_t).
#include <nccl.h>

#include <climits>
#include <cstring>

#include "src/compat/abi_newer.h"
#include "tests/compat/client.h"

using namespace compat_test;

namespace {

using Config = const ncclCollConfig_t *;
using Memory = std::vector<unsigned char>;

/// Makes a configuration that sets nothing, as NCCL_COLLCONFIG_INITIALIZER does.
ncclCollConfig_t plain() {
  ncclCollConfig_t config{};
  config.size = sizeof config;
  config.magic = 0xcafebeef;
  config.version = 23203;
  config.minCTAs = config.maxCTAs = config.nvlsCTAs = config.cgaClusterSize = config.CTAPolicy = INT_MIN;
  config.forceAlgSelection = 1;
  return config;
}

ncclCollConfig_t with_algorithms(const char *names, int force = 1) {
  ncclCollConfig_t config = plain();
  config.algSelection = names;
  config.forceAlgSelection = force;
  return config;
}

ncclResult_t call_with(const Case &it, int rank, const DevicePart &part, ncclComm_t comm, Config config) {
  const Places places = places_of(it, rank);
  const void *const send = part.at(places.send);
  void *const recv = part.at(places.recv);
  const Stream stream = part.stream();
  switch (it.kind) {
    case Kind::all_reduce: return ncclAllReduceConfig(send, recv, it.count, it.type, it.op, comm, stream, config);
    case Kind::reduce: return ncclReduceConfig(send, recv, it.count, it.type, it.op, it.root, comm, stream, config);
    case Kind::broadcast: return ncclBroadcastConfig(send, recv, it.count, it.type, it.root, comm, stream, config);
    case Kind::all_gather: return ncclAllGatherConfig(send, recv, it.count, it.type, comm, stream, config);
    default: return ncclReduceScatterConfig(send, recv, it.count, it.type, it.op, comm, stream, config);
  }
}

/// Runs a case on all ranks in a group.
void run(Ranks &ranks, const Case &it, Config config) {
  ranks.write(it);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < ranks.size(); ++rank) NCCL(call_with(it, rank, ranks.part(rank), ranks.comm(rank), config));
  NCCL(ncclGroupEnd());
  ranks.check(it);
}

/// Checks the five collectives of struct Case, with and without a configuration.
void check_kinds(Ranks &ranks) {
  const ncclCollConfig_t set = plain();
  for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::broadcast, Kind::all_gather, Kind::reduce_scatter})
    for (const Config config : {Config{}, &set}) {
      Case it{kind, ncclInt32, ncclMax, 1021};
      it.rank_count = ranks.size();
      it.root = 1;
      run(ranks, it, config);
    }
}

/// Checks the exchanges of blocks. Two ranks send blocks of 4 bytes, which contain the numbers of both ranks.
void check_blocks(Ranks &ranks) {
  const ncclCollConfig_t set = plain();
  const auto each = [&](const auto &call) {
    for (int rank = 0; rank < 2; ++rank) {
      Memory memory(2 * half_bytes, untouched);
      for (int to = 0; to < 2; ++to) std::memset(&memory[4 * static_cast<size_t>(to)], 16 * rank + to, 4);
      ranks.part(rank).write(memory);
    }
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < 2; ++rank) NCCL(call(ranks.part(rank), ranks.comm(rank)));
    NCCL(ncclGroupEnd());
  };
  const auto received = [&](int rank, size_t block) { return ranks.part(rank).read()[half_bytes + 4 * block]; };
  each([&](const DevicePart &part, ncclComm_t comm) {
    return ncclAlltoAllConfig(part.at(0), part.at(half_bytes), 4, ncclInt8, comm, part.stream(), &set);
  });
  for (int rank = 0; rank < 2; ++rank)
    for (int from = 0; from < 2; ++from) CHECK(received(rank, static_cast<size_t>(from)) == 16 * from + rank);
  each([&](const DevicePart &part, ncclComm_t comm) {
    return ncclGatherConfig(part.at(0), part.at(half_bytes), 1, ncclInt32, 1, comm, part.stream(), &set);
  });
  CHECK(received(1, 0) == 0 && received(1, 1) == 16 && received(0, 0) == untouched);
  each([&](const DevicePart &part, ncclComm_t comm) {
    return ncclScatterConfig(part.at(0), part.at(half_bytes), 1, ncclFloat32, 1, comm, part.stream(), &set);
  });
  CHECK(received(0, 0) == 16 && received(1, 0) == 17 && received(1, 1) == untouched);
}

void check_refusals(Ranks &ranks) {
  const Case it = ranks.sum(100);
  const auto refused = [&](ncclCollConfig_t config, const char *words) {
    CHECK_REFUSED(call_with(it, 0, ranks.part(0), ranks.comm(0), &config), ncclInvalidArgument, words);
    CHECK_REFUSED(call_with(it, 0, ranks.part(0), nullptr, &config), ncclInvalidArgument, "");
  };
  const auto changed = [](auto ncclCollConfig_t::*field, auto value) {
    ncclCollConfig_t config = plain();
    config.*field = value;
    return config;
  };
  refused(changed(&ncclCollConfig_t::size, 56), "NCCL_COLLCONFIG_INITIALIZER");
  refused(changed(&ncclCollConfig_t::magic, 7u), "NCCL_COLLCONFIG_INITIALIZER");
  refused(changed(&ncclCollConfig_t::forceAlgSelection, 2), "forceAlgSelection is 2");
  refused(changed(&ncclCollConfig_t::CTAPolicy, 4), "CTAPolicy is 4");
  refused(with_algorithms("nvls"), "but Rondo uses ");
  refused(with_algorithms("bogus"), "no algorithm is named \"bogus\"");
  refused(with_algorithms("^"), "no algorithm is named \"\"");
  // The rest of the group runs without the refused call.
  const ncclCollConfig_t wrong = changed(&ncclCollConfig_t::magic, 7u);
  ranks.write(it);
  NCCL(ncclGroupStart());
  CHECK(call_with(it, 0, ranks.part(0), ranks.comm(0), &wrong) == ncclInvalidArgument);
  for (int rank = 0; rank < ranks.size(); ++rank) NCCL(call(it, rank, ranks.part(rank), ranks.comm(rank)));
  NCCL(ncclGroupEnd());
  ranks.check(it);
  // After the refusal of an algorithm, the group must not run, because rank 1 would wait for rank 0.
  const ncclCollConfig_t other = with_algorithms("nvls");
  NCCL(ncclGroupStart());
  CHECK_REFUSED(call_with(it, 0, ranks.part(0), ranks.comm(0), &other), ncclInvalidArgument, "but Rondo uses ");
  NCCL(call(it, 1, ranks.part(1), ranks.comm(1)));
  CHECK_REFUSED(ncclGroupEnd(), ncclInvalidArgument, "but Rondo uses ");
  ranks.check_usable();
}

/// Returns whether rank 0's all-reduce with `algorithm` is accepted. The group also has a wrong call, so no call runs.
bool accepts(Ranks &ranks, Case it, const char *algorithm, ncclDataType_t type, ncclRedOp_t op) {
  const ncclCollConfig_t config = with_algorithms(algorithm);
  it.type = type;
  it.op = op;
  NCCL(ncclGroupStart());
  const ncclResult_t result = call_with(it, 0, ranks.part(0), ranks.comm(0), &config);
  CHECK(call(it, 0, ranks.part(0), nullptr) == ncclInvalidArgument && ncclGroupEnd() == ncclInvalidArgument);
  return result == ncclSuccess;
}

/// Checks that a mean of integers accepts the same algorithms as the sum of wider words that Rondo computes for it.
void check_means(Ranks &ranks) {
  int differences = 0;
  for (size_t count = 4; count <= size_t{1} << 26; count *= 2)
    for (const char *const algorithm : {"ring", "one_shot", "two_shot", "halving_doubling", "tree"}) {
      const Case it = ranks.sum(count);
      const bool wide = accepts(ranks, it, algorithm, ncclInt32, ncclSum);
      CHECK(accepts(ranks, it, algorithm, ncclInt8, ncclAvg) == wide);
      CHECK(accepts(ranks, it, algorithm, ncclFloat32, ncclAvg) == wide);
      CHECK(accepts(ranks, it, algorithm, ncclUint32, ncclAvg) == accepts(ranks, it, algorithm, ncclInt64, ncclSum));
      CHECK(accepts(ranks, it, algorithm, ncclInt64, ncclAvg) ==
            accepts(ranks, ranks.sum(2 * count), algorithm, ncclInt64, ncclSum));
      if (wide != accepts(ranks, it, algorithm, ncclInt8, ncclSum)) ++differences;
    }
  CHECK(differences > 0);
}

/// Checks accepted fields: hints, and lists of algorithms that contain Rondo's choice or whose force flag is not set.
void check_accepted(Ranks &ranks) {
  ncclCollConfig_t hints = plain();
  hints.minCTAs = 4;
  hints.maxCTAs = 2;
  hints.CTAPolicy = 3;
  hints.userProfilerTag = 0x8000000000000001;
  hints.size += 8;  // as in a later release
  ncclCollConfig_t older = plain();
  older.size = offsetof(ncclCollConfig_t, launchCompletionEvent);
  older.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&older);  // beyond the size, so it is ignored
  const char *const all = "Ring, TREE,,halving_doubling,one_shot,two_shot,hierarchical,hierarchical_tree";
  for (const ncclCollConfig_t &each : {hints, older, with_algorithms("bogus", 0), with_algorithms(all),
                                       with_algorithms("^nvls,pat"), with_algorithms(" ")})
    run(ranks, ranks.sum(100), &each);
}

/// Checks that the event is recorded before the collective: the event happens although rank 1 has not called yet.
void check_event(Ranks &ranks) {
  const Case it = ranks.sum(100);
  ranks.write(it);
  ncclCollConfig_t config = plain();
  void *event = nullptr;
  {
    const OnDevice current(0);
    CU(event_create(&event, 2));
  }
  config.launchCompletionEvent = static_cast<cudaEvent_t>(event);
  NCCL(call_with(it, 0, ranks.part(0), ranks.comm(0), &config));
  {
    const OnDevice current(0);
    CU(event_synchronize(event));
  }
  ncclCollConfig_t wrong = config;
  wrong.launchCompletionEvent = reinterpret_cast<cudaEvent_t>(&ranks);
  CHECK_REFUSED(call_with(it, 1, ranks.part(1), ranks.comm(1), &wrong), ncclUnhandledCudaError, "cuEventRecord");
  NCCL(call_with(it, 1, ranks.part(1), ranks.comm(1), &config));
  ranks.check(it);
  run(ranks, it, &config);
  Ranks alone(1);
  {
    const OnDevice other(1);  // the event and the thread's stream belong to device 0
    NCCL(ncclAllReduceConfig(alone.part(0).at(0), alone.part(0).at(0), 4, ncclInt8, ncclSum, alone.comm(0),
                             stream_of_thread, &config));
  }
  const OnDevice current(0);
  CU(event_destroy(event));
}

}  // namespace

void compat_test::check_configured() {
  Ranks ranks(2);
  check_kinds(ranks);
  check_blocks(ranks);
  check_refusals(ranks);
  check_means(ranks);
  check_accepted(ranks);
  check_event(ranks);
}
