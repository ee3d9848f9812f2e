// SPDX-License-Identifier: Apache-2.0
// Ranks on a device make calls that disagree, drawn from seeds. Each rank gets RONDO_ERROR_MISMATCH, at the latest when
// it finalizes. The error names both calls. RONDO_DISAGREEMENTS is the number of cases of each kind, by default 25.
#include <cstdlib>

#include "tests/disagreement.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/settings.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

struct Kind {
  const char *name;
  rondo_device_executor_t executor;
  rondo_protocol_t protocol;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
};

/// Settings that all collectives support. "kernels" means load_store for large calls, and the interpreter for others.
constexpr Kind kinds[] = {
    {"kernels, simple", RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_PROTOCOL_SIMPLE},
    {"kernels, ll", RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_PROTOCOL_LL},
    {"kernels, load_store", RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_PROTOCOL_AUTO, RONDO_KERNEL_LOAD_STORE},
    {"kernels", RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_PROTOCOL_AUTO},
    {"copies", RONDO_DEVICE_EXECUTOR_COPY, RONDO_PROTOCOL_AUTO},
};

/// Draws the disagreement of `seed` for this kind of settings.
Disagreement draw(uint64_t seed, const Kind &kind) {
  Disagreement drawn = draw_disagreement(seed);
  drawn.config.device = 0;
  drawn.config.device_executor = kind.executor;
  drawn.config.protocol = kind.protocol;
  drawn.config.kernel = kind.kernel;
  drawn.config.algorithm = RONDO_ALGORITHM_AUTO;
  return drawn;
}

std::string live(const Disagreement &drawn) {
  DeviceRanks group(drawn.rank_count, drawn.config);
  std::vector<DeviceBuffer> buffers;
  const size_t bytes = buffer_bytes(drawn);
  for (int rank = 0; rank < drawn.rank_count; ++rank)
    buffers.emplace_back(group.world_of(rank), std::vector<std::byte>(2 * bytes));
  const auto told = group.ranks.each<Told>([&](int rank, rondo_comm_t comm) {
    auto *const first = static_cast<std::byte *>(buffers[static_cast<size_t>(rank)].pointer());
    const auto settle = [&, rank, comm] {
      static_cast<void>(group.world.cu.stream_synchronize(static_cast<rondo::cuda::CuStream>(group.stream(rank))));
      return failure_of(comm).status;
    };
    return live_disagreement(drawn, {rank, comm, first, first + bytes, group.stream(rank), settle});
  });
  return judge_disagreement(drawn, told);
}

}  // namespace

TEST_CASE("device disagreements: every rank is told, whatever runs its calls") {
  const char *const wanted = std::getenv("RONDO_DISAGREEMENTS");
  const uint64_t count = wanted == nullptr ? 25 : std::strtoull(wanted, nullptr, 10);
  constexpr const char *what = "disagreements on devices";
  GateShare share = wanted == nullptr ? GateShare::in_every_build(what) : GateShare(what, false);
  for (const Kind &kind : kinds) {
    const bool by_copies = kind.executor == RONDO_DEVICE_EXECUTOR_COPY;
    if (rondo::test::skips_released_copies(by_copies, "device disagreements by copies")) continue;
    for (uint64_t seed = 1; seed <= count; ++seed) {
      if (!share.has_next()) continue;
      const Disagreement drawn = draw(seed, kind);
      const std::string wrong = live(drawn);
      CAPTURE(kind.name, drawn.text());
      CHECK(wrong == "");
    }
  }
}
