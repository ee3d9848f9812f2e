// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_split(), rondo_comm_shrink(), rondo_comm_grow() and the related calls. It validates
// arguments and translates results.
#include "src/core/derive.h"

#include <span>
#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"
#include "src/core/init.h"

using namespace rondo;

namespace {

Result<rondo_comm_t> shrink(rondo_comm_t handle, std::span<const int> excluded, unsigned flags,
                            const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
  if ((flags & ~unsigned{RONDO_SHRINK_ABORT}) != 0)
    return invalid_argument("unknown flags " + std::to_string(flags) + "; known is RONDO_SHRINK_ABORT (1)");
  RONDO_TRY(group::check_outside("rondo_comm_shrink"));
  return make(begin_shrink(std::move(comm), excluded, (flags & RONDO_SHRINK_ABORT) != 0, config));
}

/// Begins a grow on a rank of the old communicator.
Result<Initialisation> begin_old(rondo_comm_t handle, const rondo_unique_id_t *id, int rank, int size,
                                 const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
  if (rank != -1)
    return invalid_argument("rank is " + std::to_string(rank) +
                            "; the ranks of comm keep their numbers, so they give -1. New ranks give NULL for comm");
  return begin_grow(std::move(comm), id, size, config);
}

/// Begins a grow on a new rank, which joins like a rank of rondo_comm_init().
Result<Initialisation> begin_new(const rondo_unique_id_t *id, int rank, int size, const rondo_config_t *config) {
  if (id == nullptr) return invalid_argument("id is NULL; a new rank needs the id of rondo_comm_grow_id()");
  RONDO_TRY(check_rank(rank, size));
  return init_unique_id(*id, rank, size, config);
}

}  // namespace

extern "C" {

rondo_status_t rondo_comm_split(rondo_comm_t handle, int color, int key, const rondo_config_t *config,
                                rondo_comm_t *part) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
      if (part == nullptr) return invalid_argument("part is NULL");
      if (color < RONDO_NO_COLOR)
        return invalid_argument("color is " + std::to_string(color) +
                                "; it must be 0 or more, or RONDO_NO_COLOR (-1) for no communicator");
      RONDO_TRY(group::check_outside("rondo_comm_split"));
      RONDO_TRY_ASSIGN(*part, make(begin_split(std::move(comm), color, key, config)));
      return {};
    });
  });
}

rondo_status_t rondo_comm_shrink(rondo_comm_t handle, const int *excluded, int excluded_count, unsigned flags,
                                 const rondo_config_t *config, rondo_comm_t *rest) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      if (rest == nullptr) return invalid_argument("rest is NULL");
      if (excluded_count < 0) return invalid_argument("excluded_count is " + std::to_string(excluded_count));
      if (excluded == nullptr && excluded_count != 0) return invalid_argument("excluded is NULL");
      RONDO_TRY_ASSIGN(*rest, shrink(handle, {excluded, static_cast<size_t>(excluded_count)}, flags, config));
      return {};
    });
  });
}

rondo_status_t rondo_comm_revoke(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, made_communicator_of(handle));
    comm->revoke();
    return {};
  });
}

rondo_status_t rondo_comm_flush(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    return comm->flush();
  });
}

rondo_status_t rondo_comm_grow_id(rondo_comm_t handle, rondo_unique_id_t *id) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    if (id == nullptr) return invalid_argument("id is NULL");
    RONDO_TRY_ASSIGN(*id, make_grow_id(*comm));
    return {};
  });
}

rondo_status_t rondo_comm_grow(rondo_comm_t handle, const rondo_unique_id_t *id, int rank, int size,
                               const rondo_config_t *config, rondo_comm_t *grown) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      if (grown == nullptr) return invalid_argument("grown is NULL");
      RONDO_TRY(group::check_outside("rondo_comm_grow"));
      RONDO_TRY_ASSIGN(*grown, make(handle != nullptr ? begin_old(handle, id, rank, size, config)
                                                      : begin_new(id, rank, size, config)));
      return {};
    });
  });
}

}  // extern "C"
