// SPDX-License-Identifier: Apache-2.0
// These tests cover the table of created operations, without communicators.
#include "src/core/created_ops.h"

#include <cstddef>

#include "tests/catch.h"

using namespace rondo;

TEST_CASE("created operations: the factor of an operation that ends is freed when the table is unlocked") {
  alignas(64) std::byte place[64] = {};
  const Communicator &comm = reinterpret_cast<const Communicator &>(place);  // the table only compares its address
  CreatedOps ops;
  int freed = 0;
  rondo_op_t other = RONDO_SUM;
  const auto free_and_look = [&](const CallDetails *details) {
    delete details;
    ++freed;
    if (!ops.find(other, comm).ok()) ++freed;  // spins for ever if this thread has the lock
  };
  const auto add = [&] {
    return ops.add({&comm, RONDO_FLOAT32, std::shared_ptr<const CallDetails>(new CallDetails(Factor{}), free_and_look)})
        .value();
  };
  const rondo_op_t first = add();
  other = add();
  CHECK(ops.remove(first, comm).ok());
  CHECK(freed == 1);
  CHECK_FALSE(ops.find(first, comm).ok());
  CHECK(ops.find(other, comm).ok());
  other = RONDO_SUM;
  add();
  ops.remove_all(comm);
  CHECK(freed == 5);  // each of two factors counts twice, since neither found an operation
  CHECK(ops.add({&comm, RONDO_FLOAT32, nullptr}).ok());
}
