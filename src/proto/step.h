// SPDX-License-Identifier: Apache-2.0
// A step is the work of one rank on one chunk. It is a set of flags, and not an opcode: every primitive is a
// combination of flags.
//
// A step takes its operands in the order acc, src, recv[0], recv[1], and reduces them from the left with the reduction.
// It computes 8- and 16-bit floats in fp32 and rounds once, at the end of the step. It applies the final scaling if
// `finish` is set, and writes the one result to dst and to every send link. A step with one operand and without
// `finish` is a copy.
#pragma once

#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/mean.h"

namespace rondo {

enum StepFlag : uint8_t {
  step_recv = 1,     ///< operand: the next slot(s) of recv_link[0] and, unless no_link, recv_link[1]
  step_src = 2,      ///< operand: the chunk in this rank's send buffer
  step_acc = 4,      ///< operand: the chunk in this rank's recv buffer, which an earlier step of the lane wrote
  step_dst = 8,      ///< result: the chunk in this rank's recv buffer
  step_send = 16,    ///< result: the next slot(s) of send_link[0] and, unless no_link, send_link[1]
  step_finish = 32,  ///< the reduction of this chunk is complete with this step: avg divides here
};

/// An index into Schedule::peers.
using LinkIndex = uint16_t;
inline constexpr LinkIndex no_link = 0xFFFF;

struct Step {
  uint16_t chunk = 0;
  uint8_t flags = 0;
  uint8_t reserved = 0;
  LinkIndex recv_link[2] = {no_link, no_link};
  LinkIndex send_link[2] = {no_link, no_link};
  MeanShifts mean_shifts = 0;  ///< shifts of the operands in their order; only a mean uses them

  bool operator==(const Step &) const = default;
};
static_assert(sizeof(Step) == 16 && alignof(Step) == 4);

/// Returns whether is(link) is true for every link on which the step sends. After the first false result, it does not
/// call is() again.
template <class Is>
[[nodiscard]] RONDO_HD bool all_send_links(const Step &step, const Is &is) {
  bool all = true;
  RONDO_UNROLL
  for (uint32_t which = 0; which < 2; ++which)
    all = all && ((step.flags & step_send) == 0 || step.send_link[which] == no_link || is(step.send_link[which]));
  return all;
}

}  // namespace rondo
