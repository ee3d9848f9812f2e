// SPDX-License-Identifier: Apache-2.0
// These classes give a plan on host memory its operands, in the form that the plan reads. The host executor chooses
// one class for each call, so a call without conversions pays nothing for them. Each class has:
//
// - place(), which sets the windows that the plan uses, unless they are the caller's buffers.
// - run(), which converts the operands and calls body(scaler) to run the plan. A scaler scales what load_store copies.
// - finish(), which writes the results after the plan has succeeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/engine/reduction/converted_operands.h"
#include "src/engine/run_plan.h"

namespace rondo {

/// Operands that the plan reads as they are.
class PlainOperands {
 public:
  static constexpr bool exports = true;

  PlainOperands(const WorkItem &, uint32_t) {}

  void place(Buffers &) const {}
  template <class Body>
  RunOutcome run(const Buffers &, const Body &body) const {
    return body(nullptr);
  }
  void finish() const {}
};

/// The operands of a mean of integers, which are converted to words.
class MeanOperands {
 public:
  static constexpr bool exports = false;

  MeanOperands(const WorkItem &work, uint32_t rank_count) : work_(work), rank_count_(rank_count), words_(work) {}

  void place(Buffers &buffers) const {
    buffers.send.data = words_.send();
    buffers.recv.data = words_.recv();
  }
  template <class Body>
  RunOutcome run(const Buffers &, const Body &body) const {
    return body(nullptr);
  }
  void finish() const { words_.narrow(work_, rank_count_); }

 private:
  const WorkItem &work_;
  uint32_t rank_count_;
  MeanWorkspace words_;
};

/// The operands of a premul sum. load_store scales the operands while it copies them, which is faster than a separate
/// pass into a buffer that peers can read. For other kernels, run() first scales them into recv or memory of this call.
class ScaledOperands {
 public:
  ScaledOperands(const WorkItem &work, uint32_t)
      : exports(!copies_scaled(*work.plan)), work_(work), scaled_(scaled_operands_of(*work.plan)) {}

  const bool exports;

  void place(Buffers &buffers) const {
    if (exports) buffers.send.data = scaled_ != nullptr ? scaled_.get() : work_.recv;
  }
  template <class Body>
  RunOutcome run(const Buffers &buffers, const Body &body) const {
    const OperandScaler scaler(work_);
    if (!exports) return body(&scaler);
    const Plan &plan = *work_.plan;
    const auto type = static_cast<rondo_type_t>(plan.key.signature.type);
    scaler(buffers.send.data, work_.send, plan.send.count * rondo_type_size(type));
    return body(nullptr);
  }
  void finish() const {}

 private:
  static bool copies_scaled(const Plan &plan) {
    return plan.scaling == Scaling::into_recv && plan.choice.kernel == RONDO_KERNEL_LOAD_STORE;
  }

  const WorkItem &work_;
  std::unique_ptr<std::byte[]> scaled_;  ///< null unless the plan's operands need memory of this call
};

}  // namespace rondo
