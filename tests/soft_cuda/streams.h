// SPDX-License-Identifier: Apache-2.0
// Work on streams. Each stream has a queue and a thread that takes from it; a context's streams share hardware queues.
#pragma once

#include "tests/soft_cuda/state.h"

namespace soft_cuda {

[[nodiscard]] uint64_t clock_ns();

/// Makes a stream with its worker, known to its context but not yet in the table of handles.
std::shared_ptr<Stream> start_stream(State &state, const std::shared_ptr<Context> &context, unsigned flags,
                                     int priority);

/// Closes a stream, which gets no more work; its worker ends after what is pending.
void close_stream(const std::shared_ptr<Stream> &stream);

/// Appends to the stream, or to the graph that is being captured from it. Waits while the stream's launch queue is
/// full. `completion`, if wanted, is that of the work (null under capture).
CuStatus submit(State &state, Lock &lock, const std::shared_ptr<Stream> &stream, Action run,
                CompletionRef *completion = nullptr, std::vector<CompletionRef> after = {});

/// Runs a piece of work, or a node of a graph, with the delay and the error that the seed has for it.
CuStatus run_action(const Action &run);

/// Returns whether the context has a stream under capture with which the legacy stream would be entangled.
bool legacy_is_entangled(State &state, const Context &context);

}  // namespace soft_cuda
