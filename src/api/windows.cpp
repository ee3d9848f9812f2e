// SPDX-License-Identifier: Apache-2.0
// This file implements the windows and signals of rondo.h. It only checks arguments, and passes the calls on.
#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"

using namespace rondo;

static_assert(RONDO_SIGNAL_COUNT == signal_count);

namespace {

Result<std::shared_ptr<PeerWindow>> window_of(rondo_window_t handle, const Communicator &comm) {
  auto window = process().windows.find(handle);
  if (window == nullptr) return invalid_handle(HandleKind::window, handle);
  if (!window->belongs_to(comm))
    return invalid_argument("the window belongs to another communicator; pass the communicator that registered it");
  return window;
}

/// A handle that is reserved for a window, and freed unless the window is made.
class ReservedHandle {
 public:
  ReservedHandle() = default;
  ReservedHandle(const ReservedHandle &) = delete;
  ReservedHandle &operator=(const ReservedHandle &) = delete;
  ~ReservedHandle() {
    if (handle_ != nullptr) process().windows.release(handle_);
  }
  Result<void> reserve() {
    handle_ = process().windows.reserve();
    return handle_ != nullptr ? Result<void>() : no_more_handles(HandleKind::window);
  }
  rondo_window_t fill(const std::shared_ptr<PeerWindow> &window) {
    window->handle = std::exchange(handle_, nullptr);
    process().windows.fill(window->handle, window);
    return static_cast<rondo_window_t>(window->handle);
  }

 private:
  void *handle_ = nullptr;
};

/// Checks a call of rondo_window_register() on this rank.
Result<void> check_request(Communicator &comm, const WindowRequest &request, unsigned flags, const void *window) {
  if (group::is_open())
    return Error{RONDO_ERROR_INVALID_USAGE,
                 "rondo_window_register waits for all ranks, so it cannot be in a group; call it before "
                 "rondo_group_begin"};
  if (window == nullptr) return invalid_argument("window is NULL; it receives the handle");
  if ((flags & ~unsigned{RONDO_WINDOW_SYMMETRIC}) != 0)
    return invalid_argument("unknown flags " + std::to_string(flags) + "; known is RONDO_WINDOW_SYMMETRIC (1)");
  RONDO_TRY(check_buffer("pointer", request.pointer, request.bytes));
  RONDO_TRY(comm.open_one_sided());
  return comm.check_buffer("pointer", request.pointer, request.bytes);
}

/// Checks an operation's peer and signal, and runs or keeps the operation. `fill` sets the operation's other fields.
template <class Fill>
rondo_status_t call_one_sided(OneSided::Kind kind, int peer, uint32_t signal, rondo_comm_t handle,
                              rondo_stream_t stream, const Fill &fill) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
      RONDO_TRY(check_peer(peer, comm->rank_count()));
      if (signal >= signal_count)
        return invalid_argument("signal is " + std::to_string(signal) + "; it must be less than RONDO_SIGNAL_COUNT (" +
                                std::to_string(signal_count) + ")");
      RONDO_TRY(comm->open_one_sided({nullptr, decode_handle(stream) ? nullptr : stream}));
      OneSided operation;
      operation.kind = kind;
      operation.peer = static_cast<uint32_t>(peer);
      operation.signal = signal;
      RONDO_TRY(fill(*comm, operation));
      const group::Place place = group::find(handle);
      if (place.group != nullptr) {
        group::keep(place, handle, std::move(comm), operation, stream);
        return {};
      }
      RONDO_TRY_ASSIGN(const auto held, decode_handle(stream) ? stream_of(stream) : std::shared_ptr<HostStream>());
      return comm->submit({&operation, 1}, {held.get(), held == nullptr ? stream : nullptr});
    });
  });
}

Result<void> set_target(const Communicator &comm, rondo_window_t handle, const void *send, size_t bytes, size_t offset,
                        OneSided &operation) {
  RONDO_TRY_ASSIGN(const auto window, window_of(handle, comm));
  const PeerWindow::Buffer &buffer = window->buffers()[operation.peer];
  if (offset > buffer.bytes || bytes > buffer.bytes - offset)
    return invalid_argument(std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                            " exceed the window of rank " + std::to_string(operation.peer) + ", which has " +
                            std::to_string(buffer.bytes) + " bytes");
  RONDO_TRY(check_buffer("send", send, bytes));
  RONDO_TRY(comm.check_buffer("send", send, bytes));
  operation.from = static_cast<const std::byte *>(send);
  operation.bytes = bytes;
  operation.offset = offset;
  operation.to = buffer.memory;
  operation.window = window->number();
  return {};
}

}  // namespace

extern "C" {

rondo_status_t rondo_window_register(rondo_comm_t handle, void *pointer, size_t bytes, unsigned flags,
                                     rondo_window_t *window) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY(comm->check_windows());
    const WindowRequest request{pointer, bytes, (flags & RONDO_WINDOW_SYMMETRIC) != 0};
    ReservedHandle reserved;
    const auto prepare = [&]() -> Result<void> {
      RONDO_TRY(check_request(*comm, request, flags, window));
      return reserved.reserve();
    };
    RONDO_TRY_ASSIGN(const auto made, register_window(*comm, request, prepare));
    *window = reserved.fill(made);
    return {};
  });
}

rondo_status_t rondo_window_deregister(rondo_comm_t handle, rondo_window_t window) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    RONDO_TRY_ASSIGN(const auto found, window_of(window, *comm));
    comm->wait_for_writers();
    comm->withdraw_window(found->number());
    comm->windows().remove(found.get());
    static_cast<void>(process().windows.remove(window));
    return {};
  });
}

rondo_status_t rondo_window_pointer(rondo_window_t window, int peer, void **pointer) noexcept {
  return at_boundary([&]() -> Result<void> {
    const auto found = process().windows.find(window);
    if (found == nullptr) return invalid_handle(HandleKind::window, window);
    if (pointer == nullptr) return invalid_argument("pointer is NULL; it receives the address");
    RONDO_TRY(check_peer(peer, static_cast<uint32_t>(found->buffers().size())));
    const auto &memory = found->buffers()[static_cast<size_t>(peer)].memory;
    *pointer = memory != nullptr ? memory->address() : nullptr;
    return {};
  });
}

rondo_status_t rondo_put_signal(const void *send, size_t bytes, int peer, rondo_window_t window, size_t offset,
                                uint32_t signal, rondo_comm_t comm, rondo_stream_t stream) noexcept {
  return call_one_sided(OneSided::Kind::put, peer, signal, comm, stream, [&](const Communicator &of, OneSided &it) {
    return set_target(of, window, send, bytes, offset, it);
  });
}

rondo_status_t rondo_signal(int peer, uint32_t signal, rondo_comm_t comm, rondo_stream_t stream) noexcept {
  return call_one_sided(OneSided::Kind::signal, peer, signal, comm, stream,
                        [](const Communicator &, OneSided &) { return Result<void>(); });
}

rondo_status_t rondo_wait_signal(int peer, uint32_t signal, uint64_t count, rondo_comm_t comm,
                                 rondo_stream_t stream) noexcept {
  return call_one_sided(OneSided::Kind::wait, peer, signal, comm, stream, [&](const Communicator &, OneSided &it) {
    it.count = count;
    return Result<void>();
  });
}

}  // extern "C"
