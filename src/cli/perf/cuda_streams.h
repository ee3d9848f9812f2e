// SPDX-License-Identifier: Apache-2.0
// Gives `rondo perf` its uses of several streams of a device: work beside the calls, and a relay among processes.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "bench/perf/device.h"
#include "cuda/driver/handles.h"

namespace rondo::cli {

[[nodiscard]] inline perf::Outcome perf_outcome(const Result<void> &result) {
  if (result.ok()) return std::nullopt;
  return perf::Failure{perf::Exit::communication, result.error().message};
}

/// Returns the Outcome of `made`. `value` is left alone if there is none.
template <class Value>
[[nodiscard]] perf::Outcome perf_take(Result<Value> made, Value &value) {
  if (!made.ok()) return perf::Failure{perf::Exit::communication, made.error().message};
  value = std::move(made).value();
  return std::nullopt;
}

/// A device's context and the stream of its calls, which outlive what is made of them.
struct PerfStreams {
  const cuda::PrimaryContext *context = nullptr;
  cuda::CuStream calls = nullptr;

  [[nodiscard]] const cuda::CudaDriver &driver() const { return *context->get().driver; }
  /// Runs `call(driver)` with the context current.
  template <class Call>
  Result<void> with_context(const char *what, const Call &call) const {
    const cuda::ContextGuard guard(driver(), context->get().context);
    RONDO_TRY(guard.status());
    return cuda_check(driver(), call(driver()), what);
  }
  /// Returns whether nothing is left on the stream of calls.
  [[nodiscard]] Result<bool> ended() const;
  [[nodiscard]] Result<double> between_ns(const cuda::Event &from, const cuda::Event &to) const;
};

[[nodiscard]] Result<std::unique_ptr<perf::SideStream>> make_side_stream(const PerfStreams &streams);
[[nodiscard]] Result<std::unique_ptr<perf::Relay>> make_relay(const PerfStreams &streams,
                                                              const perf::RelayPlace &place);

}  // namespace rondo::cli
