/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header declares handles, configuration, the life of a communicator, queries and errors. Programs include
 * rondo/rondo.h, which includes this header and says what holds for every function. */
#ifndef RONDO_COMMUNICATOR_H
#define RONDO_COMMUNICATOR_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @addtogroup rondo_library
 * @{ */
/** Returns a short English name of `status`, such as "timeout", in static storage. The result is never NULL, not even
 *  for an unknown value. Any thread. */
RONDO_API const char *rondo_status_string(rondo_status_t status) RONDO_NOEXCEPT;
/** Writes the version of the loaded library. Each pointer may be NULL. Any thread. */
RONDO_API void rondo_version(int *major, int *minor, int *patch) RONDO_NOEXCEPT;
/** Returns the size of one element in bytes, or 0 for an unknown type. Any thread. */
RONDO_API size_t rondo_type_size(rondo_type_t type) RONDO_NOEXCEPT;
/** Returns the name of an element type, such as "float32", in static storage. The command line and the environment use
 *  the same names. An unknown value has the name NULL, so that a loop from 0 can list all values. Any thread. */
RONDO_API const char *rondo_type_string(rondo_type_t type) RONDO_NOEXCEPT;
/** Returns the name of a reduction, such as "sum", as rondo_type_string() does. The name of every value from
 *  RONDO_OP_DYNAMIC on is "premul_sum". Any thread. */
RONDO_API const char *rondo_op_string(rondo_op_t op) RONDO_NOEXCEPT;
/** Returns the name of a collective, such as "all_reduce", as rondo_type_string() does. Any thread. */
RONDO_API const char *rondo_collective_string(rondo_collective_t collective) RONDO_NOEXCEPT;
/** Returns the name of an algorithm, such as "ring", as rondo_type_string() does. Any thread. */
RONDO_API const char *rondo_algorithm_string(rondo_algorithm_t algorithm) RONDO_NOEXCEPT;
/** Returns the name of a protocol, such as "ll", as rondo_type_string() does. Any thread. */
RONDO_API const char *rondo_protocol_string(rondo_protocol_t protocol) RONDO_NOEXCEPT;
/** Returns the name of a kernel, such as "interpreter", as rondo_type_string() does. Any thread. */
RONDO_API const char *rondo_kernel_string(rondo_kernel_t kernel) RONDO_NOEXCEPT;
/** Returns the name of an executor, such as "kernel", as rondo_type_string() does. Any thread. */
RONDO_API const char *rondo_device_executor_string(rondo_device_executor_t executor) RONDO_NOEXCEPT;
/** @} */

/** @ingroup rondo_comm
 *  The handle by which one rank holds a communicator. It is opaque. Rondo recognises a destroyed handle and refuses it
 *  without dereferencing it. */
typedef struct rondo_comm *rondo_comm_t;

/** @ingroup rondo_streams
 *  A queue of operations that run in order, made by rondo_stream_create(). With NULL, a call returns when its operation
 *  is complete. On a CUDA device it is a cudaStream_t instead, which may be under capture, and NULL is the default
 *  stream. There a call waits only for its launch. */
typedef void *rondo_stream_t;

/** @ingroup rondo_streams
 *  The handle of an event, which marks a point in a stream. It is opaque. */
typedef struct rondo_event *rondo_event_t;
/** @ingroup rondo_memory
 *  The handle of a buffer's registration. It is opaque. */
typedef struct rondo_registration *rondo_registration_t;

/** @addtogroup rondo_config
 * @{ */
/** The wishes for a communicator. Fill the struct by RONDO_CONFIG_INIT or rondo_config_default(), then change what you
 *  need. A call reads it only while it runs. Later versions only append fields, and `size` says which fields the caller
 *  knows. A field that is at its default yields to its environment variable, named below (docs/environment.md). */
typedef struct rondo_config {
  size_t size;                   /**< size of this struct in bytes, as the caller knows it */
  int32_t device;                /**< RONDO_DEVICE_HOST, or a CUDA device ordinal */
  uint32_t init_timeout_ms;      /**< limit of the whole initialisation (0: 60 s). RONDO_INIT_TIMEOUT, in seconds. */
  uint32_t timeout_ms;           /**< limit of each operation (0: 300 s). RONDO_TIMEOUT, in seconds. */
  rondo_algorithm_t algorithm;   /**< algorithm (AUTO: the tuner chooses). RONDO_ALGORITHM. */
  rondo_protocol_t protocol;     /**< protocol (AUTO: the tuner chooses). RONDO_PROTOCOL. */
  uint32_t channels;             /**< channels, 1-8, on a device 1-128 (0: the tuner chooses). RONDO_CHANNELS. */
  rondo_kernel_t kernel;         /**< kernel (AUTO: the tuner chooses). RONDO_KERNEL. */
  uint64_t chunk_bytes;          /**< chunk, 64 B-1 GiB (0: the tuner chooses). RONDO_CHUNK_BYTES. */
  const char *network_interface; /**< one or more interfaces (NULL: any). RONDO_INTERFACE. */
  rondo_device_executor_t device_executor; /**< executor of a device (AUTO: Rondo chooses). RONDO_DEVICE_EXECUTOR. */
  uint32_t max_ctas;             /**< most blocks on a device, 1-1024 (0: no limit). RONDO_MAX_CTAS. */
  uint32_t nonblocking;          /**< 1: rondo_comm_init() and rondo_comm_init_env() return at once */
  uint32_t reserved;             /**< always 0 */
} rondo_config_t;

/** The initialiser of a rondo_config_t: the defaults. */
#define RONDO_CONFIG_INIT                                                                                             \
  { sizeof(rondo_config_t), RONDO_DEVICE_HOST, 0, 0, RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0,                   \
    RONDO_KERNEL_AUTO, 0, NULL, RONDO_DEVICE_EXECUTOR_AUTO, 0, 0, 0 }

/** Writes the defaults of RONDO_CONFIG_INIT, for languages that know no macros. Any thread.
 * @param config  receives the defaults.
 * @param size    size of the caller's struct in bytes, which is written to its field `size`.
 * @return RONDO_ERROR_INVALID_ARGUMENT if `config` is NULL, or `size` is less than that of any version. */
RONDO_API rondo_status_t rondo_config_default(rondo_config_t *config, size_t size) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_comm
 * A communicator is a group of ranks. Its ranks make it together, use it, and destroy it.
 * @{ */
/** The name of a communicator that is to be made. It carries a secret, and the address at which the process of rank 0
 *  listens. Hand it only to members of the group, never on a command line. */
typedef struct rondo_unique_id {
  char internal[RONDO_UNIQUE_ID_BYTES]; /**< Opaque content: copy all of it. */
} rondo_unique_id_t;

/** Makes an id and starts to listen for the group in this process. The process must stay alive until the communicator
 * is made. One id makes one communicator. To give up an unused id, call rondo_unique_id_free() in this process. Any
 * thread.
 * @param id      receives the id.
 * @param config  NULL for the defaults. This call uses its network_interface. */
RONDO_API rondo_status_t rondo_get_unique_id(rondo_unique_id_t *id, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Gives up an id that this process made and did not use. Its listener, thread and descriptors end, and ranks that wait
 *  for the group fail with RONDO_ERROR_REMOTE. The call has no effect after rondo_comm_init() with the id, or on an id
 *  of another process. Any thread.
 * @return RONDO_ERROR_INVALID_ARGUMENT if `id` is NULL, or was not written by rondo_get_unique_id(). */
RONDO_API rondo_status_t rondo_unique_id_free(const rondo_unique_id_t *id) RONDO_NOEXCEPT;

/** Makes the communicator of `id`. The call blocks until all `size` ranks have called it, or init_timeout_ms has
 * passed. Ranks may be processes, threads of one process, or both. Each thread makes this call for its own rank.
 *
 * With config->nonblocking the call returns at once, and a thread makes the communicator. Until that is done, other
 * calls with the handle return RONDO_NOT_READY. If it fails, they return the failure (docs/bootstrap.md).
 * rondo_comm_abort() and rondo_comm_destroy() end the attempt. Any thread.
 * @param comm    receives the handle, and is unchanged on failure. End it with rondo_comm_destroy().
 * @param id      id from rondo_get_unique_id().
 * @param rank    number of this rank, 0 to size - 1. Each rank joins once.
 * @param size    number of ranks.
 * @param config  NULL for the defaults. All ranks must give equal values of the fields algorithm to chunk_bytes,
 *                device_executor and max_ctas.
 * @return On every rank, the failure of the first rank that failed. rondo_comm_last_error(NULL, ...) has its message.
 * - RONDO_ERROR_TIMEOUT: Some ranks did not join in time. The message names them.
 * - RONDO_ERROR_REMOTE: A rank ended, or the process that made the id ended.
 * - RONDO_ERROR_MISMATCH: Ranks differ in size, version or configuration, or a rank joined twice.
 * - Any other status: The meaning is the same as for every call (rondo_status_t). */
RONDO_API rondo_status_t rondo_comm_init(rondo_comm_t *comm, const rondo_unique_id_t *id, int rank, int size,
                                         const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator of all ranks of the job that the environment describes. It reads the environment of `rondo
 * run`, torchrun, Open MPI, MPICH and Slurm. Without a launcher, this process is the only rank. A program may call it
 * repeatedly, in the same order on every rank. In all else it behaves as rondo_comm_init().
 *
 * One call at a time per process. If the previous communicator was nonblocking, it must be ready or destroyed first. */
RONDO_API rondo_status_t rondo_comm_init_env(rondo_comm_t *comm, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator whose ranks are all in this process, by one call for all of them. Drive each rank from its own
 * thread, or with streams: a collective without a stream blocks until the other ranks call it. Any thread.
 * @param comms    receives `size` handles. comms[r] is the handle of rank r.
 * @param size     number of ranks.
 * @param configs  NULL for the defaults, or `size` configurations. None of them may be nonblocking. */
RONDO_API rondo_status_t rondo_comm_init_all(rondo_comm_t *comms, int size,
                                             const rondo_config_t *configs) RONDO_NOEXCEPT;

/** Splits a communicator into parts. The ranks that give an equal color make a new communicator. They are numbered in
 * the order of their keys; ranks with equal keys keep their order. The call is a collective of `comm`: every rank calls
 * it, in the same order among its other collectives. It is refused in a group.
 *
 * A part is a communicator like every other: it inherits no registration, and is destroyed on its own. If the making of
 * a part fails, `comm` is as before. If a rank does not call, or calls something else, `comm` fails as in every
 * collective.
 *
 * With config->nonblocking the call returns at once, and a thread makes the part, as in rondo_comm_init(). Later
 * operations of this rank on `comm` wait until all ranks have called.
 * @param color   0 or more, or RONDO_NO_COLOR for no part.
 * @param key     any number.
 * @param config  NULL for the configuration of `comm`. The ranks of a part must give equal values of the fields that
 *                rondo_comm_init() names.
 * @param part    receives the handle, or NULL with RONDO_NO_COLOR. It is unchanged on failure.
 * @return The statuses of a collective and of rondo_comm_init(). Ranks in a rondo_error_t have their numbers in
 *         `comm`.
 * - RONDO_ERROR_REMOTE: A rank died, or ended its communicator.
 * - RONDO_ERROR_MISMATCH: The ranks of a part differ in configuration, or a rank called another collective.
 * - RONDO_ERROR_INVALID_USAGE: This thread has begun a group. */
RONDO_API rondo_status_t rondo_comm_split(rondo_comm_t comm, int color, int key, const rondo_config_t *config,
                                          rondo_comm_t *part) RONDO_NOEXCEPT;

/** Makes a communicator of the ranks that are not excluded. Each of them calls it with the same ranks; excluded ranks
 * do not call. They keep their order. The call is no collective of `comm`. It works on a failed or revoked
 * communicator, and without RONDO_SHRINK_ABORT the operations of `comm` go on. It is refused in a group.
 *
 * Ranks that are left after a failure go on with it (docs/recovery.md). If another rank ends meanwhile, all members
 * that are left fail with RONDO_ERROR_REMOTE. Call it again and exclude that rank, too. On one host either all
 * members get the communicator, or none. `comm` stays, and is destroyed on its own. Registrations are not inherited.
 *
 * With config->nonblocking the call returns at once, and a thread makes the communicator, as in rondo_comm_init().
 * @param excluded        excluded_count ranks of `comm`, in any order. May be NULL if the count is 0.
 * @param excluded_count  0 or more.
 * @param flags           0 or RONDO_SHRINK_ABORT.
 * @param config          NULL for the configuration of `comm`.
 * @param rest            receives the handle, and is unchanged on failure.
 * @return The statuses of rondo_comm_init(). rondo_comm_last_error(NULL, ...) has the ranks as `comm` counts them.
 * - RONDO_ERROR_REMOTE: A member died, or ended its communicator.
 * - RONDO_ERROR_MISMATCH: Members exclude different ranks for 2 s. The message has both lists.
 * - RONDO_ERROR_TIMEOUT: A member did not call within timeout_ms, or was not made within init_timeout_ms.
 * - RONDO_ERROR_INVALID_ARGUMENT: A rank does not exist, or is this rank, or a flag is unknown.
 * - RONDO_ERROR_INVALID_USAGE: This thread has begun a group, or the shrink before is still running. */
RONDO_API rondo_status_t rondo_comm_shrink(rondo_comm_t comm, const int *excluded, int excluded_count, unsigned flags,
                                           const rondo_config_t *config, rondo_comm_t *rest) RONDO_NOEXCEPT;

/** Writes the number of this rank. Any thread. */
RONDO_API rondo_status_t rondo_comm_rank(rondo_comm_t comm, int *rank) RONDO_NOEXCEPT;
/** Writes the number of ranks. Any thread. */
RONDO_API rondo_status_t rondo_comm_size(rondo_comm_t comm, int *size) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_queries
 * @{ */
/** The properties of a communicator. Set `size`, or use the INIT macro, before the call. */
typedef struct rondo_comm_properties {
  size_t size;                /**< size of this struct in bytes, as the caller knows it */
  int32_t rank;               /**< number of this rank */
  int32_t rank_count;         /**< number of all ranks */
  int32_t device;             /**< RONDO_DEVICE_HOST, or a CUDA device ordinal */
  int32_t local_rank_count;   /**< number of ranks on this host */
  int32_t core_count;         /**< number of cores that the ranks of this host may use */
  int32_t oversubscribed;     /**< 1: some host has more ranks than cores, so waiting ranks yield their core */
  int32_t mapped_buffers;     /**< 1: peers can map buffers of rondo_mem_alloc() and moved registrations */
  int32_t cross_memory;       /**< 1: peers can read registered buffers by cross-memory attach */
  uint64_t shared_bytes;      /**< shared memory of the communicator on this host, summed over its ranks */
  rondo_device_executor_t device_executor; /**< executor on the device (AUTO: the buffers are host memory) */
  uint32_t reserved;          /**< always 0 */
} rondo_comm_properties_t;

/** The initialiser of a rondo_comm_properties_t. */
#define RONDO_COMM_PROPERTIES_INIT \
  { sizeof(rondo_comm_properties_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, RONDO_DEVICE_EXECUTOR_AUTO, 0 }

/** Writes what RONDO_COMM_PROPERTIES_INIT has, under the rules of rondo_config_default(). */
RONDO_API rondo_status_t rondo_comm_properties_default(rondo_comm_properties_t *properties, size_t size)
    RONDO_NOEXCEPT;

/** Writes the properties of the communicator. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_properties(rondo_comm_t comm, rondo_comm_properties_t *properties)
    RONDO_NOEXCEPT;

/** Writes the size of the communicator's memory on this host, summed over its ranks here. A pointer may be NULL. Any
 * thread.
 * @param reserved_bytes  receives the bytes that are mapped.
 * @param used_bytes      receives the part of them whose pages were touched so far. */
RONDO_API rondo_status_t rondo_comm_memory(rondo_comm_t comm, uint64_t *reserved_bytes, uint64_t *used_bytes)
    RONDO_NOEXCEPT;

/** The sums over a rank's operations of one kind. */
typedef struct rondo_operation_statistics {
  uint64_t operations;   /**< number of complete operations */
  uint64_t bytes;        /**< bytes of whole vectors as in rondo perf: all blocks of an all_gather, 0 for a barrier */
  uint64_t in_flight_ns; /**< time from this rank's start of each operation to its end, waits for late ranks included */
  uint64_t exposed_ns;   /**< part of in_flight_ns in which a caller of this rank waited; the rest was overlapped */
} rondo_operation_statistics_t;

/** The work of a communicator on this rank since it was made. Set `size`, or use the INIT macro, before the call. */
typedef struct rondo_statistics {
  size_t size;        /**< size of this struct in bytes, as the caller knows it */
  int32_t waits_seen; /**< 0 on a device, where Rondo does not see the waits of callers and exposed_ns has no meaning */
  uint32_t reserved;  /**< always 0 */
  rondo_operation_statistics_t total; /**< sum over all collectives */
  rondo_operation_statistics_t collectives[RONDO_STATISTICS_COLLECTIVES]; /**< sums indexed by rondo_collective_t */
} rondo_statistics_t;
/** The initialiser of a rondo_statistics_t. */
#define RONDO_STATISTICS_INIT { sizeof(rondo_statistics_t), 0, 0, { 0, 0, 0, 0 }, { { 0, 0, 0, 0 } } }

/** Writes what RONDO_STATISTICS_INIT has, under the rules of rondo_config_default(). */
RONDO_API rondo_status_t rondo_statistics_default(rondo_statistics_t *statistics, size_t size) RONDO_NOEXCEPT;

/** Writes the cost of this rank's operations so far. The numbers only grow, so take the difference of two calls. They
 * count neither failed operations nor the replays of a graph. Any thread.
 *
 * A caller waits in a collective without a stream, at a full stream, in rondo_stream_synchronize(),
 * rondo_stream_destroy() and rondo_event_synchronize(), and in rondo_stream_wait_event() without a stream.
 *
 * On a device, an operation is in flight from its call, or from the end of its predecessor if that is later. It ends
 * when Rondo has seen its end, which is a fraction of a millisecond late. */
RONDO_API rondo_status_t rondo_comm_statistics(rondo_comm_t comm, rondo_statistics_t *statistics) RONDO_NOEXCEPT;

/** The plan that the tuner would choose for an operation. Set `size`, or use the INIT macro, before the call. */
typedef struct rondo_plan_info {
  size_t size;                 /**< size of this struct in bytes, as the caller knows it */
  rondo_algorithm_t algorithm; /**< algorithm of the collective */
  rondo_protocol_t protocol;   /**< protocol of the interpreter (AUTO: the kernel needs none) */
  uint32_t channels;           /**< number of parallel channels */
  rondo_kernel_t kernel;       /**< kernel that runs the plan */
  uint64_t chunk_bytes;        /**< unit of the schedule in bytes */
} rondo_plan_info_t;

/** The initialiser of a rondo_plan_info_t. */
#define RONDO_PLAN_INFO_INIT \
  { sizeof(rondo_plan_info_t), RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0, RONDO_KERNEL_AUTO, 0 }

/** Writes what RONDO_PLAN_INFO_INIT has, under the rules of rondo_config_default(). */
RONDO_API rondo_status_t rondo_plan_info_default(rondo_plan_info_t *info, size_t size) RONDO_NOEXCEPT;

/** Writes the plan of a collective, and moves no data. It does not know the plans of the _v functions. Any thread.
 * @param collective  the collective.
 * @param count       elements, as the function of that collective takes them.
 * @param info        receives the plan. */
RONDO_API rondo_status_t rondo_comm_query_plan(rondo_comm_t comm, rondo_collective_t collective, size_t count,
                                               rondo_type_t type, rondo_plan_info_t *info) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_errors
 * @{ */
/** The description of a failure. Set `size`, or use the INIT macro, before the call. */
typedef struct rondo_error {
  size_t size;            /**< size of this struct in bytes, as the caller knows it */
  rondo_status_t status;  /**< status of the failure (RONDO_OK: none) */
  int32_t rank;           /**< rank that noticed the failure first, or -1 */
  int32_t peer;           /**< rank that the failure is about, or -1 */
  uint32_t reserved;      /**< always 0 */
  uint64_t operation;     /**< number of the operation on its communicator, from 1, or 0 for none */
  char message[1000];     /**< one line of English: what happened, where, and what to do */
} rondo_error_t;

/** The initialiser of a rondo_error_t. */
#define RONDO_ERROR_INIT { sizeof(rondo_error_t), RONDO_OK, -1, -1, 0, 0, { 0 } }

/** Writes what RONDO_ERROR_INIT has, under the rules of rondo_config_default(). */
RONDO_API rondo_status_t rondo_error_default(rondo_error_t *error, size_t size) RONDO_NOEXCEPT;

/** Writes why this thread's last call on `comm` was refused, unless a failure was reported to the thread since. If the
 * call was not refused, writes the first failure of the communicator, or of its initialisation. Any thread.
 * @param comm   NULL for the last refused or failed call of this thread on any object, such as a failed init.
 * @param error  receives the failure. */
RONDO_API rondo_status_t rondo_comm_last_error(rondo_comm_t comm, rondo_error_t *error) RONDO_NOEXCEPT;

/** Returns the message that rondo_comm_last_error() would write, or "" if nothing failed. The result is never NULL. The
 * text belongs to this thread and stays valid until its next call of this function. Any thread. */
RONDO_API const char *rondo_last_error_message(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Writes the state of everything that is enqueued, without waiting. The state is RONDO_OK, or the first failure, which
 * is final. It is RONDO_NOT_READY while the communicator is being made. The call also checks the peers, so it notices a
 * peer's death when no operation is in flight. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_async_error(rondo_comm_t comm, rondo_status_t *status) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_comm
 * @{ */
/** Waits until this rank's operations are complete. It waits for other ranks only as these operations do, and the
 * communicator stays usable.
 * @return The first failure of the communicator. */
RONDO_API rondo_status_t rondo_comm_flush(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Waits until this rank's operations are complete and every rank has called this function. Afterwards only
 * rondo_comm_destroy() is allowed. One call at a time.
 * @return RONDO_ERROR_TIMEOUT and RONDO_ERROR_REMOTE have the same meaning as for an operation. */
RONDO_API rondo_status_t rondo_comm_finalize(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Waits for this rank's operations, then frees everything. Between hosts it also waits up to 2 s until other hosts
 * have what this rank sent over TCP. The handle is invalid afterwards, whatever the outcome. Peers that wait for this
 * rank fail with RONDO_ERROR_REMOTE.
 *
 * A failed communicator is destroyed with RONDO_OK. Make no other call on `comm` at the same time. If a device's driver
 * stays busy for more than 5 s, a thread goes on to free the device's memory. */
RONDO_API rondo_status_t rondo_comm_destroy(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends all operations of the communicator with RONDO_ERROR_REVOKED, on this rank and all others, so that they can call
 * rondo_comm_shrink(). Later operations return RONDO_ERROR_REVOKED, too. A communicator that has failed keeps its
 * failure. It does not wait. Any thread, even while another call on `comm` blocks. */
RONDO_API rondo_status_t rondo_comm_revoke(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends all operations of the communicator with RONDO_ERROR_ABORTED, on this rank and all others. It does not wait, and
 * frees nothing: call rondo_comm_destroy() afterwards. Any thread, even while another call on `comm` blocks. */
RONDO_API rondo_status_t rondo_comm_abort(rondo_comm_t comm) RONDO_NOEXCEPT;
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* RONDO_COMMUNICATOR_H */
