/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header declares Rondo's enumerations and constants, and the macros that every declaration uses. Programs include
 * rondo/rondo.h, which includes this header. share/rondo/constants.json has the same numbers for other languages. */
#ifndef RONDO_TYPES_H
#define RONDO_TYPES_H

/** @defgroup rondo_library Version and names
 * A program can compare the version of its header with the version of the loaded library. Each enumerator has a short
 * name. The command line and the environment use the same names. */
/** @defgroup rondo_errors Statuses and errors
 * Every call that can fail returns a rondo_status_t. docs/errors.md lists the causes of each status. */
/** @defgroup rondo_types Types and choices
 * These enumerations list element types, reductions, and choices that a program can make in the tuner's place. */
/** @defgroup rondo_config Configuration */
/** @defgroup rondo_comm Communicators */
/** @defgroup rondo_queries Properties, statistics and plans */
/** @defgroup rondo_collectives Collectives */
/** @defgroup rondo_messages Messages and groups */
/** @defgroup rondo_windows Windows and signals */
/** @defgroup rondo_memory Memory and registrations */
/** @defgroup rondo_streams Streams and events */

/** @addtogroup rondo_library
 * @{ */
/** Marks a function that the library exports. */
#if defined(__GNUC__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

/** Marks a function as noexcept for C++ callers. No function of Rondo throws. */
#ifdef __cplusplus
#define RONDO_NOEXCEPT noexcept
#else
#define RONDO_NOEXCEPT
#endif
/** @} */

/** @addtogroup rondo_errors
 * @{ */
/** The outcome of a call. Each status says what the caller may still do; docs/errors.md lists the causes. */
typedef enum rondo_status {
  RONDO_OK = 0,        /**< The call has succeeded. If it has a stream, its operation is enqueued on the stream. */
  RONDO_NOT_READY = 1, /**< The object is not ready yet, or its work is not done yet. Call again later. */
  /** An argument is wrong. Nothing was done, and every object is as before. Correct the call. */
  RONDO_ERROR_INVALID_ARGUMENT = 2,
  RONDO_ERROR_INVALID_HANDLE = 3, /**< The handle was destroyed, finalized, or never made in this process. */
  RONDO_ERROR_UNSUPPORTED = 4, /**< This version knows the request, but it is not available here. The error says why. */
  RONDO_ERROR_OUT_OF_RESOURCES = 5, /**< Memory, descriptors or threads ran out. Refused, or the operation failed. */
  RONDO_ERROR_SYSTEM = 6, /**< A call to the operating system failed. The error has its name and errno. */
  RONDO_ERROR_AUTHENTICATION = 7, /**< The peer of a bootstrap connection did not prove that it has the secret. */
  RONDO_ERROR_TIMEOUT = 8, /**< A deadline passed. The communicator has failed: shrink, abort and destroy still work. */
  RONDO_ERROR_REMOTE = 9, /**< Another rank died or left. The communicator has failed, as after a timeout. */
  RONDO_ERROR_MISMATCH = 10, /**< Ranks disagree on an operation. The communicator has failed, as after a timeout. */
  RONDO_ERROR_ABORTED = 11, /**< This or another rank called rondo_comm_abort(). Only destroy still works. */
  /** The communicator failed in an earlier operation, and nothing was enqueued. rondo_comm_last_error() returns that
   *  first failure. */
  RONDO_ERROR_COMM_FAILED = 12,
  RONDO_ERROR_INTERNAL = 13, /**< Rondo has a defect. Please report it with the message of the error. */
  /** The call is not allowed after the calls before it, such as a group end without a begin. Nothing was enqueued. */
  RONDO_ERROR_INVALID_USAGE = 14,
  RONDO_ERROR_REVOKED = 15 /**< A rank called rondo_comm_revoke(). Shrink, flush, abort and destroy still work. */
} rondo_status_t;
/** @} */

/** @addtogroup rondo_types
 * @{ */
/** The element types. Integers wrap modulo 2^bits. Values of float16, bfloat16 and float8 are reduced in float32. Each
 *  step of the schedule rounds once, to nearest with ties to even. docs/schedules.md gives the order of the steps. */
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

/** The reductions. Minimum and maximum are NaN if an operand is NaN, and order -0 below +0. The mean divides the sum by
 *  the number of ranks once, at the end. The mean of integers is truncated toward zero. */
typedef enum rondo_op {
  RONDO_SUM = 0,  /**< the sum */
  RONDO_PROD = 1, /**< the product */
  RONDO_MIN = 2,  /**< the minimum */
  RONDO_MAX = 3,  /**< the maximum */
  RONDO_AVG = 4,  /**< the mean */
  RONDO_OP_DYNAMIC = 0x100,   /**< Values from here on are made by rondo_op_create_premul_sum(). */
  RONDO_OP_LAST = 0x7FFFFFFF  /**< No value is above this one. */
} rondo_op_t;
/** The place of the factor of rondo_op_create_premul_sum(). */
typedef enum rondo_residence {
  RONDO_RESIDENCE_HOST = 0, /**< Host memory. rondo_op_create_premul_sum() reads it once. */
  /** Memory of the communicator's device, or host memory for a communicator on host memory. Rondo reads the factor
   *  whenever an operation runs, and so in each replay of a graph. */
  RONDO_RESIDENCE_DEVICE = 1
} rondo_residence_t;
/** The collectives, and the two ends of a message. rondo_comm_query_plan() takes a collective. Statistics and errors
 *  name collectives and messages. To run an operation, call the function that is named beside it. */
