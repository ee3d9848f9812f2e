// SPDX-License-Identifier: Apache-2.0
// These tests run the thread that accepts ranks of other hosts without memory.
#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/memory_store.h"
#include "tests/unit/allocation_count.h"
#include "transports/hosts/mesh_parts.h"

using namespace rondo;

TEST_CASE("mesh: a rank that has no memory for accepting others fails with that, and its process lives on") {
  const Settings settings;
  GroupInfo group;
  group.infos.resize(2);
  hosts::MeshRequest request{{.rank_count = 2, .settings = settings, .group = group}};
  request.deadline_ns = now_ns() + 60'000'000'000;  // it only detects hangs
  request.linked = {false, true};
  request.controlled = {false, true};
  hosts::Acceptor acceptor(request, {}, {});
  net_test::MemoryStore store;
  hosts::Mesh mesh;
  Result<void> finished;
  {
    const rondo_test::OthersOutOfMemory failing;
    REQUIRE(acceptor.start().ok());
    finished = acceptor.finish(mesh, store);
  }
  REQUIRE_FALSE(finished.ok());
  CHECK(finished.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(finished.error().message == "out of memory");
}
