/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header is the interface of Rondo, a library for collective communication. It includes rondo/communicator.h,
 * rondo/queries.h, rondo/types.h and rondo/window.h. It compiles as C11 and as C++11, and needs only the standard
 * headers.
 *
 * @mainpage Rondo: the C interface
 * A communicator is a group of `size` ranks. A rank is a process, or a thread of a process. Every rank calls the same
 * collectives on a communicator in the same order. Buffers lie in host memory, or in memory that the communicator's
 * device reaches: its own, managed memory, or host memory that CUDA has pinned. Counts are in elements and sizes are in
 * bytes; the name of an argument says which.
 *
 * Errors: Every call that can fail returns a rondo_status_t, which says what the caller may still do. The function
 * rondo_comm_last_error() writes the rank, the peer, the operation's number, and advice.
 *
 * Threads: A function marked "any thread" may run in several threads at the same time. With "one call at a time", the
 * caller must not make two such calls on the same object at once. Calls on different objects may always overlap. */
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/communicator.h"
#include "rondo/queries.h"
#include "rondo/types.h"
#include "rondo/window.h"

/** @addtogroup rondo_library
 * @{ */
#define RONDO_VERSION_MAJOR 0 /**< Major version of this header. rondo_version() returns the library's. */
#define RONDO_VERSION_MINOR 1 /**< Minor version of this header. It grows with every addition. */
#define RONDO_VERSION_PATCH 0 /**< Patch version of this header. It grows with every correction. */
/** @} */