typedef enum rondo_collective {
  RONDO_ALL_REDUCE = 0,     /**< rondo_all_reduce() */
  RONDO_REDUCE_SCATTER = 1, /**< rondo_reduce_scatter() */
  RONDO_ALL_GATHER = 2,     /**< rondo_all_gather() */
  RONDO_BROADCAST = 3,      /**< rondo_broadcast() */
  RONDO_REDUCE = 4,         /**< rondo_reduce() */
  RONDO_BARRIER = 5,        /**< rondo_barrier() */
  RONDO_SEND = 6,           /**< rondo_send() */
  RONDO_RECV = 7,           /**< rondo_recv() */
  RONDO_ALL_TO_ALL = 8,     /**< rondo_all_to_all(), rondo_all_to_all_v() */
  RONDO_GATHER = 9,         /**< rondo_gather(), rondo_gather_v() */
  RONDO_SCATTER = 10        /**< rondo_scatter(), rondo_scatter_v() */
} rondo_collective_t;
/** The algorithm of a collective (docs/schedules.md). */
typedef enum rondo_algorithm {
  RONDO_ALGORITHM_AUTO = 0,             /**< The tuner chooses. */
  RONDO_ALGORITHM_RING = 1,             /**< Chunks travel around a ring of ranks. Each rank sends the fewest bytes. */
  RONDO_ALGORITHM_TREE = 2,             /**< Two binary trees carry half of the data each. */
  RONDO_ALGORITHM_HALVING_DOUBLING = 3, /**< Ranks exchange at distances of powers of two. */
  RONDO_ALGORITHM_ONE_SHOT = 4,         /**< Every rank sends all of its data to every other rank. */
  RONDO_ALGORITHM_TWO_SHOT = 5,         /**< Every rank reduces one part of the data, then sends the result to all. */
  RONDO_ALGORITHM_HIERARCHICAL = 6,     /**< Steps run inside each host, between hosts, then inside each host again. */
  RONDO_ALGORITHM_HIERARCHICAL_TREE = 7 /**< Each host has a tree, and another tree joins the hosts. */
} rondo_algorithm_t;
/** The protocol by which the interpreter passes data between ranks (docs/protocols.md). */
typedef enum rondo_protocol {
  RONDO_PROTOCOL_AUTO = 0,   /**< In a request: the tuner chooses. In a plan: the kernel needs no protocol. */
  RONDO_PROTOCOL_SIMPLE = 1, /**< The sender writes data, then advances a counter. */
  RONDO_PROTOCOL_LL = 2      /**< Every four bytes of data carry a flag: low latency, half the bandwidth. */
} rondo_protocol_t;
/** The code that runs a plan (docs/load-store.md). */
typedef enum rondo_kernel {
  RONDO_KERNEL_AUTO = 0,        /**< The tuner chooses. */
  RONDO_KERNEL_INTERPRETER = 1, /**< It runs the schedule of any algorithm, and passes data by a protocol. */
  /** Each rank stores data in memory that all ranks of a host map, and loads what others stored. On host memory, this
   *  kernel runs all_reduce, by one_shot, two_shot or ring. On devices it runs every collective, but not by ring. */
  RONDO_KERNEL_LOAD_STORE = 2
} rondo_kernel_t;

/** The executor that runs collectives on a CUDA device (docs/gpu.md). */
typedef enum rondo_device_executor {
  RONDO_DEVICE_EXECUTOR_AUTO = 0,   /**< On one host, copies if processes use a device in turns; otherwise kernels. */
  RONDO_DEVICE_EXECUTOR_KERNEL = 1, /**< One kernel runs each collective. */
  RONDO_DEVICE_EXECUTOR_COPY = 2    /**< Copies move the data, and a kernel reduces operands. */
} rondo_device_executor_t;

#define RONDO_DEVICE_HOST (-1)    /**< The value of rondo_config_t.device for buffers in host memory. */
#define RONDO_NO_COLOR (-1)       /**< The color of a rank that joins no part of rondo_comm_split(). */
#define RONDO_UNIQUE_ID_BYTES 128 /**< The size of rondo_unique_id_t. */
/** The number of entries of rondo_statistics_t.collectives. It leaves room for collectives of later versions. */
#define RONDO_STATISTICS_COLLECTIVES 16
/** @} */

/** @addtogroup rondo_memory
 * @{ */
/** The flags of rondo_comm_register(). */
enum {
  /** Moves the whole pages of the buffer into memory that peers can map. Their addresses and contents do not change. No
   *  other thread may write to the pages during the call. A child of fork() shares the moved pages. Do not map other
   *  memory over them while the registration lasts. */
  RONDO_REGISTER_MOVE_PAGES = 1
};
/** @} */

/** @addtogroup rondo_comm
 * @{ */
/** The flags of rondo_comm_shrink(). */
enum {
  RONDO_SHRINK_ABORT = 1 /**< Ends the operations of the parent first, on all ranks, as rondo_comm_revoke() does. */
};
/** The flags of rondo_comm_suspend(). */
enum {
  RONDO_SUSPEND_MEMORY = 1 /**< Gives device memory back. */
};
/** @} */

#endif /* RONDO_TYPES_H */
