/* SPDX-License-Identifier: Apache-2.0
 *
 * Rondo's enumerations and constants. rondo/rondo.h includes it; programs include that one. For other languages the
 * same numbers are installed as JSON (share/rondo/constants.json).
 */
#ifndef RONDO_TYPES_H
#define RONDO_TYPES_H

/* ---- status codes ---- */
/** What came of a call; each says what the caller may still do. docs/errors.md has the causes. */
typedef enum rondo_status {
  RONDO_OK = 0,        /**< Done, or enqueued where a stream was given. */
  RONDO_NOT_READY = 1, /**< Not finished yet (queries, and communicators that are being made). Ask again. */
  /** An argument is wrong; nothing was done and every object is as before. Correct the call. */
  RONDO_ERROR_INVALID_ARGUMENT = 2,
  RONDO_ERROR_INVALID_HANDLE = 3, /**< The handle was destroyed, finalized, or never made in this process. */
  RONDO_ERROR_UNSUPPORTED = 4, /**< Known to this version, but not available here; the detail says why. */
  RONDO_ERROR_OUT_OF_RESOURCES = 5, /**< Memory, descriptors or threads ran out; nothing was enqueued. */
  RONDO_ERROR_SYSTEM = 6,           /**< A call to the operating system failed; the detail has its name and errno. */
  RONDO_ERROR_AUTHENTICATION = 7, /**< The other end of a bootstrap connection did not prove to know the secret. */
  RONDO_ERROR_TIMEOUT = 8, /**< A deadline passed. The communicator has failed: only abort and destroy are left. */
  RONDO_ERROR_REMOTE = 9,  /**< Another rank died or left; otherwise the same. */
  RONDO_ERROR_MISMATCH = 10, /**< Ranks disagree on an operation; otherwise the same. */
  RONDO_ERROR_ABORTED = 11, /**< rondo_comm_abort() was called, here or on another rank. Only destroy is left. */
  /** The communicator failed in an earlier operation; nothing was enqueued. rondo_comm_last_error() has the first. */
  RONDO_ERROR_COMM_FAILED = 12,
  RONDO_ERROR_INTERNAL = 13 /**< A defect in Rondo. Please report it with the detail. */
} rondo_status_t;

/* ---- types, operations, choices ---- */
/** Element types. Integers wrap modulo 2^bits; float16, bfloat16 and the float8 types are added in float32 with one
 *  rounding (to nearest, ties to even) a step; docs/schedules.md gives the order of the steps. */
typedef enum rondo_type {
  RONDO_INT8 = 0,     /**< int8_t */
  RONDO_UINT8 = 1,    /**< uint8_t */
  RONDO_INT32 = 2,    /**< int32_t */
  RONDO_UINT32 = 3,   /**< uint32_t */
  RONDO_INT64 = 4,    /**< int64_t */
  RONDO_UINT64 = 5,   /**< uint64_t */
  RONDO_FLOAT16 = 6,  /**< IEEE 754 binary16 */
  RONDO_BFLOAT16 = 7, /**< the upper half of a float32 */
  RONDO_FLOAT32 = 8,  /**< float */
  RONDO_FLOAT64 = 9,  /**< double */
  RONDO_FLOAT8_E4M3 = 10, /**< OCP E4M3 (no infinity; overflow gives NaN) */
  RONDO_FLOAT8_E5M2 = 11  /**< OCP E5M2 (overflow gives infinity) */
} rondo_type_t;

/** Reductions. min and max give NaN where an operand is NaN, and order -0 below +0. avg is the sum divided by the
 *  number of ranks once, at the end (integers: truncated toward zero). */
