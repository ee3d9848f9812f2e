// SPDX-License-Identifier: Apache-2.0
#include "src/core/handle_table.h"

#include <string>

namespace rondo {
namespace {

const char *kind_name(HandleKind kind) {
  switch (kind) {
    case HandleKind::communicator: return "communicator";
    case HandleKind::stream: return "stream";
    case HandleKind::event: return "event";
    case HandleKind::registration: return "registration";
    case HandleKind::window: return "window";
  }
  return nullptr;
}

}  // namespace

std::optional<HandleFields> decode_handle(const void *handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  static_assert(sizeof bits == 8, "handles need 64-bit pointers");
  if (bits >> 60 != handle_marker) return std::nullopt;
  const auto kind = static_cast<HandleKind>((bits >> 56) & 0xF);
  if (kind_name(kind) == nullptr) return std::nullopt;
  return HandleFields{kind, (bits >> 16) & handle_generation_max, static_cast<uint32_t>(bits & 0xFFFF)};
}

void *encode_handle(const HandleFields &fields) {
  const uint64_t bits = handle_marker << 60 | static_cast<uint64_t>(fields.kind) << 56 |
                        (fields.generation & handle_generation_max) << 16 | (fields.slot & 0xFFFF);
  return reinterpret_cast<void *>(static_cast<uintptr_t>(bits));  // NOLINT: never dereferenced
}

Error invalid_handle(HandleKind expected, const void *handle) {
  const std::string name = kind_name(expected);
  if (handle == nullptr) return {RONDO_ERROR_INVALID_HANDLE, "the " + name + " is NULL"};
  const auto fields = decode_handle(handle);
  const std::string maker = expected == HandleKind::communicator ? "comm_init"
                            : expected == HandleKind::window     ? "window_register"
                                                                 : name + "_create";
  if (!fields)
    return {RONDO_ERROR_INVALID_HANDLE,
            "the " + name + " is not a handle that Rondo has made; pass one of rondo_" + maker + "()"};
  if (fields->kind != expected)
    return {RONDO_ERROR_INVALID_HANDLE,
            std::string("the ") + kind_name(fields->kind) + "'s handle was passed where a " + name + "'s is needed"};
  return {RONDO_ERROR_INVALID_HANDLE, "the " + name + " was destroyed before this call, or is not of this process"};
}

Error no_more_handles(HandleKind kind) {
  return {RONDO_ERROR_OUT_OF_RESOURCES, std::string("no handle is left for another ") + kind_name(kind) + ": " +
                                            std::to_string(handle_slot_count) +
                                            " are in use, or memory ran out; destroy some"};
}

}  // namespace rondo
