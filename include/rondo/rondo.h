/* SPDX-License-Identifier: Apache-2.0
 *
 * Rondo: collective communication. This is the whole public interface, with the enumerations of rondo/types.h; it needs
 * C11 or C++11 and nothing else.
 *
 * Shape of the thing: a communicator is a group of `size` ranks; a rank is a process, or a thread of one. Every rank
 * calls the same collectives on a communicator in the same order. Buffers are plain memory of the communicator's
 * device, or host memory. Counts are elements, sizes are bytes; a name says which.
 * Errors: every call that can fail returns a rondo_status_t. What a caller may still do after each is said at the
 * status; rondo_comm_last_error() tells rank, peer, operation number and what to do.
 * Threads: "any thread" below means that calls may run at the same time. "One at a time" means that the caller must
 * not run two such calls on the same object at once; on different objects any number may run. */
#ifndef RONDO_RONDO_H
#define RONDO_RONDO_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/types.h"

#define RONDO_VERSION_MAJOR 0 /**< Of this header; rondo_version() tells that of the loaded library. */
#define RONDO_VERSION_MINOR 1 /**< Grows with every addition. */
#define RONDO_VERSION_PATCH 0 /**< Grows with every correction. */

/** Before each function: the library offers it to programs. */
#if defined(__GNUC__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

