// SPDX-License-Identifier: Apache-2.0
// This file implements the messages and groups of rondo.h. It only checks arguments, and passes the calls on.
#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"

using namespace rondo;

namespace {

/// Checks one end of a message, and runs or keeps the message. `name` is the buffer's name in errors.
rondo_status_t call_message(const char *name, bool sends, const void *buffer, size_t count, rondo_type_t type, int peer,
                            rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      std::shared_ptr<Communicator> found;
      const group::Place place = group::find(handle);
      if (place.comm == nullptr) {
        RONDO_TRY_ASSIGN(found, communicator_of(handle));
      }
      Communicator *const comm = place.comm != nullptr ? place.comm : found.get();
      RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(count, type));
      RONDO_TRY(check_peer(peer, comm->rank_count()));
      if (!place.has_messages) RONDO_TRY(comm->open_messages());
      RONDO_TRY(check_buffer(name, buffer, bytes));
      RONDO_TRY(comm->check_buffer(name, buffer, bytes));
      const auto rank = static_cast<uint32_t>(peer);
      // A send only reads the buffer, so the cast is safe.
      auto *const data = const_cast<std::byte *>(static_cast<const std::byte *>(buffer));
      const Message message{rank, sends, type, data, bytes};
      if (place.group != nullptr) {
        group::keep(place, handle, std::move(found), message, stream);
        return {};
      }
      if (rank == comm->rank())
        return Error{RONDO_ERROR_INVALID_USAGE, "rank " + std::to_string(rank) +
                                                    (sends ? " sends to itself" : " receives from itself") +
                                                    " outside a group and would wait for itself; put rondo_send and "
                                                    "rondo_recv between rondo_group_begin and rondo_group_end"};
      std::shared_ptr<HostStream> held;
      if (stream == nullptr || !decode_handle(stream)) return comm->submit({}, {&message, 1}, {nullptr, stream});
      RONDO_TRY_ASSIGN(held, stream_of(stream));
      return comm->submit({}, {&message, 1}, {held.get(), nullptr});
    });
  });
}

}  // namespace

extern "C" {

rondo_status_t rondo_send(const void *send, size_t count, rondo_type_t type, int peer, rondo_comm_t comm,
                          rondo_stream_t stream) noexcept {
  return call_message("send", true, send, count, type, peer, comm, stream);
}

rondo_status_t rondo_recv(void *recv, size_t count, rondo_type_t type, int peer, rondo_comm_t comm,
                          rondo_stream_t stream) noexcept {
  return call_message("recv", false, recv, count, type, peer, comm, stream);
}

rondo_status_t rondo_probe(int peer, rondo_comm_t handle, uint64_t *count) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY(check_peer(peer, comm->rank_count()));
    if (count == nullptr) return invalid_argument("count is NULL; it receives the number of messages");
    RONDO_TRY_ASSIGN(*count, comm->probe(static_cast<uint32_t>(peer)));
    return {};
  });
}

rondo_status_t rondo_group_begin(void) noexcept {
  return at_boundary([]() -> Result<void> {
    group::begin();
    return {};
  });
}

rondo_status_t rondo_group_end(void) noexcept {
  return at_boundary([] { return group::end(); });
}

rondo_status_t rondo_group_cancel(uint64_t *estimated_ns) noexcept {
  return at_boundary([&]() -> Result<void> {
    if (estimated_ns != nullptr)
      return Error{RONDO_ERROR_UNSUPPORTED,
                   "rondo_group_cancel estimates no time in this version; pass NULL as estimated_ns"};
    return group::cancel();
  });
}

}  // extern "C"
