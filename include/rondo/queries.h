/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header declares queries: the properties, statistics and plans of a communicator. Programs include rondo/rondo.h,
 * which includes this header. The rules that hold for every function stand in rondo/rondo.h. */
#ifndef RONDO_QUERIES_H
#define RONDO_QUERIES_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/communicator.h"
#include "rondo/types.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  int32_t mapped_buffers;     /**< 1: peers can map memory of rondo_mem_alloc() and of RONDO_REGISTER_MOVE_PAGES */
  int32_t cross_memory;       /**< 1: peers can read registered buffers by cross-memory attach */
  uint64_t shared_bytes;      /**< shared memory of the communicator on this host, summed over its ranks */
  rondo_device_executor_t device_executor; /**< executor on the device (AUTO: the buffers are host memory) */
  uint32_t reserved;          /**< always 0 */
  uint64_t group_hash;        /**< number of this communicator: equal on its ranks, different for other communicators */
} rondo_comm_properties_t;

/** The initialiser of a rondo_comm_properties_t. */
#define RONDO_COMM_PROPERTIES_INIT \
  { sizeof(rondo_comm_properties_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, RONDO_DEVICE_EXECUTOR_AUTO, 0, 0 }

/** Writes the values of RONDO_COMM_PROPERTIES_INIT. The rules of rondo_config_default() apply. */
RONDO_API rondo_status_t rondo_comm_properties_default(rondo_comm_properties_t *properties, size_t size)
    RONDO_NOEXCEPT;

/** Writes the properties of the communicator. Any thread. */
RONDO_API rondo_status_t rondo_comm_get_properties(rondo_comm_t comm, rondo_comm_properties_t *properties)
    RONDO_NOEXCEPT;

/** Writes the size of the communicator's memory on this host, summed over its ranks on this host. Each pointer may be
 * NULL. Any thread.
 * @param reserved_bytes  receives the bytes that are mapped.
 * @param used_bytes      receives the mapped bytes whose pages were touched so far. */
RONDO_API rondo_status_t rondo_comm_memory(rondo_comm_t comm, uint64_t *reserved_bytes, uint64_t *used_bytes)
    RONDO_NOEXCEPT;

/** The sums over all operations of one kind on one rank. */
typedef struct rondo_operation_statistics {
  uint64_t operations;   /**< number of complete operations */
  uint64_t bytes;        /**< bytes of whole vectors as in rondo perf: all blocks of an all_gather, 0 for a barrier */
  uint64_t in_flight_ns; /**< sum of the times from an operation's start on this rank to its end, with all waits */
  uint64_t exposed_ns;   /**< part of in_flight_ns in which a caller of this rank waited; the rest was overlapped */
} rondo_operation_statistics_t;

/** The work of a communicator on this rank since its creation. Set `size`, or use the INIT macro, before the call. */
typedef struct rondo_statistics {
  size_t size;        /**< size of this struct in bytes, as the caller knows it */
  int32_t waits_seen; /**< 1 on host memory. 0 on a device: Rondo does not see callers wait, so ignore exposed_ns. */
  uint32_t reserved;  /**< always 0 */
  rondo_operation_statistics_t total; /**< sum over all collectives */
  rondo_operation_statistics_t collectives[RONDO_STATISTICS_COLLECTIVES]; /**< sums indexed by rondo_collective_t */
} rondo_statistics_t;
/** The initialiser of a rondo_statistics_t. */
#define RONDO_STATISTICS_INIT { sizeof(rondo_statistics_t), 0, 0, { 0, 0, 0, 0 }, { { 0, 0, 0, 0 } } }

/** Writes the values of RONDO_STATISTICS_INIT. The rules of rondo_config_default() apply. */
RONDO_API rondo_status_t rondo_statistics_default(rondo_statistics_t *statistics, size_t size) RONDO_NOEXCEPT;

/** Writes the statistics of this rank's operations so far. The numbers only grow, so take the difference of two calls.
 * Failed operations and replays of a captured graph are not counted. Any thread.
 *
 * exposed_ns grows while a caller waits. These calls wait:
 * - a collective without a stream, or on a full stream;
 * - rondo_stream_synchronize(), rondo_stream_destroy() and rondo_event_synchronize();
 * - rondo_stream_wait_event() without a stream.
 *
 * On a device, an operation counts as started at its call, or at the end of its predecessor if that is later. Rondo
 * notices the end of an operation on a device a fraction of a millisecond late. */
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

/** Writes the values of RONDO_PLAN_INFO_INIT. The rules of rondo_config_default() apply. */
RONDO_API rondo_status_t rondo_plan_info_default(rondo_plan_info_t *info, size_t size) RONDO_NOEXCEPT;

/** Writes the plan of a collective, and moves no data. It does not cover the _v functions. Any thread.
 * @param collective  the collective.
 * @param count       the `count` argument of that collective's function, in elements.
 * @param info        receives the plan. */
RONDO_API rondo_status_t rondo_comm_query_plan(rondo_comm_t comm, rondo_collective_t collective, size_t count,
                                               rondo_type_t type, rondo_plan_info_t *info) RONDO_NOEXCEPT;
/** @} */

/** @addtogroup rondo_messages
 * @{ */
/** Writes how many messages of rank `peer` this rank can receive without waiting for the peer's call. These are the
 * sends that the peer has begun, minus the receives that this rank has enqueued. The call receives nothing. If the peer
 * is on another host, the call waits for that host's answer. Any thread.
 * @param peer   rank that sends.
 * @param count  receives the number of messages.
 * @return RONDO_ERROR_REMOTE: The peer has ended, and either no message from it is left or it was on another host.
 *         RONDO_ERROR_UNSUPPORTED: The communicator is on a device, or carries no messages. */
RONDO_API rondo_status_t rondo_probe(int peer, rondo_comm_t comm, uint64_t *count) RONDO_NOEXCEPT;
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* RONDO_QUERIES_H */