/** After each function, for C++: none throws. */
#ifdef __cplusplus
#define RONDO_NOEXCEPT noexcept
extern "C" {
#else
#define RONDO_NOEXCEPT
#endif

/* ---- names ---- */
/** A short English name of `status` ("timeout"); static storage; never NULL, also for unknown values. Any thread. */
RONDO_API const char *rondo_status_string(rondo_status_t status) RONDO_NOEXCEPT;
/** Writes the version of the loaded library; a pointer may be NULL. Any thread. */
RONDO_API void rondo_version(int *major, int *minor, int *patch) RONDO_NOEXCEPT;
/** Bytes of one element; 0 for an unknown type. Any thread. */
RONDO_API size_t rondo_type_size(rondo_type_t type) RONDO_NOEXCEPT;
/** Names as the command line and the environment use them ("float32", "sum", "all_reduce", "ring", "ll"); static
 *  storage; NULL for an unknown value, so a loop from 0 can list what there is. Any thread. */
RONDO_API const char *rondo_type_string(rondo_type_t type) RONDO_NOEXCEPT;
/** As rondo_type_string(), of a reduction: "sum". Any thread. */
RONDO_API const char *rondo_op_string(rondo_op_t op) RONDO_NOEXCEPT;
/** As rondo_type_string(), of a collective: "all_reduce". Any thread. */
RONDO_API const char *rondo_collective_string(rondo_collective_t collective) RONDO_NOEXCEPT;
/** As rondo_type_string(), of an algorithm: "ring". Any thread. */
RONDO_API const char *rondo_algorithm_string(rondo_algorithm_t algorithm) RONDO_NOEXCEPT;
/** As rondo_type_string(), of a protocol: "ll". Any thread. */
RONDO_API const char *rondo_protocol_string(rondo_protocol_t protocol) RONDO_NOEXCEPT;
/** As rondo_type_string(), of what runs a plan: "interpreter". Any thread. */
RONDO_API const char *rondo_kernel_string(rondo_kernel_t kernel) RONDO_NOEXCEPT;
/** As rondo_type_string(), of an executor: "kernel". Any thread. */
RONDO_API const char *rondo_device_executor_string(rondo_device_executor_t executor) RONDO_NOEXCEPT;

/* ---- handles ---- */
/** A member's hold on a communicator. Opaque; a destroyed one is recognised and refused, never dereferenced. */
typedef struct rondo_comm *rondo_comm_t;

/** A queue of operations that run in order: of rondo_stream_create(); NULL: the call returns when it is complete. On a
 * CUDA device: a cudaStream_t, which may be captured; NULL: the default stream. No call waits but for its launch. */
typedef void *rondo_stream_t;

typedef struct rondo_event *rondo_event_t;                /**< A point in a stream. Opaque. */
typedef struct rondo_registration *rondo_registration_t;  /**< A registration of a buffer. Opaque. */

/* ---- configuration ---- */
/** How a communicator is to be. Fill it by RONDO_CONFIG_INIT or rondo_config_default(), then change what you need.
 *  Fields are only ever appended; `size` tells the library which the caller knows. Where a field is at its default
 *  and the environment variable beside it is set, the variable counts (docs/environment.md). Read in the call only. */
typedef struct rondo_config {
  size_t size;                   /**< bytes of this struct as the caller knows it */
  int32_t device;                /**< RONDO_DEVICE_HOST, or a CUDA device ordinal */
  uint32_t init_timeout_ms;      /**< for the whole of initialisation; 0: 60 s          RONDO_INIT_TIMEOUT (s) */
  uint32_t timeout_ms;           /**< for each operation; 0: 300 s                      RONDO_TIMEOUT (s) */
  rondo_algorithm_t algorithm;   /**< AUTO: the tuner chooses                           RONDO_ALGORITHM */
  rondo_protocol_t protocol;     /**< AUTO: the tuner chooses                           RONDO_PROTOCOL */
  uint32_t channels;             /**< 1-8, on a device 1-128; 0: the tuner chooses      RONDO_CHANNELS */
  rondo_kernel_t kernel;         /**< AUTO: the tuner chooses                           RONDO_KERNEL */
  uint64_t chunk_bytes;          /**< 64 B-1 GiB; 0: the tuner chooses                  RONDO_CHUNK_BYTES */
  const char *network_interface; /**< name or names, read during the call; NULL: any    RONDO_INTERFACE */
  rondo_device_executor_t device_executor; /**< on a device: AUTO: Rondo chooses       RONDO_DEVICE_EXECUTOR */
  uint32_t max_ctas;             /**< on a device: most blocks, 1-1024; 0: no limit     RONDO_MAX_CTAS */
  uint32_t nonblocking;          /**< 1: rondo_comm_init() and _init_env() return at once, see there */
  uint32_t reserved;             /**< 0 */
} rondo_config_t;

/** The defaults of a rondo_config_t. */
#define RONDO_CONFIG_INIT                                                                                             \
  { sizeof(rondo_config_t), RONDO_DEVICE_HOST, 0, 0, RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0,                   \
    RONDO_KERNEL_AUTO, 0, NULL, RONDO_DEVICE_EXECUTOR_AUTO, 0, 0, 0 }

/** Writes the defaults, as the INIT does, for languages that know no macros. @param size  of the caller's struct, which
 * goes into its `size`. @return RONDO_ERROR_INVALID_ARGUMENT: NULL, or less than any version's. Any thread. */
RONDO_API rondo_status_t rondo_config_default(rondo_config_t *config, size_t size) RONDO_NOEXCEPT;

/* ---- communicators ---- */
/** Names a communicator that is to be made. It carries the address at which rank 0's process listens and a secret:
 *  hand it only to the group's members, never on a command line. */
typedef struct rondo_unique_id {
  char internal[RONDO_UNIQUE_ID_BYTES]; /**< Not for callers: copy all of it. */
} rondo_unique_id_t;

/** Makes an id and starts to listen for the group in this process, which must stay alive until the communicator is
 *  made. One id makes one communicator. An id that is not used is to be freed here: rondo_unique_id_free().
 * @param config  NULL for the defaults; network_interface is used here.
 * Any thread. */
RONDO_API rondo_status_t rondo_get_unique_id(rondo_unique_id_t *id, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Gives up an id that this process made and did not use: its listener, thread and descriptors go, and ranks that wait
 *  for the group get RONDO_ERROR_REMOTE. After rondo_comm_init() with the id, or for another process's id: no effect.
 * @return RONDO_ERROR_INVALID_ARGUMENT: id is NULL, or not what rondo_get_unique_id() wrote. Any thread. */
RONDO_API rondo_status_t rondo_unique_id_free(const rondo_unique_id_t *id) RONDO_NOEXCEPT;

/** Makes the communicator of `id`: blocks until all `size` ranks have called it, or init_timeout_ms has passed.
 * Ranks may be processes, threads of one process (each calls this from its own thread), or both.
 * With config->nonblocking it returns at once. Until a thread has made the communicator, calls with it return
 * RONDO_NOT_READY, or its failure (docs/bootstrap.md); rondo_comm_abort() and rondo_comm_destroy() end the attempt.
 * @param comm    receives the handle; unchanged on failure. End it with rondo_comm_destroy().
 * @param rank    0..size-1, each once.
 * @param config  NULL: defaults. From algorithm to chunk_bytes, executor, max_ctas: equal on all ranks.
 * @return The failure of the first rank that failed, on every rank. RONDO_ERROR_TIMEOUT: ranks are missing, which are
 *         told; RONDO_ERROR_REMOTE: a rank, or the id's process, ended; RONDO_ERROR_MISMATCH: size, versions or
 *         configuration differ, or a rank came twice; others as above. rondo_comm_last_error(NULL, ...). Any thread. */
RONDO_API rondo_status_t rondo_comm_init(rondo_comm_t *comm, const rondo_unique_id_t *id, int rank, int size,
                                         const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator of all the ranks of the job that the environment describes: `rondo run`, torchrun, Open MPI,
 * MPICH or Slurm; without any of them, of this process alone. May be called repeatedly, in the same order everywhere.
 * Otherwise as rondo_comm_init(). One at a time in a process; a nonblocking one is to be ready, or destroyed, first. */
RONDO_API rondo_status_t rondo_comm_init_env(rondo_comm_t *comm, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator whose `size` ranks are all in this process, one call for all: comms[r] is rank r's. Drive each
 * from a thread of its own (or with streams): a collective without a stream blocks until the other ranks call it.
 * @param configs  NULL for the defaults, or `size` configurations; none may be nonblocking. Any thread. */
RONDO_API rondo_status_t rondo_comm_init_all(rondo_comm_t *comms, int size,
                                             const rondo_config_t *configs) RONDO_NOEXCEPT;

/** Writes this rank's number. Any thread. */
RONDO_API rondo_status_t rondo_comm_rank(rondo_comm_t comm, int *rank) RONDO_NOEXCEPT;
/** Writes the number of ranks. Any thread. */
RONDO_API rondo_status_t rondo_comm_size(rondo_comm_t comm, int *size) RONDO_NOEXCEPT;

/** What a communicator is. Set `size` (or use the INIT) before the call. */
typedef struct rondo_comm_properties {
  size_t size;                /**< bytes of this struct as the caller knows it */
  int32_t rank;               /**< this rank's number */
  int32_t rank_count;         /**< ranks in all */
  int32_t device;             /**< RONDO_DEVICE_HOST or a CUDA ordinal */
  int32_t local_rank_count;   /**< ranks on this host */
  int32_t core_count;         /**< cores that those may use */
  int32_t oversubscribed;     /**< 1: some host has more ranks than cores, so waits hand the core over */
  int32_t mapped_buffers;     /**< 1: peers can map buffers of rondo_mem_alloc() and moved registrations */
  int32_t cross_memory;       /**< 1: peers can read registered buffers by cross-memory attach */
  uint64_t shared_bytes;      /**< shared memory of the communicator on this host, all ranks together */
  rondo_device_executor_t device_executor; /**< what runs collectives on the device; AUTO: host memory */
  uint32_t reserved;          /**< 0 */
} rondo_comm_properties_t;

/** The defaults of a rondo_comm_properties_t. */
#define RONDO_COMM_PROPERTIES_INIT \
  { sizeof(rondo_comm_properties_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, RONDO_DEVICE_EXECUTOR_AUTO, 0 }

/** As rondo_config_default(). */
RONDO_API rondo_status_t rondo_comm_properties_default(rondo_comm_properties_t *properties, size_t size)
    RONDO_NOEXCEPT;

/** Tells what the communicator is. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_properties(rondo_comm_t comm, rondo_comm_properties_t *properties)
    RONDO_NOEXCEPT;

/** Tells the communicator's memory on this host, of all its ranks together. A pointer may be NULL. Any thread.
 * @param reserved_bytes  what is mapped.   @param used_bytes  of it, pages that were touched so far. */
RONDO_API rondo_status_t rondo_comm_memory(rondo_comm_t comm, uint64_t *reserved_bytes, uint64_t *used_bytes)
    RONDO_NOEXCEPT;

/** What a rank's operations of one kind were, all together. */
typedef struct rondo_operation_statistics {
  uint64_t operations;   /**< that are complete */
  uint64_t bytes;        /**< of their whole vectors, as rondo perf counts: of all_gather all blocks; barrier: 0 */
  uint64_t in_flight_ns; /**< from this rank's beginning of each to its end; a wait for late ranks counts */
  uint64_t exposed_ns;   /**< of that, the part in which a caller of this rank waited; the rest was hidden */
} rondo_operation_statistics_t;

/** What a communicator has done on this rank since it was made. Set `size` (or use the INIT) before the call. */
typedef struct rondo_statistics {
  size_t size;        /**< bytes of this struct as the caller knows it */
  int32_t waits_seen; /**< 0: on a device, where Rondo does not see how long callers wait: exposed_ns says nothing */
  uint32_t reserved;  /**< always 0 */
  rondo_operation_statistics_t total; /**< of all collectives */
  rondo_operation_statistics_t collectives[RONDO_STATISTICS_COLLECTIVES]; /**< by rondo_collective_t */
} rondo_statistics_t;
/** A rondo_statistics_t that rondo_comm_statistics() can fill. */
#define RONDO_STATISTICS_INIT { sizeof(rondo_statistics_t), 0, 0, { 0, 0, 0, 0 }, { { 0, 0, 0, 0 } } }

/** As rondo_comm_properties_default(). */
RONDO_API rondo_status_t rondo_statistics_default(rondo_statistics_t *statistics, size_t size) RONDO_NOEXCEPT;

/** Tells what this rank's operations have cost so far; it only grows: take the difference of two calls. A caller waits
 * in a collective without a stream, in rondo_stream_synchronize() and rondo_stream_destroy(), in
 * rondo_event_synchronize(), in rondo_stream_wait_event() without a stream, and at a full stream. On a device an
 * operation is in flight from its call, or the end of the one before it, until Rondo has seen its end (a fraction of a
 * millisecond late); what a graph replays is not counted. Operations that failed are not counted. Any thread. */
RONDO_API rondo_status_t rondo_comm_statistics(rondo_comm_t comm, rondo_statistics_t *statistics) RONDO_NOEXCEPT;

/** What the tuner would choose for an operation. Set `size` (or use the INIT) before the call. */
typedef struct rondo_plan_info {
  size_t size;                 /**< bytes of this struct as the caller knows it */
  rondo_algorithm_t algorithm; /**< how the collective is done */
  rondo_protocol_t protocol;   /**< of the interpreter; AUTO with another kernel, which needs none */
  uint32_t channels;           /**< parallel lanes */
  rondo_kernel_t kernel;       /**< what runs the plan */
  uint64_t chunk_bytes;        /**< the schedule's unit */
} rondo_plan_info_t;

/** The defaults of a rondo_plan_info_t. */
#define RONDO_PLAN_INFO_INIT \
  { sizeof(rondo_plan_info_t), RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0, RONDO_KERNEL_AUTO, 0 }

/** As rondo_config_default(). */
RONDO_API rondo_status_t rondo_plan_info_default(rondo_plan_info_t *info, size_t size) RONDO_NOEXCEPT;

/** Tells the plan of a collective, not of its _v: `count` as that collective takes it. Moves nothing. Any thread. */
RONDO_API rondo_status_t rondo_comm_query_plan(rondo_comm_t comm, rondo_collective_t collective, size_t count,
                                               rondo_type_t type, rondo_plan_info_t *info) RONDO_NOEXCEPT;

/** What went wrong. Set `size` (or use the INIT) before the call. */
typedef struct rondo_error {
  size_t size;            /**< bytes of this struct as the caller knows it */
  rondo_status_t status;  /**< RONDO_OK: nothing did */
  int32_t rank;           /**< the rank that noticed it first, or -1 */
  int32_t peer;           /**< the rank that it is about, or -1 */
  uint32_t reserved;      /**< 0 */
  uint64_t operation;     /**< number of the operation on its communicator, from 1; 0: none */
  char message[1000];     /**< one line, English: what happened, where, what to do */
} rondo_error_t;

/** The defaults of a rondo_error_t. */
#define RONDO_ERROR_INIT { sizeof(rondo_error_t), RONDO_OK, -1, -1, 0, 0, { 0 } }

/** As rondo_config_default(). */
RONDO_API rondo_status_t rondo_error_default(rondo_error_t *error, size_t size) RONDO_NOEXCEPT;

/** The communicator's first failure, or that of its making; without one, the last refused call of this thread.
 * @param comm  NULL: the last refused or failed call of this thread on any object (a failed init, say).
 * Any thread. */
RONDO_API rondo_status_t rondo_comm_last_error(rondo_comm_t comm, rondo_error_t *error) RONDO_NOEXCEPT;

/** Its message alone: what rondo_comm_last_error() would write into `message`; "" where nothing failed. Never NULL.
 * The text belongs to this thread, until it calls this again. @param comm  as there. Any thread. */
RONDO_API const char *rondo_last_error_message(rondo_comm_t comm) RONDO_NOEXCEPT;

/** How all that is enqueued stands: RONDO_OK, or the first failure, which stays; RONDO_NOT_READY: it is being made.
 * Does not wait, but looks: a peer's death is noticed here even when no operation is in flight. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_async_error(rondo_comm_t comm, rondo_status_t *status) RONDO_NOEXCEPT;

/** Waits until this rank's operations are complete and every rank has called it. Afterwards only destroy is allowed.
 * One at a time. @return RONDO_ERROR_TIMEOUT, RONDO_ERROR_REMOTE: as for an operation. */
RONDO_API rondo_status_t rondo_comm_finalize(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Waits for this rank's operations, and up to 2 s until other hosts have what it sent over TCP; then frees everything.
 * The handle is invalid then, on every outcome; peers that wait for this rank get RONDO_ERROR_REMOTE. RONDO_OK also for
 * a failed communicator. Not beside another call on `comm`. A driver that is busy for over 5 s is left to a thread. */
RONDO_API rondo_status_t rondo_comm_destroy(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends all operations of the communicator, here and on its other ranks, with RONDO_ERROR_ABORTED. Does not wait and
 * frees nothing; rondo_comm_destroy() does. Any thread, also beside a blocked call. */
RONDO_API rondo_status_t rondo_comm_abort(rondo_comm_t comm) RONDO_NOEXCEPT;

/* ---- collectives ----
 * Common to all. Buffers are yours on every outcome; keep them alive, and send unwritten, until the operation is
 * complete (on return without a stream; else when the stream has passed it). NULL is allowed for a buffer of 0 bytes.
 * Every rank calls the same collectives in the same order with equal count, type, op and root. One call at a time per
 * communicator. An operation has a number, from 1, that errors name.
 * @return RONDO_OK: complete, or enqueued; a later failure is sticky: rondo_comm_get_async_error().
 *         RONDO_ERROR_INVALID_ARGUMENT: null pointer, overlap other than in place, unknown type or op, bad root or
 *         count * size over SIZE_MAX: nothing enqueued, the communicator is usable, but ranks whose arguments were
 *         accepted wait for this one until their deadline.
 *         RONDO_ERROR_TIMEOUT, _REMOTE, _MISMATCH, _ABORTED: failed; each rank is told once. recv is unspecified; send
 *         is unchanged unless it is recv. RONDO_ERROR_COMM_FAILED: failed before, this rank was told; nothing enqueued.
 * Streams: with a stream the call returns once the operation is enqueued; a full queue (1,024) makes it wait. With
 *          RONDO_DEVICE_LAUNCH=shared, equal on all ranks, a call on a device waits until the ranks that share its
 *          kernel have called: threads of one process on one device. So one thread must not drive several; on several
 *          communicators they call in the same order; and all capture a call, or none. By default it waits so for 2 s
 *          at most, and only where CUDA has fewer than 32 hardware queues (docs/gpu-shared-launch.md). */

/** On every rank, recv[i] = the reduction by `op` of send[i] over all ranks, for i < count.
 * @param send, recv  count elements each; equal (in place) or disjoint. */
RONDO_API rondo_status_t rondo_all_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op,
                                          rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** recv[i] = the reduction of send[rank * recv_count + i] over all ranks, for i < recv_count.
 * @param send  recv_count * size elements.   @param recv  recv_count elements; in place: send + rank * recv_count. */
RONDO_API rondo_status_t rondo_reduce_scatter(const void *send, void *recv, size_t recv_count, rondo_type_t type,
                                              rondo_op_t op, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** As rondo_reduce_scatter(), where rank r receives counts[r] elements, which begin at the sum of counts[0..r-1].
 * @param counts  `size` entries, equal on all ranks; read during the call only. */
RONDO_API rondo_status_t rondo_reduce_scatter_v(const void *send, void *recv, const size_t *counts, rondo_type_t type,
                                                rondo_op_t op, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** recv[r * send_count + i] = send[i] of rank r, for i < send_count and every r.
 * @param send  send_count elements; in place: recv + rank * send_count.   @param recv  send_count * size elements. */
RONDO_API rondo_status_t rondo_all_gather(const void *send, void *recv, size_t send_count, rondo_type_t type,
                                          rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** As rondo_all_gather(), where rank r sends counts[r] elements, which every rank receives at recv + displacements[r].
 * @param counts         `size` entries, equal on all ranks; read during the call only.
 * @param displacements  elements, `size` entries whose ranges are disjoint, equal on all ranks; NULL: one after
 *                       another. Read during the call only. In place: send = recv + displacements[rank]. */
RONDO_API rondo_status_t rondo_all_gather_v(const void *send, void *recv, const size_t *counts,
                                            const size_t *displacements, rondo_type_t type, rondo_comm_t comm,
                                            rondo_stream_t stream) RONDO_NOEXCEPT;

/** On every rank, recv[i] = root's send[i], for i < count.
 * @param send  count elements on root, ignored elsewhere; equal to recv (in place) or disjoint. */
RONDO_API rondo_status_t rondo_broadcast(const void *send, void *recv, size_t count, rondo_type_t type, int root,
                                         rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** On root, recv[i] = the reduction of send[i] over all ranks, for i < count.
 * @param recv  count elements on root, ignored and untouched elsewhere; equal to send (in place) or disjoint. */
RONDO_API rondo_status_t rondo_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op,
                                      int root, rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Is complete on a rank only after every rank has reached it. */
RONDO_API rondo_status_t rondo_barrier(rondo_comm_t comm, rondo_stream_t stream) RONDO_NOEXCEPT;

/* ---- memory ---- */
/** Allocates host memory that the ranks of this host can map, so that collectives read it in place, without staging.
 * Zeroed; aligned to a page; gone with its process. Neither map other memory over it nor use it in a child of fork().
 * @param bytes  at least 1.   Any thread. */
RONDO_API rondo_status_t rondo_mem_alloc(void **pointer, size_t bytes) RONDO_NOEXCEPT;

/** Frees memory of rondo_mem_alloc(); no operation may still use it. NULL is allowed. Any thread.
 * @return RONDO_ERROR_INVALID_ARGUMENT: not the start of such memory; nothing was freed. */
RONDO_API rondo_status_t rondo_mem_free(void *pointer) RONDO_NOEXCEPT;

/** Makes a buffer of your own one that peers read in place. Local; each rank may register or not. Without flags, peers
 * read it by cross-memory attach where the system allows that, else it is staged; with RONDO_REGISTER_MOVE_PAGES they
 * map it. Memory of rondo_mem_alloc() needs none. On a device: of cudaMalloc(); processes with NVLink or MPS go
 * in it (docs/load-store-devices.md) once all have opened it, each with no collective in flight: waits 0.1 s for that.
 * Calls before go as without it, but wait while their process opens memory: up to their timeout, then they fail.
 * @param handle  ended by rondo_comm_deregister() or with the communicator. One at a time.
 * @return RONDO_ERROR_INVALID_ARGUMENT: overlaps an earlier registration, or collectives of `comm` refuse it;
 *         RONDO_ERROR_UNSUPPORTED: pages cannot be moved (shared, not anonymous, of a device). Nothing changed. */
RONDO_API rondo_status_t rondo_comm_register(rondo_comm_t comm, void *pointer, size_t bytes, unsigned flags,
                                             rondo_registration_t *handle) RONDO_NOEXCEPT;

/** Ends a registration; no operation may still use the buffer, which stays yours with its contents. One at a time.
 * On a device, a graph that was captured with the buffer fails from then on (RONDO_ERROR_MISMATCH).
 * @return RONDO_NOT_READY: on a device; no later call uses it, but another process has it open, where one is in flight,
 *         even if its rank has left: before you free it, call this again, behind a collective. Destroying waits 5 s. */
RONDO_API rondo_status_t rondo_comm_deregister(rondo_comm_t comm, rondo_registration_t handle) RONDO_NOEXCEPT;

/* ---- host streams and events ---- */
/** Makes a queue with a thread that runs its operations in order. Operations of one communicator on several streams
 * run in the order of their calls. Any thread. */
RONDO_API rondo_status_t rondo_stream_create(rondo_stream_t *stream) RONDO_NOEXCEPT;

/** Waits for what is enqueued, then ends the stream; the handle is invalid from then on. One at a time. */
RONDO_API rondo_status_t rondo_stream_destroy(rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits for what is enqueued. @return its first failure since the last synchronize, else RONDO_OK. Any thread. */
RONDO_API rondo_status_t rondo_stream_synchronize(rondo_stream_t stream) RONDO_NOEXCEPT;

/** @return RONDO_OK when all is done, RONDO_NOT_READY otherwise. Any thread. */
RONDO_API rondo_status_t rondo_stream_query(rondo_stream_t stream) RONDO_NOEXCEPT;

/** Makes what is enqueued on `stream` from now on wait for the latest record of `event`; an event that was never
 * recorded does not hold it. Any thread. */
RONDO_API rondo_status_t rondo_stream_wait_event(rondo_stream_t stream, rondo_event_t event) RONDO_NOEXCEPT;

/** Makes an event, done until it is first recorded. Any thread. */
RONDO_API rondo_status_t rondo_event_create(rondo_event_t *event) RONDO_NOEXCEPT;

/** Frees it at once, or when the streams that use it have passed it; the handle is invalid from then on. Any thread. */
RONDO_API rondo_status_t rondo_event_destroy(rondo_event_t event) RONDO_NOEXCEPT;

/** Enqueues: done, with the time, when `stream` reaches this point. Any thread. */
RONDO_API rondo_status_t rondo_event_record(rondo_event_t event, rondo_stream_t stream) RONDO_NOEXCEPT;

/** Waits for the latest record. Any thread. */
RONDO_API rondo_status_t rondo_event_synchronize(rondo_event_t event) RONDO_NOEXCEPT;
/** @return RONDO_OK when the latest record is done, RONDO_NOT_READY otherwise. Any thread. */
RONDO_API rondo_status_t rondo_event_query(rondo_event_t event) RONDO_NOEXCEPT;
/** When the latest record was passed, by CLOCK_MONOTONIC; before that RONDO_NOT_READY, nothing written. Any thread. */
RONDO_API rondo_status_t rondo_event_timestamp_ns(rondo_event_t event, uint64_t *timestamp_ns) RONDO_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* RONDO_RONDO_H */
