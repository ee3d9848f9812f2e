// SPDX-License-Identifier: Apache-2.0
// Internal functions return Result<T>, which holds a value or an Error. Rondo's code does not throw.
#pragma once

#include <cassert>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "rondo/rondo.h"

namespace rondo {

/// A failure, with the fields of rondo_error_t. `message` is one line: what happened, where, what to do.
struct Error {
  rondo_status_t status = RONDO_ERROR_INTERNAL;
  std::string message;
  int32_t rank = -1;       ///< rank that noticed the failure, or -1 if unknown here (the communicator fills it in)
  int32_t peer = -1;       ///< rank that the failure is about, or -1
  uint64_t operation = 0;  ///< number of the operation, or 0
};

[[nodiscard]] inline Error invalid_argument(std::string message) {
  return {RONDO_ERROR_INVALID_ARGUMENT, std::move(message)};
}

/// Returns whether this errno means that descriptors or memory have run out.
[[nodiscard]] bool ran_out(int error_number);

/// Returns an error with errno's text, such as system_error("connect to 127.0.0.1:4000", errno). If ran_out() is true,
/// the status is RONDO_ERROR_OUT_OF_RESOURCES, and otherwise RONDO_ERROR_SYSTEM.
[[nodiscard]] Error system_error(const std::string &what, int error_number);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T &value() & { assert(ok()); return *std::get_if<0>(&state_); }
  [[nodiscard]] const T &value() const & { assert(ok()); return *std::get_if<0>(&state_); }
  [[nodiscard]] T &&value() && { assert(ok()); return std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] const Error &error() const & { assert(!ok()); return *std::get_if<1>(&state_); }
  [[nodiscard]] Error &&error() && { assert(!ok()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error &error() const & { assert(!ok()); return *std::get_if<1>(&state_); }
  [[nodiscard]] Error &&error() && { assert(!ok()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace rondo

#define RONDO_CONCAT_2(a, b) a##b
#define RONDO_CONCAT(a, b) RONDO_CONCAT_2(a, b)

/// Returns the failure of `expression` (a Result) from the calling function.
#define RONDO_TRY(expression)                                          \
  do {                                                                 \
    if (auto rondo_result = (expression); !rondo_result.ok())          \
      return std::move(rondo_result).error();                          \
  } while (false)

/// Sets `target` to the value of a Result, or returns its failure: RONDO_TRY_ASSIGN(auto fd, open(...)). `target` may
/// be a declaration.
#define RONDO_TRY_ASSIGN(target, expression) \
  RONDO_TRY_ASSIGN_AS(RONDO_CONCAT(rondo_result_, __LINE__), target, expression)
#define RONDO_TRY_ASSIGN_AS(name, target, expression)  \
  auto name = (expression);                            \
  if (!name.ok()) return std::move(name).error();      \
  target = std::move(name).value()
