// SPDX-License-Identifier: Apache-2.0
// Capture of streams into graphs, by the rules of the CUDA programming guide's chapter on graphs.
#pragma once

#include "tests/soft_cuda/state.h"

namespace soft_cuda {

/// Appends a node after what the stream has captured so far.
CuStatus capture_node(Stream &stream, Action run);

/// Makes the event stand for what the stream has captured so far.
CuStatus capture_record(Stream &stream, Event &event);

/// Lets the stream go on after what the event stands for; it joins the capture if it was in none.
CuStatus capture_wait(State &state, Stream &stream, const Event &event);

/// Returns success if the host may ask for the event. It may not if the event was last recorded in a captured stream:
/// then the capture fails. Once the capture has ended, the event is an invalid value (driver 580 says so to
/// cuEventQuery) until it is recorded anew.
CuStatus check_not_captured(const State &state, const Event &event);

/// Ends all captures in the context as failures: what was asked cannot be part of a graph.
void invalidate_captures(State &state, const Context &context);

/// Checks calls that are "potentially unsafe" while a stream is captured: allocation, synchronisation, queries. Unless
/// it returns success, the call is refused, and the captures that forbid it are invalidated.
CuStatus check_unsafe_call(State &state);

/// Does the same for a query or synchronisation of this very stream.
CuStatus check_not_capturing(Stream &stream);

/// Runs the nodes; lanes beside each other.
CuStatus replay(const GraphBody &body);

}  // namespace soft_cuda
