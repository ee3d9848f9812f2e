// SPDX-License-Identifier: Apache-2.0
// These tests cover the record of a communicator's first failure.
#include "transports/shm/board.h"

#include <array>
#include <vector>

#include "src/proto/memory.h"
#include "tests/catch.h"

using namespace rondo;
using namespace rondo::shm;

TEST_CASE("failure record: the first failure stays, with the rank that wrote it", "[shm]") {
  SharedFailure failure;
  CHECK_FALSE(failed(failure));
  raise_failure(failure, 3, {RONDO_ERROR_TIMEOUT, "the first", 3, 1, 7});
  raise_failure(failure, 2, {RONDO_ERROR_ABORTED, "the second", 2, 2, 8});
  CHECK(failed(failure));
  CHECK(failure_writer(failure) == 3);
  const auto read = read_failure(failure);
  REQUIRE(read.has_value());
  CHECK(read->status == RONDO_ERROR_TIMEOUT);
  CHECK(read->message == "the first");
  CHECK(read->rank == 3);
  CHECK(read->peer == 1);
  CHECK(read->operation == 7);
}

TEST_CASE("notes: those of windows have records of their own, and the latest of each kind are kept", "[shm]") {
  std::array<NoteRecord, note_record_count> records{};
  const auto numbers = [&] {
    std::vector<uint64_t> found;
    for (const Note &note : read_notes(records)) found.push_back(note.number);
    return found;
  };
  uint64_t revision = 0;
  for (uint64_t number = 1; number <= 5; ++number) post_note(records, {number, ++revision, {}});
  CHECK(numbers() == std::vector<uint64_t>{4, 5, 2, 3});
  for (uint64_t number = 1; number <= 9; ++number) post_note(records, {window_note_bit | number, ++revision, {}});
  CHECK(numbers() == std::vector<uint64_t>{4, 5, 2, 3, window_note_bit | 8, window_note_bit | 9});
}

TEST_CASE("failure record: a status that is no error reads as an internal error", "[shm]") {
  for (const uint64_t status : {uint64_t{RONDO_OK}, uint64_t{RONDO_NOT_READY}, uint64_t{RONDO_ERROR_REVOKED} + 1}) {
    SharedFailure failure;
    raise_failure(failure, 3, {RONDO_ERROR_TIMEOUT, "the first", 3, 1, 7});
    failure.status = status;
    CHECK(read_failure(failure)->status == RONDO_ERROR_INTERNAL);
  }
}

TEST_CASE("failure record: a rank that dies while it writes is known, and nobody waits for the rest", "[shm]") {
  SharedFailure failure;
  // If rank 5 is killed in the middle of raise_failure(), it leaves this state.
  REQUIRE(memory::exchange_if(failure.state, 0, uint64_t{5} << 32 | 1));
  CHECK(failed(failure));
  CHECK_FALSE(read_failure(failure).has_value());
  CHECK(failure_writer(failure) == 5);
  raise_failure(failure, 2, {RONDO_ERROR_ABORTED, "too late", 2, 2, 8});
  CHECK(failure_writer(failure) == 5);
}
