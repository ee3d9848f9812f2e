// SPDX-License-Identifier: Apache-2.0
// This file sets the floating-point mode of a thread: rounding direction, flushing of subnormal numbers, and traps.
// Ranks must compute in the same mode to get equal results, but callers may use any mode.
#pragma once

#include <cstdint>

namespace rondo {

#if defined(__x86_64__)
using FloatMode = uint32_t;                               // the register MXCSR
inline constexpr FloatMode float_mode_default = 0x1F80;     ///< rounds to nearest, keeps subnormals, no traps
inline constexpr FloatMode float_mode_flags = 0x003F;       ///< bits of exceptions that have occurred, not of the mode
inline constexpr FloatMode float_mode_flushing = 0x8040;    ///< bits for flush-to-zero and denormals-are-zero
inline constexpr FloatMode float_mode_upward = 0x4000;      ///< bit for rounding toward +infinity
[[nodiscard]] inline FloatMode read_float_mode() { return __builtin_ia32_stmxcsr(); }
inline void write_float_mode(FloatMode mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = uint64_t;                           // the register FPCR
inline constexpr FloatMode float_mode_default = 0;
inline constexpr FloatMode float_mode_flags = 0;  // the flags are in another register
inline constexpr FloatMode float_mode_flushing = FloatMode{1} << 24;
inline constexpr FloatMode float_mode_upward = FloatMode{1} << 22;
[[nodiscard]] inline FloatMode read_float_mode() {
  FloatMode mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void write_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
using FloatMode = uint32_t;  // on this processor the mode is unknown, so callers must keep the default
inline constexpr FloatMode float_mode_default = 0, float_mode_flags = 0, float_mode_flushing = 0, float_mode_upward = 0;
[[nodiscard]] inline FloatMode read_float_mode() { return 0; }
inline void write_float_mode(FloatMode) {}
#endif

/// An object that sets the default mode, and restores the caller's mode at its end. If the caller's mode is the
/// default, nothing is written. Reading the mode takes a few cycles, and writing the mode takes tens.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : callers_(read_float_mode()) {
    if (differs()) write_float_mode(float_mode_default);
  }
  ~DefaultFloatMode() {
    if (differs()) write_float_mode(callers_);
  }
  DefaultFloatMode(const DefaultFloatMode &) = delete;
  DefaultFloatMode &operator=(const DefaultFloatMode &) = delete;

 private:
  [[nodiscard]] bool differs() const { return (callers_ & ~float_mode_flags) != float_mode_default; }

  const FloatMode callers_;
};

}  // namespace rondo
