// SPDX-License-Identifier: Apache-2.0
// This file captures streams into graphs, by the rules in the CUDA programming guide's chapter on graphs.
#pragma once

#include "tests/soft_cuda/state.h"

namespace soft_cuda {

/// Appends a node after everything that the stream has captured so far.
CuStatus capture_node(Stream &stream, Action run);

/// Makes the event represent what the stream has captured so far.
CuStatus capture_record(Stream &stream, Event &event);

/// Makes the stream continue after what the event represents. If the stream is in no capture, it joins the event's
/// capture.
CuStatus capture_wait(State &state, Stream &stream, const Event &event);

/// Returns success if the host may query the event. If the event was last recorded in a captured stream, the host may
/// not query it, and the capture fails. After the capture, the event is an invalid value until it is recorded again;
/// driver 580 returns that from cuEventQuery.
CuStatus check_not_captured(const State &state, const Event &event);

/// Makes all captures in the context fail, because the call that was made cannot be part of a graph.
void invalidate_captures(State &state, const Context &context);

/// Checks calls that are "potentially unsafe" while a stream is captured: allocation, synchronisation, queries. If it
/// does not return success, the call is refused, and the captures that forbid the call are invalidated.
CuStatus check_unsafe_call(State &state);

/// Checks a query or synchronisation of this stream, like check_unsafe_call().
CuStatus check_not_capturing(Stream &stream);

/// Runs the nodes. Lanes run side by side.
CuStatus replay(const GraphBody &body);

}  // namespace soft_cuda
