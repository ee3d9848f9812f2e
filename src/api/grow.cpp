// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_grow_id() and rondo_comm_grow(): it validates arguments and translates results.
#include "src/core/grow.h"

#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"
#include "src/core/init.h"

using namespace rondo;

namespace {

/// Begins the grow of an old rank.
Result<Initialisation> begin_old(rondo_comm_t handle, const rondo_unique_id_t *id, int rank, int size,
                                 const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
  if (rank != -1)
    return invalid_argument("rank is " + std::to_string(rank) +
                            "; the ranks of comm keep their numbers, so they give -1. New ranks give NULL for comm");
  return begin_grow(std::move(comm), id, size, config);
}

/// Begins the grow of a new rank, which enters like a rank of every unique id.
Result<Initialisation> begin_new(const rondo_unique_id_t *id, int rank, int size, const rondo_config_t *config) {
  if (id == nullptr) return invalid_argument("id is NULL; a new rank needs the id of rondo_comm_grow_id()");
  RONDO_TRY(check_rank(rank, size));
  return init_unique_id(*id, rank, size, config);
}

}  // namespace

extern "C" {

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
      if (group::is_open())
        return Error{RONDO_ERROR_INVALID_USAGE, "rondo_comm_grow cannot be part of a group; call it after "
                                                "rondo_group_end"};
      RONDO_TRY_ASSIGN(*grown, make(handle != nullptr ? begin_old(handle, id, rank, size, config)
                                                      : begin_new(id, rank, size, config)));
      return {};
    });
  });
}

}  // extern "C"
