// SPDX-License-Identifier: Apache-2.0
// A site is an access or a barrier on which memory order depends. A policy decides which sites keep their order, and
// gets a call for each access (memory.h). The product's policy keeps the order of all sites, and ignores the calls. A
// test may define its own class memory::Policy in a header, and compile with RONDO_MEMORY_POLICY set to the quoted path
// of that header (tests/soft_cuda/counting.h, tests/gpu/broken_order.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"

namespace rondo::memory {

/// The sites of all protocols. Each label is explained in the header of its protocol: S in simple.h, F in ll.h, all
/// others in load_store_place.h. A test builds a program without one site (tests/gpu/broken_order.h): a release becomes
/// relaxed, or a barrier is left out. The program must then fail. F4 of ll is no site, because it is relaxed on a
/// device.
enum class Site : uint8_t {
  none,
  simple_post,                ///< S3
  simple_release,             ///< S6
  ll_post,                    ///< F2 of unit 0
  simple_ready_vote,          ///< in a group: thread 0 has seen free (S1) or full (S4) slots before any thread uses one
  ll_ready_vote,              ///< in a group: credit (F1) and all threads' units (F3) precede any use of them
  slice_barrier,              ///< in a group: operands read, results written and counters taken before the slice is
                              ///< published
  lane_end,                   ///< the lanes of a kernel have ended before the last of them reports
  operation_end,              ///< the report of that lane
  load_store_post,                ///< P2
  load_store_contribute,          ///< C2
  load_store_contribute_barrier,  ///< in a group: every thread's C1 precedes C2
  load_store_reduce,              ///< R2
  load_store_reduce_barrier,      ///< in a group: every thread's part of the result precedes R2
  load_store_ready_vote,          ///< in a group: each thread has acquired its flags before any thread reads data
  load_store_end_barrier,         ///< in a group: all data are gathered before thread 0 reports
  load_store_arrive,              ///< B1
  load_store_leave,               ///< B4
  load_store_leave_barrier,       ///< in a group: every thread's part of the result precedes the add of B4
};

/// The kind of an access. Flags are words that other threads poll.
enum class Access : uint8_t { load, flag_load, flag_acquire, store };

struct PlainPolicy {
  [[nodiscard]] RONDO_HD static constexpr bool is_kept(Site /*site*/) { return true; }
  RONDO_HD static void note(Access /*access*/, const void * /*at*/, size_t /*bytes*/) {}
  RONDO_HD static void note_batch() {}
};

}  // namespace rondo::memory
