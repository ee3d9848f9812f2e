// SPDX-License-Identifier: Apache-2.0
// These functions of the interface return the name of an enumerator, or the size of a type.
#include <array>
#include <cstddef>
#include <cstring>

#include "rondo/rondo.h"
#include "src/plan/collective.h"

namespace {

/// Returns an enumerator as a number. A caller may pass a number that is no enumerator, for example at the end of a
/// loop over all names.
template <class Enum>
unsigned number_of(const Enum &value) {
  unsigned number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

template <size_t size, class Enum>
const char *name_of(const std::array<const char *, size> &names, const Enum &value) {
  const unsigned number = number_of(value);
  return number < size ? names[number] : nullptr;
}

}  // namespace

extern "C" {

const char *rondo_status_string(rondo_status_t status) noexcept {
  static constexpr std::array names{"ok",           "not ready",      "invalid argument", "invalid handle",
                                    "unsupported",  "out of resources", "system error",   "authentication failed",
                                    "timeout",      "remote rank failed", "ranks disagree", "aborted",
                                    "communicator failed", "internal error", "invalid usage", "revoked"};
  const char *name = name_of(names, status);
  return name != nullptr ? name : "unknown status";
}

size_t rondo_type_size(rondo_type_t type) noexcept {
  static constexpr std::array<size_t, 12> sizes{1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  const unsigned number = number_of(type);
  return number < sizes.size() ? sizes[number] : 0;
}

const char *rondo_type_string(rondo_type_t type) noexcept {
  static constexpr std::array names{"int8",    "uint8",    "int32",   "uint32",  "int64",         "uint64",
                                    "float16", "bfloat16", "float32", "float64", "float8_e4m3", "float8_e5m2"};
  return name_of(names, type);
}

const char *rondo_op_string(rondo_op_t op) noexcept {
  static constexpr std::array names{"sum", "prod", "min", "max", "avg"};
  const unsigned number = number_of(op);
  return number >= RONDO_OP_DYNAMIC && number <= RONDO_OP_LAST ? "premul_sum" : name_of(names, op);
}

const char *rondo_collective_string(rondo_collective_t collective) noexcept {
  const unsigned number = number_of(collective);
  return number < rondo::collective_table.size() ? rondo::collective_table[number].name : nullptr;
}

const char *rondo_algorithm_string(rondo_algorithm_t algorithm) noexcept {
  static constexpr std::array names{"auto", "ring", "tree", "halving_doubling", "one_shot", "two_shot",
                                    "hierarchical", "hierarchical_tree"};
  return name_of(names, algorithm);
}

const char *rondo_protocol_string(rondo_protocol_t protocol) noexcept {
  static constexpr std::array names{"auto", "simple", "ll"};
  return name_of(names, protocol);
}

const char *rondo_kernel_string(rondo_kernel_t kernel) noexcept {
  static constexpr std::array names{"auto", "interpreter", "load_store"};
  return name_of(names, kernel);
}

const char *rondo_device_executor_string(rondo_device_executor_t executor) noexcept {
  static constexpr std::array names{"auto", "kernel", "copy"};
  return name_of(names, executor);
}

}  // extern "C"
