/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header declares handles, configuration, the life of a communicator, and errors. Programs include
 * rondo/rondo.h, which includes this header. The rules that hold for every function stand in rondo/rondo.h. */
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
/** Returns a short English name of `status`, such as "timeout", in static storage. For an unknown value it returns a
 *  name, too, never NULL. Any thread. */
RONDO_API const char *rondo_status_string(rondo_status_t status) RONDO_NOEXCEPT;
/** Writes the version of the loaded library. Each pointer may be NULL. Any thread. */
RONDO_API void rondo_version(int *major, int *minor, int *patch) RONDO_NOEXCEPT;
/** Returns the size of one element in bytes, or 0 for an unknown type. Any thread. */
RONDO_API size_t rondo_type_size(rondo_type_t type) RONDO_NOEXCEPT;
/** Returns the name of an element type, such as "float32", in static storage. The command line and the environment use
 *  the same names. For an unknown value it returns NULL, so that a loop from 0 can list all values. Any thread. */
RONDO_API const char *rondo_type_string(rondo_type_t type) RONDO_NOEXCEPT;
/** Returns the name of a reduction, such as "sum", as rondo_type_string() does. The name of every value from
 *  RONDO_OP_DYNAMIC on is "premul_sum". Any thread. */
RONDO_API const char *rondo_op_string(rondo_op_t op) RONDO_NOEXCEPT;
/** Returns the name of a collective, such as "all_reduce", in the same way as rondo_type_string(). Any thread. */
RONDO_API const char *rondo_collective_string(rondo_collective_t collective) RONDO_NOEXCEPT;
/** Returns the name of an algorithm, such as "ring", in the same way as rondo_type_string(). Any thread. */
RONDO_API const char *rondo_algorithm_string(rondo_algorithm_t algorithm) RONDO_NOEXCEPT;
/** Returns the name of a protocol, such as "ll", in the same way as rondo_type_string(). Any thread. */
RONDO_API const char *rondo_protocol_string(rondo_protocol_t protocol) RONDO_NOEXCEPT;
/** Returns the name of a kernel, such as "interpreter", in the same way as rondo_type_string(). Any thread. */
RONDO_API const char *rondo_kernel_string(rondo_kernel_t kernel) RONDO_NOEXCEPT;
/** Returns the name of an executor, such as "kernel", in the same way as rondo_type_string(). Any thread. */
RONDO_API const char *rondo_device_executor_string(rondo_device_executor_t executor) RONDO_NOEXCEPT;
/** @} */

/** @ingroup rondo_comm
 *  The handle by which one rank uses a communicator. It is opaque. Calls refuse a destroyed handle, and never
 *  dereference it. */
typedef struct rondo_comm *rondo_comm_t;

/** @ingroup rondo_streams
 *  A queue of operations that run in order. Which queue it is depends on the device of the communicator:
 *  - Host memory: a stream of rondo_stream_create(). With NULL, a call returns when its operation is complete.
 *  - CUDA device: a cudaStream_t, which may be under capture. NULL is CUDA's default stream. A call returns when its
 *    operation is enqueued. */
typedef void *rondo_stream_t;

/** @ingroup rondo_streams
 *  The handle of an event, which marks a point in a stream. It is opaque. */
typedef struct rondo_event *rondo_event_t;
/** @ingroup rondo_memory
 *  The handle of a buffer's registration. It is opaque. */
typedef struct rondo_registration *rondo_registration_t;

/** @addtogroup rondo_config
 * @{ */
/** The configuration of a communicator. Initialise the struct by RONDO_CONFIG_INIT or rondo_config_default(), then
 *  change fields as needed. Rondo does not use the struct after the function that takes it has returned. Later versions
 *  only append fields, and `size` says which fields the caller knows. An environment variable, named beside the field,
 *  replaces the default value of that field (docs/environment.md). */
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
  /** The most bytes that the communicator takes (0: no limit). On a host, this is for all its ranks together; on a
   *  device, for each rank. To stay below, Rondo makes smaller slots. RONDO_MAX_MEMORY_BYTES. */
  uint64_t max_memory_bytes;
} rondo_config_t;

