// SPDX-License-Identifier: Apache-2.0
// This file lets `rondo perf` use several streams of a device: for work beside the calls, and for a relay among
// processes.
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

/// Moves the result of `made` to `value`, and returns its Outcome. Without a result `value` stays unchanged.
template <class Value>
[[nodiscard]] perf::Outcome perf_take(Result<Value> made, Value &value) {
  if (!made.ok()) return perf::Failure{perf::Exit::communication, made.error().message};
  value = std::move(made).value();
  return std::nullopt;
}

/// The context of a device and the stream of its calls. They outlive all objects that are made with them.
struct PerfStreams {
  const cuda::PrimaryContext *context = nullptr;
  cuda::CuStream calls = nullptr;

  [[nodiscard]] const cuda::CudaDriver &driver() const { return *context->get().driver; }
  /// Runs `call(driver)` while the context is current.
  template <class Call>
  Result<void> with_context(const char *what, const Call &call) const {
    const cuda::ContextGuard guard(driver(), context->get().context);
    RONDO_TRY(guard.status());
    return cuda_check(driver(), call(driver()), what);
  }
  /// Says whether all work on the stream of calls has ended.
  [[nodiscard]] Result<bool> ended() const;
  [[nodiscard]] Result<double> between_ns(const cuda::Event &from, const cuda::Event &to) const;
};

[[nodiscard]] Result<std::unique_ptr<perf::SideStream>> make_side_stream(const PerfStreams &streams);
[[nodiscard]] Result<std::unique_ptr<perf::Relay>> make_relay(const PerfStreams &streams,
                                                              const perf::RelayPlace &place);

}  // namespace rondo::cli