#ifdef __cplusplus
extern "C" {
#endif

/** @addtogroup rondo_collectives
 * These rules hold for every collective. `comm` is the communicator, and `stream` orders the operation; rondo_stream_t
 * says what NULL means. The elements have the type `type`, and `op` is the reduction.
 *
 * The caller owns the buffers, whether the call succeeds or fails. Keep them alive, and do not write to the send
 * buffer, until the operation is complete. On host memory without a stream, the operation is complete when the call
 * returns. In all other cases, it is complete when the stream has passed it. A buffer of 0 bytes may be NULL.
 *
 * Every rank calls the same collectives in the same order, with equal count, type, op and root. One call at a time per
 * communicator. The operations of a communicator are numbered from 1, and errors name the number.
 *
 * A collective returns one of these statuses:
 * - RONDO_OK: The operation is complete, or enqueued on the stream. If the operation fails later,
 *   rondo_comm_get_async_error() reports the failure.
 * - RONDO_ERROR_INVALID_ARGUMENT: An argument was refused, and nothing was enqueued. The causes are a null pointer, an
 *   overlap other than in place, an unknown type or op, a bad root, or count * size over SIZE_MAX. The communicator is
 *   usable. Ranks whose arguments were accepted wait for this rank until their deadline.
 * - RONDO_ERROR_TIMEOUT, RONDO_ERROR_REMOTE, RONDO_ERROR_MISMATCH, RONDO_ERROR_ABORTED: The communicator has failed.
 *   Each rank gets this status once. The content of recv is unspecified. The send buffer is unchanged unless it is
 *   recv.
 * - RONDO_ERROR_COMM_FAILED: The communicator failed earlier, an earlier call has reported the failure to this rank,
 *   and nothing was enqueued.
 *
 * With a stream, the call returns once the operation is enqueued. If the queue is full (1,024 operations), the call
 * waits until an operation has left the queue.
 *
 * The environment variable RONDO_DEVICE_LAUNCH must have one value on all ranks. It matters only to ranks that are
 * threads of one process on one device. With the value "shared", such ranks share kernels: a call waits until all ranks
 * that share its kernel have called. This has three consequences:
 * - One thread must not drive several of these ranks.
 * - If these ranks use several communicators, they all make their calls in the same order.
 * - If one of the ranks captures a call in a graph, all of them do.
 *
 * With the default value, ranks share kernels only if CUDA has fewer than 32 hardware queues. In that case, a call
 * waits at most 2 s for the other ranks (docs/gpu-executors.md).
 * @{ */

/** Reduces a vector over all ranks, and gives the result to every rank. For i < count, recv[i] = the reduction by `op`
 * of send[i] over all ranks.
 * @param send    count elements; equal to recv (in place) or disjoint.
 * @param recv    count elements.
 * @param count   elements of the vector.
 * @return The statuses that are listed above for all collectives. */
RONDO_API rondo_status_t rondo_all_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op,
                                          rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Reduces a vector over all ranks, and gives each rank one block of the result. For i < recv_count, recv[i] = the
 * reduction by `op` of send[rank * recv_count + i] over all ranks.
 * @param send        recv_count * size elements.
 * @param recv        recv_count elements; in place if it is send + rank * recv_count.
 * @param recv_count  elements of one block. */
RONDO_API rondo_status_t rondo_reduce_scatter(const void *send, void *recv, size_t recv_count, rondo_type_t type,
                                              rondo_op_t op, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Works as rondo_reduce_scatter(), but with blocks of different sizes. Rank r receives counts[r] elements, which begin
 * at counts[0] + ... + counts[r - 1] in the result.
 * @param send    all blocks, one after another.
 * @param recv    counts[rank] elements; in place if it is this rank's block of send.
 * @param counts  `size` entries, equal on all ranks; read during the call only. */
RONDO_API rondo_status_t rondo_reduce_scatter_v(const void *send, void *recv, const size_t *counts, rondo_type_t type,
                                                rondo_op_t op, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Collects the blocks of all ranks on every rank. For every r and i < send_count, recv[r * send_count + i] = send[i]
 * of rank r.
 * @param send        send_count elements; in place if it is recv + rank * send_count.
 * @param recv        send_count * size elements.
 * @param send_count  elements of one block. */
RONDO_API rondo_status_t rondo_all_gather(const void *send, void *recv, size_t send_count, rondo_type_t type,
                                          rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Works as rondo_all_gather(), but with blocks of different sizes. Rank r sends counts[r] elements, and every rank
 * receives them at recv + displacements[r].
 * @param send           counts[rank] elements; in place if it is recv + displacements[rank].
 * @param recv           room for all blocks at their displacements.
 * @param counts         `size` entries, equal on all ranks; read during the call only.
 * @param displacements  `size` entries in elements, equal on all ranks; read during the call only. The ranges must be
 *                       disjoint. With NULL, the blocks follow each other. The entry of an empty block is ignored. */
RONDO_API rondo_status_t rondo_all_gather_v(const void *send, void *recv, const size_t *counts,
                                            const size_t *displacements, rondo_type_t type, rondo_comm_t comm,
                                            rondo_stream_t stream) RONDO_NOEXCEPT;

/** Copies the vector of the root to every rank. For i < count, recv[i] = send[i] of the root.
 * @param send    on the root: count elements, equal to recv (in place) or disjoint. Ignored on other ranks.
 * @param recv    count elements.
 * @param count   elements of the vector.
 * @param root    rank that sends. */
RONDO_API rondo_status_t rondo_broadcast(const void *send, void *recv, size_t count, rondo_type_t type, int root,
                                         rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Reduces a vector over all ranks, and gives the result to the root only. On the root, for i < count, recv[i] = the
 * reduction by `op` of send[i] over all ranks.
 * @param send    count elements.
 * @param recv    on the root: count elements, equal to send (in place) or disjoint. Ignored and untouched on other
 *                ranks.
 * @param count   elements of the vector.
 * @param root    rank that receives. */
RONDO_API rondo_status_t rondo_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op,
                                      int root, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits for all ranks. The operation is complete on a rank only after every rank has reached it. */
RONDO_API rondo_status_t rondo_barrier(rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Exchanges a block between every two ranks: recv[r * count + i] = send[rank * count + i] of rank r, for i < count and
 * every r. On a device, this function and the five below take at most 64 ranks. All ranks that exchange a block must
 * be connected, as all ranks of one host are, and all of up to 64 ranks on several hosts.
 * @param send   count * size elements; equal to recv (in place) or disjoint.
 * @param recv   count * size elements.
 * @param count  elements of one block.
 * @return The statuses of all collectives, or RONDO_ERROR_UNSUPPORTED: the device cannot run the exchange, or two
 *         ranks of different hosts are not connected. Nothing was enqueued then, and the communicator is usable. */
RONDO_API rondo_status_t rondo_all_to_all(const void *send, void *recv, size_t count, rondo_type_t type,
                                          rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Works as rondo_all_to_all(), but with blocks of different sizes. This rank sends send_counts[r] elements to rank r,
 * from send + send_displacements[r]. It receives recv_counts[r] elements from rank r, at recv + recv_displacements[r].
 * If a rank sends another count than its peer expects, all ranks get RONDO_ERROR_MISMATCH, with both counts.
 * @param send                all blocks that this rank sends, at their displacements; disjoint from recv.
 * @param send_counts         `size` entries; read during the call only.
 * @param send_displacements  `size` entries in elements; read during the call only. With NULL, the blocks follow each
 *                            other. The entry of an empty block is ignored.
 * @param recv                room for all blocks that this rank receives, at their displacements.
 * @param recv_counts         `size` entries; read during the call only.
 * @param recv_displacements  entries as in send_displacements. The ranges must be disjoint. */
RONDO_API rondo_status_t rondo_all_to_all_v(const void *send, const size_t *send_counts,
                                            const size_t *send_displacements, void *recv, const size_t *recv_counts,
                                            const size_t *recv_displacements, rondo_type_t type, rondo_comm_t comm,
                                            rondo_stream_t stream) RONDO_NOEXCEPT;

/** Collects the blocks of all ranks on the root. On the root, for every r and i < send_count, recv[r * send_count + i]
 * = send[i] of rank r.
 * @param send        send_count elements; on the root, in place if it is recv + root * send_count.
 * @param recv        on the root: send_count * size elements. Ignored and untouched on other ranks.
 * @param send_count  elements of one block.
 * @param root        rank that receives.
 * @return The statuses of rondo_all_to_all(). */
RONDO_API rondo_status_t rondo_gather(const void *send, void *recv, size_t send_count, rondo_type_t type, int root,
                                      rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Works as rondo_gather(), but with blocks of different sizes. If a rank sends another count than the root expects,
 * all ranks get RONDO_ERROR_MISMATCH, with both counts.
 * @param send           send_count elements; on the root, in place if it is recv + displacements[root].
 * @param send_count     elements of this rank's block.
 * @param recv           on the root: room for all blocks at their displacements.
 * @param counts         on the root: `size` entries, the counts of all ranks. Read during the call only.
 * @param displacements  on the root: `size` entries in elements. Read during the call only. The ranges must be
 *                       disjoint. With NULL, the blocks follow each other. The entry of an empty block is ignored. */
RONDO_API rondo_status_t rondo_gather_v(const void *send, size_t send_count, void *recv, const size_t *counts,
                                        const size_t *displacements, rondo_type_t type, int root, rondo_comm_t comm,
                                        rondo_stream_t stream) RONDO_NOEXCEPT;

/** Sends one block of the root's vector to each rank. For i < recv_count, recv[i] = send[rank * recv_count + i] of the
 * root.
 * @param send        on the root: recv_count * size elements. Ignored on other ranks.
 * @param recv        recv_count elements; on the root, in place if it is send + root * recv_count.
 * @param recv_count  elements of one block.
 * @param root        rank that sends.
 * @return The statuses of rondo_all_to_all(). */
RONDO_API rondo_status_t rondo_scatter(const void *send, void *recv, size_t recv_count, rondo_type_t type, int root,
                                       rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Works as rondo_scatter(), but with blocks of different sizes. If the root sends another count than a rank expects,
 * all ranks get RONDO_ERROR_MISMATCH, with both counts.
 * @param send           on the root: all blocks at their displacements.
 * @param counts         on the root: `size` entries, the counts of all ranks. Read during the call only.
 * @param displacements  on the root: `size` entries in elements. Read during the call only. With NULL, the blocks
 *                       follow each other. The entry of an empty block is ignored.
 * @param recv           recv_count elements; on the root, in place if it is send + displacements[root].
 * @param recv_count     elements of this rank's block. */
RONDO_API rondo_status_t rondo_scatter_v(const void *send, const size_t *counts, const size_t *displacements,
                                         void *recv, size_t recv_count, rondo_type_t type, int root, rondo_comm_t comm,
                                         rondo_stream_t stream) RONDO_NOEXCEPT;

/** Makes an operation that multiplies each rank's elements by a factor of that rank, and then adds them. Use it as `op`
 * of rondo_all_reduce(), rondo_reduce_scatter(), its _v form and rondo_reduce(), only on this communicator and with
 * this type. Each rank makes its own operation, and the factors may differ. Each product is computed as RONDO_PROD
 * does: it is rounded to the type before it is added, and integers wrap. One call at a time.
 * @param op         receives the operation, a value from RONDO_OP_DYNAMIC on.
 * @param scalar     the factor, an element of `type`. With RONDO_RESIDENCE_DEVICE, the caller owns the memory, and
 *                   keeps it as long as calls and graphs use the operation.
 * @param type       type of the factor and of the elements.
 * @param residence  where `scalar` is, and when it is read.
 * @return RONDO_ERROR_INVALID_ARGUMENT: a pointer is NULL, `scalar` is not memory of the communicator's device, or the
 *         type or residence is unknown. RONDO_ERROR_OUT_OF_RESOURCES: 65,536 operations of this process exist. */
RONDO_API rondo_status_t rondo_op_create_premul_sum(rondo_op_t *op, const void *scalar, rondo_type_t type,
                                                    rondo_residence_t residence, rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends an operation of rondo_op_create_premul_sum(). Calls that are already enqueued, captured or kept in a group
 * still use it. A communicator that ends also ends its operations. One call at a time.
 * @return RONDO_ERROR_INVALID_ARGUMENT: `op` is no such operation of `comm`, or was destroyed. */
RONDO_API rondo_status_t rondo_op_destroy(rondo_op_t op, rondo_comm_t comm) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_messages
 * A message goes from one rank to another. The n-th rondo_send() of rank a to rank b meets the n-th rondo_recv() of b
 * from a. Both must have the same number of bytes; types are not compared. A message of 0 bytes is a message, too.
 *
 * The calls of a thread between rondo_group_begin() and the matching rondo_group_end() form a group. Rondo checks each
 * call at once and keeps it, and the end of the group enqueues all kept calls. On each communicator, the collectives of
 * the group run first, in the order of their calls. Then all its messages run at once, so that their order cannot make
 * ranks wait for each other. Several communicators do not wait for each other, unless their first calls are on one
 * stream. Groups nest: only the outermost end enqueues. A group keeps collectives, rondo_send(), rondo_recv() and the
 * operations of rondo/window.h. All other functions act at once, also inside of a group.
 *
 * Outside a group, messages and collectives of a rank run one after another, in the order of their calls. If two ranks
 * both send before they receive, they wait for each other as soon as a message does not fit into the buffers between
 * them. Such a circle ends with RONDO_ERROR_MISMATCH. On a device, it ends with RONDO_ERROR_TIMEOUT once a rank has
 * captured a call. To avoid it, put the messages into a group.
 *
 * The caller owns the buffers, whether a call succeeds or fails. Keep them alive, and do not write to a send buffer,
 * until the operation is complete. Without a stream, it is complete when the call or the outermost end returns. With a
 * stream, it is complete when the stream has passed it. A complete send does not mean that the peer has called
 * rondo_recv(). The buffers of one group must not overlap, except that several sends may read the same memory.
 *
 * On several hosts, and on devices, messages take at most 64 ranks. One call at a time per communicator.
 * docs/messages.md has the rules in full.
 *
 * A message returns one of these statuses, from its call or from the end of its group:
 * - RONDO_OK: The message is complete, enqueued on the stream, or kept in the group.
 * - RONDO_ERROR_INVALID_ARGUMENT, RONDO_ERROR_INVALID_HANDLE: An argument was refused, and nothing was enqueued.
 * - RONDO_ERROR_INVALID_USAGE: This rank sends to itself, and the send and the receive are not in one group.
 * - RONDO_ERROR_UNSUPPORTED: The communicator carries no messages. The error says which configuration carries them.
 * - RONDO_ERROR_MISMATCH: The two ends have different sizes, or ranks wait for each other in a circle. The
 *   communicator has failed. rondo_comm_finalize() returns this status if a message was sent and never received.
 * - RONDO_ERROR_TIMEOUT: The peer made no matching call within the timeout. The error says what the peer is doing.
 * - RONDO_ERROR_REMOTE: The peer ended. Everything that the peer had sent was received first.
 * - RONDO_ERROR_ABORTED, RONDO_ERROR_COMM_FAILED: The meaning is the same as for collectives.
 * @{ */
/** Sends `count` elements to rank `peer`.
 * @param send   count elements.
 * @param count  elements of the message.
 * @param type   type of the elements.
 * @param peer   rank that receives. It may be this rank if both ends are in one group.
 * @return The statuses that are listed above for all messages. */
RONDO_API rondo_status_t rondo_send(const void *send, size_t count, rondo_type_t type, int peer, rondo_comm_t comm,
                                    rondo_stream_t stream) RONDO_NOEXCEPT;

/** Receives `count` elements from rank `peer`.
 * @param recv   count elements.
 * @param count  elements of the message.
 * @param type   type of the elements.
 * @param peer   rank that sends. It may be this rank if both ends are in one group.
 * @return The statuses that are listed above for all messages. */
RONDO_API rondo_status_t rondo_recv(void *recv, size_t count, rondo_type_t type, int peer, rondo_comm_t comm,
                                    rondo_stream_t stream) RONDO_NOEXCEPT;

/** Begins a group in this thread. It may be nested in another group. Any thread. */
RONDO_API rondo_status_t rondo_group_begin(void) RONDO_NOEXCEPT;

/** Ends the innermost group of this thread. The outermost end enqueues the kept calls. For calls on host memory without
 * a stream, it returns when all of them are complete. If one communicator has calls on several streams in the group,
 * they wait for what each of the streams has. Later work on each of the streams waits for all of these calls.
 *
 * If a call inside the group was refused, the outermost end returns the first refusal again and enqueues nothing.
 * The end enqueues the operations of one communicator after those on another. If one communicator fails, the operations
 * on the others remain enqueued. Any thread.
 * @return The first failure of the kept calls. RONDO_ERROR_INVALID_USAGE: This thread has no group. Or this rank sends
 *         to itself or receives from itself without a counterpart in the group. Or one communicator has calls on two
 *         streams of a device that are not captured by the same graph. */
RONDO_API rondo_status_t rondo_group_end(void) RONDO_NOEXCEPT;

/** Discards the outermost group of this thread, with all groups inside of it, and enqueues none of the calls. Any
 * thread.
 * @param estimated_ns  must be NULL in this version.
 * @return RONDO_ERROR_INVALID_USAGE: This thread has no group. RONDO_ERROR_UNSUPPORTED: estimated_ns is not NULL, and
 *         the group remains open. */
RONDO_API rondo_status_t rondo_group_cancel(uint64_t *estimated_ns) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_memory
 * Collectives can read some buffers of peers in place, without a staging copy. Such a buffer comes from
 * rondo_mem_alloc(), or was registered by rondo_comm_register().
 * @{ */
/** Allocates host memory that the ranks of this host can map, so that collectives read it in place. The memory is
 * zeroed and aligned to a page. It exists until rondo_mem_free(), or until the process ends. Do not map other memory
 * over it, and do not use it in a child of fork(). Any thread.
 * @param pointer  receives the address.
 * @param bytes    size in bytes, at least 1. */
RONDO_API rondo_status_t rondo_mem_alloc(void **pointer, size_t bytes) RONDO_NOEXCEPT;

/** Frees memory of rondo_mem_alloc(). No operation may still use the memory. NULL is allowed. Any thread.
 * @return RONDO_ERROR_INVALID_ARGUMENT: `pointer` is not the start of such memory, and nothing was freed. */
RONDO_API rondo_status_t rondo_mem_free(void *pointer) RONDO_NOEXCEPT;

/** Registers a buffer of the caller, so that peers can read it in place. The call is local: each rank may register or
 * not. Memory of rondo_mem_alloc() needs no registration. One call at a time.
 *
 * Host memory: With RONDO_REGISTER_MOVE_PAGES, peers map the buffer. Without flags, they read it by cross-memory attach
 * if the system allows that. Otherwise its data is copied through a staging buffer.
 *
 * Device memory: The buffer must come from cudaMalloc(). Ranks in different processes, with NVLink or MPS, use it in
 * place once every process has opened it (docs/load-store.md). A process opens the buffer when it has no collective in
 * flight; this call waits up to 0.1 s for that. Until then, collectives run as if the buffer were not registered. A
 * collective that is called while its process opens memory waits for the opening, and fails at its timeout.
 * @param pointer  start of the buffer.
 * @param bytes    size of the buffer in bytes.
 * @param flags    0 or RONDO_REGISTER_MOVE_PAGES.
 * @param handle   receives the registration. It ends with rondo_comm_deregister(), or with the communicator.
 * @return If the call fails, nothing has changed.
 * - RONDO_ERROR_INVALID_ARGUMENT: The buffer overlaps an earlier registration, or collectives of `comm` refuse it.
 * - RONDO_ERROR_UNSUPPORTED: The pages cannot be moved. They are shared, not anonymous, or memory of a device. */
RONDO_API rondo_status_t rondo_comm_register(rondo_comm_t comm, void *pointer, size_t bytes, unsigned flags,
                                             rondo_registration_t *handle) RONDO_NOEXCEPT;

/** Ends a registration. No operation may still use the buffer. The buffer and its contents remain. On a device, a graph
 * that was captured with the buffer fails from then on with RONDO_ERROR_MISMATCH. One call at a time.
 * @return RONDO_NOT_READY, on a device only: Another process still has the buffer open, because a collective is in
 *         flight there. This can happen even if the rank of that process has left. No later collective uses the buffer,
 *         but do not free it yet: run one more collective, then call this function again. rondo_comm_destroy() waits up
 *         to 5 s for such processes. */
RONDO_API rondo_status_t rondo_comm_deregister(rondo_comm_t comm, rondo_registration_t handle) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_streams
 * These functions are for host streams and their events. For a cudaStream_t, use CUDA's functions.
 * @{ */
/** Makes a host stream: a queue, and a thread that runs its operations in order. If a communicator has operations on
 * several streams, they run in the order of their calls. Any thread. */
RONDO_API rondo_status_t rondo_stream_create(rondo_stream_t *stream) RONDO_NOEXCEPT;

/** Waits until all enqueued operations are done, then ends the stream. The handle is invalid afterwards. One call at a
 * time. */
RONDO_API rondo_status_t rondo_stream_destroy(rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits until all enqueued operations are done. Any thread.
 * @return The first failure on the stream since the previous rondo_stream_synchronize(), otherwise RONDO_OK. */
RONDO_API rondo_status_t rondo_stream_synchronize(rondo_stream_t stream) RONDO_NOEXCEPT;

/** Checks whether all enqueued operations are done. Any thread.
 * @return RONDO_OK if they are done, otherwise RONDO_NOT_READY. */
RONDO_API rondo_status_t rondo_stream_query(rondo_stream_t stream) RONDO_NOEXCEPT;

/** Makes later operations on `stream` wait until the latest record of `event` is done. If the event was never recorded,
 * nothing waits. With NULL as the stream, the caller itself waits. Any thread. */
RONDO_API rondo_status_t rondo_stream_wait_event(rondo_stream_t stream, rondo_event_t event) RONDO_NOEXCEPT;

/** Makes an event, which counts as done until it is first recorded. Any thread. */
RONDO_API rondo_status_t rondo_event_create(rondo_event_t *event) RONDO_NOEXCEPT;

/** Frees the event at once, or when the streams that use it have passed it. The handle is invalid afterwards. Any
 * thread. */
RONDO_API rondo_status_t rondo_event_destroy(rondo_event_t event) RONDO_NOEXCEPT;

/** Records `event` at this point of `stream`. When the stream reaches the point, the event is done, and its
 * timestamp is set. Any thread. */
RONDO_API rondo_status_t rondo_event_record(rondo_event_t event, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits for the latest record of `event`. Returns what rondo_stream_synchronize() would return there. Any thread. */
RONDO_API rondo_status_t rondo_event_synchronize(rondo_event_t event) RONDO_NOEXCEPT;
/** Checks whether the latest record of `event` is done. Any thread.
 * @return RONDO_OK if it is done, otherwise RONDO_NOT_READY. */
RONDO_API rondo_status_t rondo_event_query(rondo_event_t event) RONDO_NOEXCEPT;
/** Writes the time, by CLOCK_MONOTONIC, at which the stream passed the latest record of `event`. Any thread.
 * @return RONDO_NOT_READY: The stream has not passed it, and nothing was written. */
RONDO_API rondo_status_t rondo_event_timestamp_ns(rondo_event_t event, uint64_t *timestamp_ns) RONDO_NOEXCEPT;
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* RONDO_RONDO_H */
