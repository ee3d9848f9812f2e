/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header declares windows: memory of every rank to which the other ranks write directly. Programs include
 * rondo/rondo.h, which includes this header. The rules that hold for every function stand in rondo/rondo.h. */
#ifndef RONDO_WINDOW_H
#define RONDO_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/communicator.h"
#include "rondo/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @addtogroup rondo_windows
 * A window is one buffer on each rank of a communicator. All ranks register it together. Then a rank writes into the
 * buffer of a peer, and the peer does not call anything for that. A signal informs the peer that the data is there.
 *
 * Between every two ranks there are RONDO_SIGNAL_COUNT signals in each direction. A signal only counts: each
 * rondo_put_signal() and each rondo_signal() adds 1. rondo_wait_signal() waits until `count` more signals have arrived
 * than all earlier waits have waited for. When a wait is complete, this rank sees the data of all puts of that peer
 * that were called before the awaited signals.
 *
 * On the host, the operations of a rank run in the order of its calls, together with its collectives and messages. On a
 * device, the stream orders them. A put or a signal also follows earlier ones to the same peer on any stream. The
 * operations cannot be captured. A put or a signal does not wait for a call of the peer, unless 512 operations have not
 * ended. In a group, puts and signals run first, then collectives and messages, then waits. The rules of rondo_send()
 * hold for streams, buffers and threads.
 *
 * Buffers are memory of the communicator's device, or of the host. Ranks on several hosts need host memory, and at most
 * 64 ranks. Between hosts, a thread of the peer's process writes the data; the put is complete once the data is
 * written. A window ends with rondo_window_deregister(), or with the communicator. On a device, let nothing be in
 * flight during the communicator's first call about windows or signals.
 *
 * An operation on a window returns one of these statuses:
 * - RONDO_OK: The operation is complete, enqueued on the stream, or kept in the group.
 * - RONDO_ERROR_INVALID_ARGUMENT, RONDO_ERROR_INVALID_HANDLE: An argument was refused, such as a range outside of the
 *   peer's buffer, or a window that has ended or is of another communicator. Nothing was enqueued. It is also
 *   RONDO_ERROR_INVALID_HANDLE if the communicator is finalized.
 * - RONDO_ERROR_INVALID_USAGE: The communicator is suspended.
 * - RONDO_ERROR_UNSUPPORTED: The communicator has no windows, or the stream is captured. The error says which.
 * - RONDO_ERROR_TIMEOUT: The awaited signals did not arrive within the timeout. The error names the peer, the number of
 *   awaited signals, and how many arrived. Or the peer's process, on another host, did not take a put in time. The
 *   communicator has failed.
 * - RONDO_ERROR_REMOTE: The peer ended before it had sent all awaited signals, or before a put to it was complete.
 * - RONDO_ERROR_SYSTEM: The system refused a put, because the memory of the peer's window or of `send` is gone while
 *   both ranks live. Or the peer, on another host, has ended the window before. The error says which. The communicator
 *   has failed.
 * - RONDO_ERROR_ABORTED, RONDO_ERROR_COMM_FAILED: The meaning is the same as for collectives.
 * @{ */
/** The handle of a window on one rank. It is opaque. */
typedef struct rondo_window *rondo_window_t;
/** The numbers of signals and flags. */
enum {
  RONDO_SIGNAL_COUNT = 16,    /**< number of signals between two ranks in one direction */
  RONDO_WINDOW_SYMMETRIC = 1  /**< flag of rondo_window_register(): all ranks must give the same size */
};

/** Allocates memory of a CUDA device that other processes of this host can open while the device keeps running. Windows
 * of ranks in different processes need such memory. The content is unspecified. The memory exists until
 * rondo_device_mem_free(), or until the process ends. Any thread.
 * @param pointer  receives the address.
 * @param bytes    size in bytes, at least 1. The memory takes whole units of the driver, usually 2 MiB.
 * @param device   CUDA device ordinal.
 * @return RONDO_ERROR_UNSUPPORTED: CUDA is not available. RONDO_ERROR_OUT_OF_RESOURCES: The device has too little
 *         memory. If the device cannot share memory in this way, the memory comes from cudaMalloc(). */
RONDO_API rondo_status_t rondo_device_mem_alloc(void **pointer, size_t bytes, int device) RONDO_NOEXCEPT;

/** Frees memory of rondo_device_mem_alloc(). No operation of any rank may still use it. NULL is allowed. Any thread.
 * @return RONDO_ERROR_INVALID_ARGUMENT: `pointer` is not the start of such memory, and nothing was freed. */
RONDO_API rondo_status_t rondo_device_mem_free(void *pointer) RONDO_NOEXCEPT;

/** Registers a buffer of each rank as a window. All ranks call it, in the same order among their registrations. The
 * call returns when every rank can reach every buffer. It is refused in a group. One call at a time.
 *
 * On the host, memory of rondo_mem_alloc(), and buffers registered with RONDO_REGISTER_MOVE_PAGES, are mapped by all
 * ranks. Any other memory works where the system allows cross-memory attach, but rondo_window_pointer() then gives no
 * address. Between threads of one process, any memory works and has an address. Between processes, memory of a device
 * must come from rondo_device_mem_alloc(). Between hosts, any host memory works.
 *
 * Do not free the buffer while a peer may write to it.
 * @param pointer  start of this rank's buffer. May be NULL if `bytes` is 0.
 * @param bytes    size of this rank's buffer in bytes. It may be 0, and may differ between ranks.
 * @param flags    0 or RONDO_WINDOW_SYMMETRIC, the same on all ranks.
 * @param window   receives the handle, and is unchanged on failure.
 * @return If the call fails on a rank, it fails on all. But if a rank ends, or the timeout ends the call while buffers
 *   are opened, some ranks may have the window. The communicator remains usable. A call that is refused on one rank
 *   fails on the others at once. It still counts in that rank's order of registrations.
 * - RONDO_ERROR_INVALID_ARGUMENT: An argument was refused here or on another rank.
 * - RONDO_ERROR_MISMATCH: Flags or symmetric sizes differ, and the error names two ranks. Or a rank gave up this
 *   registration, and has called this function several times since.
 * - RONDO_ERROR_UNSUPPORTED: The ranks are on several hosts, and use devices or are more than 64. Or a rank cannot
 *   reach the buffer of another rank of its host.
 * - RONDO_ERROR_TIMEOUT: A rank has not called within timeout_ms. The error names it.
 * - RONDO_ERROR_REMOTE: A rank ended.
 * - RONDO_ERROR_INVALID_USAGE: This thread has begun a group, another thread registers a window, too, or the
 *   communicator is suspended.
 * - RONDO_ERROR_OUT_OF_RESOURCES: This rank or another one has no memory or no handle left. */
RONDO_API rondo_status_t rondo_window_register(rondo_comm_t comm, void *pointer, size_t bytes, unsigned flags,
                                               rondo_window_t *window) RONDO_NOEXCEPT;

/** Ends a window on this rank; the buffer and its contents remain. The call is local. No operation of this rank may
 * still use the window. Before you free the buffer, make sure that no peer writes to it any more, for instance by
 * rondo_barrier(). One call at a time.
 * @return RONDO_ERROR_INVALID_ARGUMENT: The window is of another communicator. */
RONDO_API rondo_status_t rondo_window_deregister(rondo_comm_t comm, rondo_window_t window) RONDO_NOEXCEPT;

/** Writes the address at which this process reaches the buffer of a rank. The address is valid as long as the window.
 * Accesses through it need the program's own synchronisation, such as signals. Any thread.
 * @param window   a window.
 * @param peer     a rank, which may be this rank.
 * @param pointer  receives the address. NULL: the buffer has 0 bytes, or only rondo_put_signal() reaches it, as on
 *                 another host. */
RONDO_API rondo_status_t rondo_window_pointer(rondo_window_t window, int peer, void **pointer) RONDO_NOEXCEPT;

/** Writes into the buffer of a peer, then adds 1 to one of its signals. The peer need not call anything.
 * @param send    `bytes` bytes of this rank; may be NULL if `bytes` is 0. Keep them unchanged until the operation is
 *                complete.
 * @param bytes   bytes to write. With 0, the call works as rondo_signal().
 * @param peer    rank whose buffer is written. It may be this rank.
 * @param window  a window of `comm`.
 * @param offset  bytes from the start of the peer's buffer. The range must end within that buffer.
 * @param signal  number of the signal, below RONDO_SIGNAL_COUNT.
 * @return The statuses that are listed above for all operations on windows. */
RONDO_API rondo_status_t rondo_put_signal(const void *send, size_t bytes, int peer, rondo_window_t window,
                                          size_t offset, uint32_t signal, rondo_comm_t comm,
                                          rondo_stream_t stream) RONDO_NOEXCEPT;

/** Adds 1 to a signal of a peer, after all earlier puts of this rank to that peer. It needs no window.
 * @param peer    rank that is signalled. It may be this rank.
 * @param signal  number of the signal, below RONDO_SIGNAL_COUNT.
 * @return The statuses that are listed above for all operations on windows. */
RONDO_API rondo_status_t rondo_signal(int peer, uint32_t signal, rondo_comm_t comm,
                                      rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits until `count` more signals of a peer have arrived than earlier waits have used.
 * @param peer    rank that signals. It may be this rank.
 * @param signal  number of the signal, below RONDO_SIGNAL_COUNT.
 * @param count   number of signals. 0 waits for nothing. The counts of all waits for one signal must sum to less than
 *                2^62.
 * @return The statuses that are listed above for all operations on windows. */
RONDO_API rondo_status_t rondo_wait_signal(int peer, uint32_t signal, uint64_t count, rondo_comm_t comm,
                                           rondo_stream_t stream) RONDO_NOEXCEPT;
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* RONDO_WINDOW_H */
