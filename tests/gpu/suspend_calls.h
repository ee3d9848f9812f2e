// SPDX-License-Identifier: Apache-2.0
// These calls are for call_each(), which passes the rank.
#pragma once

#include "rondo/rondo.h"

namespace rondo_test {

inline rondo_status_t suspend(int, rondo_comm_t comm) { return rondo_comm_suspend(comm, RONDO_SUSPEND_MEMORY); }
inline rondo_status_t resume(int, rondo_comm_t comm) { return rondo_comm_resume(comm); }

}  // namespace rondo_test
