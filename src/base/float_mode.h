// SPDX-License-Identifier: Apache-2.0
// The floating-point mode of a thread: rounding direction, flushing of subnormals, and traps. Ranks must compute in one
// mode, or their results differ; callers may run in any.
#pragma once

#include <cstdint>

namespace rondo {

#if defined(__x86_64__)
using FloatMode = uint32_t;                               // MXCSR
inline constexpr FloatMode float_mode_default = 0x1F80;     ///< nearest, subnormals kept, no traps
inline constexpr FloatMode float_mode_flags = 0x003F;       ///< no mode: what has happened so far
inline constexpr FloatMode float_mode_flushing = 0x8040;    ///< flush-to-zero and denormals-are-zero, to be added
inline constexpr FloatMode float_mode_upward = 0x4000;      ///< rounding toward +infinity, to be added
[[nodiscard]] inline FloatMode read_float_mode() { return __builtin_ia32_stmxcsr(); }
inline void write_float_mode(FloatMode mode) { __builtin_ia32_ldmxcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = uint64_t;                           // FPCR
inline constexpr FloatMode float_mode_default = 0;
inline constexpr FloatMode float_mode_flags = 0;  // they have a register of their own
inline constexpr FloatMode float_mode_flushing = FloatMode{1} << 24;
inline constexpr FloatMode float_mode_upward = FloatMode{1} << 22;
[[nodiscard]] inline FloatMode read_float_mode() {
  FloatMode mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void write_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
using FloatMode = uint32_t;  // unknown on this processor: callers must keep the default one
inline constexpr FloatMode float_mode_default = 0, float_mode_flags = 0, float_mode_flushing = 0, float_mode_upward = 0;
[[nodiscard]] inline FloatMode read_float_mode() { return 0; }
inline void write_float_mode(FloatMode) {}
#endif

/// Sets the default mode, and at its end the caller's again. Writes nothing if the mode is the default one already:
/// reading it takes a few cycles, writing it tens.
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