typedef enum rondo_op {
  RONDO_SUM = 0,  /**< the sum */
  RONDO_PROD = 1, /**< the product */
  RONDO_MIN = 2,  /**< the least */
  RONDO_MAX = 3,  /**< the greatest */
  RONDO_AVG = 4   /**< the mean */
} rondo_op_t;
/** The collectives, for queries; one of them is the call itself elsewhere. */
typedef enum rondo_collective {
  RONDO_ALL_REDUCE = 0,     /**< rondo_all_reduce() */
  RONDO_REDUCE_SCATTER = 1, /**< rondo_reduce_scatter() */
  RONDO_ALL_GATHER = 2,     /**< rondo_all_gather() */
  RONDO_BROADCAST = 3,      /**< rondo_broadcast() */
  RONDO_REDUCE = 4,         /**< rondo_reduce() */
  RONDO_BARRIER = 5         /**< rondo_barrier() */
} rondo_collective_t;
/** How a collective is done (docs/schedules.md). AUTO: the tuner chooses. */
typedef enum rondo_algorithm {
  RONDO_ALGORITHM_AUTO = 0,             /**< the tuner chooses */
  RONDO_ALGORITHM_RING = 1,             /**< chunks go round; each rank sends the fewest bytes */
  RONDO_ALGORITHM_TREE = 2,             /**< two binary trees, each for half of the data */
  RONDO_ALGORITHM_HALVING_DOUBLING = 3, /**< exchanges with ranks at distances of powers of two */
  RONDO_ALGORITHM_ONE_SHOT = 4,         /**< every rank sends all of its data to every other */
  RONDO_ALGORITHM_TWO_SHOT = 5,         /**< every rank reduces its part of all ranks' data, then sends it to all */
  RONDO_ALGORITHM_HIERARCHICAL = 6,     /**< inside of each host, then between hosts, then inside again */
  RONDO_ALGORITHM_HIERARCHICAL_TREE = 7 /**< a tree inside of each host, and one among the hosts */
} rondo_algorithm_t;
/** How the interpreter hands data over (docs/architecture.md). AUTO: the tuner chooses; of a plan: it has none. */
typedef enum rondo_protocol {
  RONDO_PROTOCOL_AUTO = 0,   /**< the tuner chooses */
  RONDO_PROTOCOL_SIMPLE = 1, /**< a counter after the data */
  RONDO_PROTOCOL_LL = 2,     /**< a flag beside every four bytes: low latency, half the bandwidth */
  RONDO_PROTOCOL_LL128 = 3   /**< a flag beside every 120 bytes: kernels on devices alone, and only if asked for */
} rondo_protocol_t;
/** What runs a plan (docs/load-store.md). AUTO: the tuner chooses. */
typedef enum rondo_kernel {
  RONDO_KERNEL_AUTO = 0,        /**< the tuner chooses */
  RONDO_KERNEL_INTERPRETER = 1, /**< steps through the schedule of any algorithm, over connections, by a protocol */
  RONDO_KERNEL_LOAD_STORE = 2   /**< ranks load what the others stored in memory that all map: all_reduce on one host,
                                     by one_shot, two_shot and, on host memory, ring; on devices every collective */
} rondo_kernel_t;

/** What runs collectives on a CUDA device (docs/gpu.md): one kernel each, or copies with a kernel only to reduce
 *  operands. AUTO: copies where processes take turns on a device, else kernels. */
typedef enum rondo_device_executor {
  RONDO_DEVICE_EXECUTOR_AUTO = 0,   /**< Rondo chooses */
  RONDO_DEVICE_EXECUTOR_KERNEL = 1, /**< a kernel for each collective */
  RONDO_DEVICE_EXECUTOR_COPY = 2    /**< copies, and a kernel to reduce operands */
} rondo_device_executor_t;

/* ---- constants ---- */
#define RONDO_DEVICE_HOST (-1)    /**< rondo_config_t.device: buffers are host memory. */
#define RONDO_UNIQUE_ID_BYTES 128 /**< sizeof(rondo_unique_id_t) */
/** More than there are collectives: rondo_statistics_t keeps its size when one comes. */
#define RONDO_STATISTICS_COLLECTIVES 16

/** Flags of rondo_comm_register(). */
enum {
  /** Move the buffer's whole pages into memory that peers can map, in place: addresses and contents stay. No other
   *  thread may write to them during the call; a child of fork() shares them. While it lasts map nothing over them. */
  RONDO_REGISTER_MOVE_PAGES = 1
};

#endif /* RONDO_TYPES_H */
