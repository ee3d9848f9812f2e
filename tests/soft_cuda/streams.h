// SPDX-License-Identifier: Apache-2.0
// This file runs work on streams. Each stream has a queue, and a thread that takes work from it. The streams of a
// context share hardware queues.
#pragma once

#include "tests/soft_cuda/state.h"

namespace soft_cuda {

[[nodiscard]] uint64_t clock_ns();

/// Makes a stream with its worker. The context has the stream, but the table of handles does not have it yet.
std::shared_ptr<Stream> start_stream(State &state, const std::shared_ptr<Context> &context, unsigned flags,
                                     int priority);

/// Closes a stream, which accepts no more work. Its worker ends after the pending work.
void close_stream(const std::shared_ptr<Stream> &stream);

/// Appends work to the stream, or to the graph that is captured from it. Waits while the stream's launch queue is full.
/// If `completion` is not null, it receives the work's completion, which is null during a capture.
CuStatus submit(State &state, Lock &lock, const std::shared_ptr<Stream> &stream, Action run,
                CompletionRef *completion = nullptr, std::vector<CompletionRef> after = {});

/// Runs a piece of work, or a node of a graph. Applies the delay and the error that the seed determines.
CuStatus run_action(const Action &run);

/// Says whether a captured stream of the context would be entangled with the legacy stream.
bool legacy_is_entangled(State &state, const Context &context);

}  // namespace soft_cuda