/** The initialiser of a rondo_config_t: the defaults. */
#define RONDO_CONFIG_INIT                                                                                             \
  { sizeof(rondo_config_t), RONDO_DEVICE_HOST, 0, 0, RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 0,                   \
    RONDO_KERNEL_AUTO, 0, NULL, RONDO_DEVICE_EXECUTOR_AUTO, 0, 0, 0, 0 }

/** Writes the values of RONDO_CONFIG_INIT, for languages without C macros. Any thread.
 * @param config  receives the defaults.
 * @param size    size of the caller's struct in bytes, which is written to its field `size`.
 * @return RONDO_ERROR_INVALID_ARGUMENT if `config` is NULL, or `size` is less than in the first version. */
RONDO_API rondo_status_t rondo_config_default(rondo_config_t *config, size_t size) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_comm
 * A communicator is a group of ranks. Its ranks make it together, use it, and destroy it.
 * @{ */
/** The name of a communicator that is yet to be made. It contains a secret, and the address at which the process of
 * rank 0 listens. Give it only to members of the group, and never on a command line. */
typedef struct rondo_unique_id {
  char internal[RONDO_UNIQUE_ID_BYTES]; /**< Opaque content: copy all of it. */
} rondo_unique_id_t;

/** Makes an id, and starts to listen for the group in this process. The process must live until the communicator is
 * made. One id makes one communicator. To discard an unused id, call rondo_unique_id_free() in this process. Children
 * of fork() may use the id if this process has called nothing else of Rondo before the fork. Any thread.
 * @param id      receives the id.
 * @param config  NULL for the defaults. This call reads only its network_interface. */
RONDO_API rondo_status_t rondo_get_unique_id(rondo_unique_id_t *id, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Discards an id that this process made and did not use. The listener, its thread and its descriptors end, and ranks
 *  that wait for the group fail with RONDO_ERROR_REMOTE. After rondo_comm_init() with the id, or on an id of another
 *  process, the call has no effect. Any thread.
 * @return RONDO_ERROR_INVALID_ARGUMENT if `id` is NULL, or was not written by rondo_get_unique_id(). */
RONDO_API rondo_status_t rondo_unique_id_free(const rondo_unique_id_t *id) RONDO_NOEXCEPT;

/** Makes the communicator of `id`. The call blocks until all `size` ranks have called it, or init_timeout_ms has
 * passed. Ranks may be processes, threads of one process, or both. Each thread makes this call for its own rank. Any
 * thread.
 *
 * With config->nonblocking the call returns at once, and a thread makes the communicator. Until the communicator is
 * made, other calls with the handle return RONDO_NOT_READY. If that thread fails, they return its failure
 * (docs/bootstrap.md). rondo_comm_abort() and rondo_comm_destroy() end the attempt.
 * @param comm    receives the handle, and is unchanged on failure. End it with rondo_comm_destroy().
 * @param id      id from rondo_get_unique_id().
 * @param rank    number of this rank, 0 to size - 1. Each rank joins once.
 * @param size    number of ranks, 1 to 4,096.
 * @param config  NULL for the defaults. All ranks must give equal values of the fields algorithm to chunk_bytes,
 *                device_executor, max_ctas and max_memory_bytes.
 * @return On every rank, the failure of the first rank that failed. rondo_comm_last_error(NULL, ...) has its message.
 * - RONDO_ERROR_TIMEOUT: Some ranks did not join in time. The message names them.
 * - RONDO_ERROR_REMOTE: A rank ended, or the process that made the id ended.
 * - RONDO_ERROR_MISMATCH: Ranks differ in size, version or configuration, or a rank joined twice.
 * - Any other status: The meaning is the same as for every call (rondo_status_t). */
RONDO_API rondo_status_t rondo_comm_init(rondo_comm_t *comm, const rondo_unique_id_t *id, int rank, int size,
                                         const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator from several ids, for programs that make one id per group of ranks. One listener serves all
 * ranks, so the call behaves like rondo_comm_init() with the first id. The call also discards the other ids that this
 * process made, as rondo_unique_id_free() does. If an argument is refused, no id is discarded. Any thread.
 * @param ids       ids from rondo_get_unique_id(). All ranks pass the same ids in the same order.
 * @param id_count  1 or more.
 * @return RONDO_ERROR_INVALID_ARGUMENT if one of the ids was not written by rondo_get_unique_id(). */
RONDO_API rondo_status_t rondo_comm_init_ids(rondo_comm_t *comm, const rondo_unique_id_t *ids, int id_count, int rank,
                                             int size, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator of all ranks of the job that the environment describes. It reads the environment variables of
 * `rondo run`, torchrun, Open MPI, MPICH and Slurm. Without a launcher, this process is the only rank. A program may
 * call it repeatedly, in the same order on every rank. Apart from that, it behaves like rondo_comm_init().
 *
 * One call at a time per process. If the previous communicator was nonblocking, it must be ready or destroyed first. */
RONDO_API rondo_status_t rondo_comm_init_env(rondo_comm_t *comm, const rondo_config_t *config) RONDO_NOEXCEPT;

/** Makes a communicator whose ranks are all in this process. One call makes all of them. Drive each rank from its own
 * thread, or with streams: a collective without a stream blocks until the other ranks call it. Any thread.
 * @param comms    receives `size` handles. comms[r] is the handle of rank r.
 * @param size     number of ranks, 1 to 4,096.
 * @param configs  NULL for the defaults, or `size` configurations. None of them may be nonblocking. */
RONDO_API rondo_status_t rondo_comm_init_all(rondo_comm_t *comms, int size,
                                             const rondo_config_t *configs) RONDO_NOEXCEPT;

/** Splits a communicator into parts. All ranks that give the same color form one part, a new communicator. In a part,
 * ranks are numbered in the order of their keys. Ranks with equal keys keep their order. The call is a collective of
 * `comm`: every rank calls it, in the same order among its other collectives. It is refused in a group.
 *
 * A part is an independent communicator, and needs its own rondo_comm_destroy(). It inherits no registration. If a part
 * cannot be made, `comm` remains usable. If a rank does not call, or calls another collective, `comm` fails as in every
 * collective.
 *
 * With config->nonblocking the call returns at once, and a thread makes the part, as in rondo_comm_init(). Later
 * operations of this rank on `comm` wait until all ranks have called rondo_comm_split().
 * @param color   0 or more, or RONDO_NO_COLOR for no part.
 * @param key     any number.
 * @param config  NULL for the configuration of `comm`. The ranks of a part must agree on the fields that are listed at
 *                rondo_comm_init().
 * @param part    receives the handle, or NULL with RONDO_NO_COLOR. It is unchanged on failure.
 * @return The statuses of a collective and of rondo_comm_init(). A rondo_error_t numbers the ranks as `comm` does.
 * - RONDO_ERROR_REMOTE: A rank died, or ended its communicator.
 * - RONDO_ERROR_MISMATCH: The ranks of a part differ in configuration, or a rank called another collective.
 * - RONDO_ERROR_INVALID_USAGE: This thread has begun a group. */
RONDO_API rondo_status_t rondo_comm_split(rondo_comm_t comm, int color, int key, const rondo_config_t *config,
                                          rondo_comm_t *part) RONDO_NOEXCEPT;

/** Makes a new communicator of some ranks of `comm`, such as the ranks that are alive after a failure
 * (docs/recovery.md). Every rank that is not excluded is a member and makes this call, with the same excluded ranks.
 * Excluded ranks do not call. The members keep their order. The call works on a failed or revoked `comm`, too. It is
 * not a collective: without RONDO_SHRINK_ABORT, operations of `comm` continue. It is refused in a group.
 *
 * If a member ends during the call, all other members fail with RONDO_ERROR_REMOTE. They call again, and exclude that
 * rank, too. If all ranks are on one host, either all members get the communicator, or none. `comm` still needs its own
 * rondo_comm_destroy(). The new communicator inherits no registration.
 *
 * With config->nonblocking the call returns at once, and a thread makes the communicator, as in rondo_comm_init().
 * @param excluded        excluded_count ranks of `comm`, in any order. May be NULL if the count is 0.
 * @param excluded_count  0 or more.
 * @param flags           0 or RONDO_SHRINK_ABORT.
 * @param config          NULL for the configuration of `comm`.
 * @param rest            receives the handle, and is unchanged on failure.
 * @return The statuses of rondo_comm_init(). rondo_comm_last_error(NULL, ...) numbers the ranks as `comm` does.
 * - RONDO_ERROR_REMOTE: A member died, or ended its communicator.
 * - RONDO_ERROR_MISMATCH: Members excluded different ranks, and did not agree within 2 s. The error has both lists.
 * - RONDO_ERROR_TIMEOUT: A member did not call within timeout_ms, or did not get ready within init_timeout_ms.
 * - RONDO_ERROR_INVALID_ARGUMENT: An excluded rank does not exist, or is this rank, or a flag is unknown.
 * - RONDO_ERROR_INVALID_USAGE: This thread has begun a group, or an earlier shrink or grow of `comm` is still
 *   running. */
RONDO_API rondo_status_t rondo_comm_shrink(rondo_comm_t comm, const int *excluded, int excluded_count, unsigned flags,
                                           const rondo_config_t *config, rondo_comm_t *rest) RONDO_NOEXCEPT;

/** Makes an id by which new ranks join the ranks of `comm` in one rondo_comm_grow(), and starts to listen for them in
 *  this process. One rank calls it, and gives the id to the new ranks. The id contains a secret, as every unique id
 *  does. To discard an unused id, call rondo_unique_id_free() in this process, or destroy `comm`. Any thread.
 * @param id  receives the id.
 * @return RONDO_ERROR_INVALID_USAGE: An earlier id of this rank is not used yet. */
RONDO_API rondo_status_t rondo_comm_grow_id(rondo_comm_t comm, rondo_unique_id_t *id) RONDO_NOEXCEPT;

/** Makes a new communicator of all ranks of `comm` and of new ranks (docs/recovery.md). The old ranks keep their
 * numbers. A new rank gives NULL for `comm`, and a free number as `rank`; on it, the call works as rondo_comm_init().
 * Exactly one old rank must have called rondo_comm_grow_id(). The call is not a collective: operations of `comm`
 * continue, and no failure of the call affects `comm`. It is refused in a group.
 *
 * If all old ranks are on one host, the call fails on all of them, or on none. After a failure, the id is used up: make
 * a new one. `comm` still needs its own rondo_comm_destroy(). The new communicator inherits no registration.
 *
 * With config->nonblocking the call returns at once, and a thread makes the communicator, as in rondo_comm_init().
 * @param comm    the communicator that grows, or NULL on a new rank.
 * @param id      id from rondo_comm_grow_id(). Old ranks may give NULL.
 * @param rank    number of a new rank, from the size of `comm` to `size` - 1; -1 on an old rank.
 * @param size    number of old and new ranks together, up to 4,096.
 * @param config  NULL for the configuration of `comm`; on a new rank, for the defaults. The ranks must agree on the
 *                fields that are listed at rondo_comm_init().
 * @param grown   receives the handle, and is unchanged on failure.
 * @return The statuses of rondo_comm_init().
 * - RONDO_ERROR_REMOTE: A rank died, or ended its communicator.
 * - RONDO_ERROR_MISMATCH: Ranks differ in size, id or configuration, or two ranks have one number. The error names
 *   them. Old ranks report a difference in size after 2 s.
 * - RONDO_ERROR_TIMEOUT: An old rank did not call within timeout_ms, or a new rank did not come within init_timeout_ms.
 *   The error names the rank.
 * - RONDO_ERROR_INVALID_ARGUMENT: `size` is not larger than the size of `comm`, or `rank` or `id` is wrong.
 * - RONDO_ERROR_INVALID_USAGE: No old rank has an unused id, this thread has begun a group, or an earlier shrink or
 *   grow of `comm` is still running. */
RONDO_API rondo_status_t rondo_comm_grow(rondo_comm_t comm, const rondo_unique_id_t *id, int rank, int size,
                                         const rondo_config_t *config, rondo_comm_t *grown) RONDO_NOEXCEPT;

/** Gives back the device memory of `comm` until rondo_comm_resume(). The call is a collective: every rank calls it, in
 * the same order among its other collectives. It is refused in a group. Make no other call on `comm` at the same time.
 *
 * The call waits for all operations of `comm`, and copies the content of the memory to the host. The memory is free
 * when the call has ended on all ranks. Addresses stay the same, so graphs that were captured before can be replayed
 * after rondo_comm_resume(), but not in between. With config->nonblocking of `comm`, this call and rondo_comm_resume()
 * return at once, and a thread does their work. Until it ends, rondo_comm_get_async_error() writes RONDO_NOT_READY.
 *
 * Until rondo_comm_resume(), calls that communicate or register return RONDO_ERROR_INVALID_USAGE. Queries, shrink,
 * grow, flush, revoke, abort and destroy work. While that thread works, all but the last three return RONDO_NOT_READY.
 *
 * rondo_comm_device_memory() says how much is given back. On host memory that is nothing. If ranks share memory by CUDA
 * IPC, as ranks of one process usually do, they give back only the workspaces of integer means and premul sums.
 * @param flags  RONDO_SUSPEND_MEMORY.
 * @return The statuses of a collective. After such a failure, `comm` has failed.
 * - RONDO_ERROR_INVALID_USAGE: `comm` is suspended already, or this thread has begun a group.
 * - RONDO_ERROR_INVALID_ARGUMENT: `flags` has another value. */
RONDO_API rondo_status_t rondo_comm_suspend(rondo_comm_t comm, unsigned flags) RONDO_NOEXCEPT;

/** Allocates the memory of a suspended communicator again. Every rank calls it. It is refused in a group. When it
 * has ended, `comm` can be used as before rondo_comm_suspend(): registrations, operations and graphs stay valid.
 * @return After a failure other than RONDO_NOT_READY and RONDO_ERROR_INVALID_USAGE, `comm` has failed on all ranks.
 * - RONDO_ERROR_OUT_OF_RESOURCES: A device has too little free memory.
 * - RONDO_ERROR_REMOTE: A rank died, or ended its communicator.
 * - RONDO_ERROR_TIMEOUT: A rank did not call within timeout_ms. The error names it.
 * - RONDO_ERROR_INVALID_USAGE: `comm` is not suspended, or this thread has begun a group. */
RONDO_API rondo_status_t rondo_comm_resume(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Writes how many bytes of its device's memory this rank uses for `comm`. The code of kernels is not counted. On host
 * memory, all values are 0. Each pointer may be NULL. Any thread.
 * @param suspendable_bytes  receives the bytes that rondo_comm_suspend() gives back. While the communicator is
 *                           suspended, they are the bytes that rondo_comm_resume() allocates.
 * @param persistent_bytes   receives the bytes that stay.
 * @param suspended          receives 1 from rondo_comm_suspend() until rondo_comm_resume(), otherwise 0. */
RONDO_API rondo_status_t rondo_comm_device_memory(rondo_comm_t comm, uint64_t *suspendable_bytes,
                                                  uint64_t *persistent_bytes, int *suspended) RONDO_NOEXCEPT;

/** Writes the number of this rank. Any thread. */
RONDO_API rondo_status_t rondo_comm_rank(rondo_comm_t comm, int *rank) RONDO_NOEXCEPT;
/** Writes the number of ranks. Any thread. */
RONDO_API rondo_status_t rondo_comm_size(rondo_comm_t comm, int *size) RONDO_NOEXCEPT;
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

/** Writes the values of RONDO_ERROR_INIT. The rules of rondo_config_default() apply. */
RONDO_API rondo_status_t rondo_error_default(rondo_error_t *error, size_t size) RONDO_NOEXCEPT;

/** Writes why this thread's last call on `comm` was refused. If the call was not refused, or a failure was reported to
 * this thread since, the function writes the first failure of the communicator or of its initialisation. Any thread.
 * @param comm   communicator, or NULL for this thread's last refused or failed call on any object. A failed
 *               rondo_comm_init() leaves no handle, so pass NULL.
 * @param error  receives the failure. */
RONDO_API rondo_status_t rondo_comm_last_error(rondo_comm_t comm, rondo_error_t *error) RONDO_NOEXCEPT;

/** Returns the message that rondo_comm_last_error() would write, or "" if nothing failed. The result is never NULL. The
 * text is valid until this thread calls this function again. Any thread. */
RONDO_API const char *rondo_last_error_message(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Writes the state of all enqueued operations, without waiting. The state is RONDO_OK, or the first failure, which
 * never changes. While the communicator is being made, suspended or resumed, it is RONDO_NOT_READY. The call also
 * notices the death of an idle peer, except by exit() between operations. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_async_error(rondo_comm_t comm, rondo_status_t *status) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_comm
 * @{ */
/** Waits until this rank's operations are complete. Other ranks need not call it. The communicator remains usable.
 * @return The first failure of the communicator. */
RONDO_API rondo_status_t rondo_comm_flush(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Waits until this rank's operations are complete and every rank has called this function. Afterwards only
 * rondo_comm_destroy() is allowed. One call at a time.
 * @return RONDO_ERROR_TIMEOUT and RONDO_ERROR_REMOTE have the same meaning as for a collective. */
RONDO_API rondo_status_t rondo_comm_finalize(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Waits for this rank's operations, then frees all resources. Between hosts it also waits, for up to 2 s, until the
 * other hosts have received what this rank sent over TCP. The handle is invalid afterwards, whether the call succeeds
 * or fails. Peers that wait for this rank fail with RONDO_ERROR_REMOTE.
 *
 * Destroying a failed communicator returns RONDO_OK. Make no other call on `comm` at the same time. If a device's
 * driver stays busy for more than 5 s, the call returns, and a thread frees the device's memory later. */
RONDO_API rondo_status_t rondo_comm_destroy(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends all operations of the communicator with RONDO_ERROR_REVOKED, on this rank and all others, so that the ranks can
 * call rondo_comm_shrink(). Later operations return RONDO_ERROR_REVOKED, too. A communicator that has failed keeps its
 * failure. The call does not wait. Any thread, even while another call on `comm` blocks. */
RONDO_API rondo_status_t rondo_comm_revoke(rondo_comm_t comm) RONDO_NOEXCEPT;

/** Ends all operations of the communicator with RONDO_ERROR_ABORTED, on this rank and all others. If nothing is in
 * flight on this rank, they end as soon as one needs this rank. The call frees nothing: call rondo_comm_destroy()
 * afterwards. It waits at most 2 s, for data on the way to other hosts. Any thread, even while another call blocks. */
RONDO_API rondo_status_t rondo_comm_abort(rondo_comm_t comm) RONDO_NOEXCEPT;
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* RONDO_COMMUNICATOR_H */
