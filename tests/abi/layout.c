/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the public structs as programs in the field were compiled with it (64-bit). A line here that no longer
 * compiles is an ABI break: append fields instead, and add their lines.
 */
#include <stdio.h>

#include "rondo/rondo.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define FIELD(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)
#define VALUE(name, value) _Static_assert((name) == (value), #name)

SIZE(rondo_config_t, 64);
FIELD(rondo_config_t, size, 0);
FIELD(rondo_config_t, device, 8);
FIELD(rondo_config_t, init_timeout_ms, 12);
FIELD(rondo_config_t, timeout_ms, 16);
FIELD(rondo_config_t, algorithm, 20);
FIELD(rondo_config_t, protocol, 24);
FIELD(rondo_config_t, channels, 28);
FIELD(rondo_config_t, reserved, 32);
FIELD(rondo_config_t, chunk_bytes, 40);
FIELD(rondo_config_t, network_interface, 48);
FIELD(rondo_config_t, device_executor, 56);
FIELD(rondo_config_t, max_ctas, 60);

SIZE(rondo_unique_id_t, 128);

SIZE(rondo_comm_properties_t, 56);
FIELD(rondo_comm_properties_t, size, 0);
FIELD(rondo_comm_properties_t, rank, 8);
FIELD(rondo_comm_properties_t, rank_count, 12);
FIELD(rondo_comm_properties_t, device, 16);
FIELD(rondo_comm_properties_t, local_rank_count, 20);
FIELD(rondo_comm_properties_t, core_count, 24);
FIELD(rondo_comm_properties_t, oversubscribed, 28);
FIELD(rondo_comm_properties_t, mapped_buffers, 32);
FIELD(rondo_comm_properties_t, cross_memory, 36);
FIELD(rondo_comm_properties_t, shared_bytes, 40);
FIELD(rondo_comm_properties_t, device_executor, 48);
FIELD(rondo_comm_properties_t, reserved, 52);

SIZE(rondo_plan_info_t, 32);
FIELD(rondo_plan_info_t, size, 0);
FIELD(rondo_plan_info_t, algorithm, 8);
FIELD(rondo_plan_info_t, protocol, 12);
FIELD(rondo_plan_info_t, channels, 16);
FIELD(rondo_plan_info_t, reserved, 20);
FIELD(rondo_plan_info_t, chunk_bytes, 24);

SIZE(rondo_error_t, 1032);
FIELD(rondo_error_t, size, 0);
FIELD(rondo_error_t, status, 8);
FIELD(rondo_error_t, rank, 12);
FIELD(rondo_error_t, peer, 16);
FIELD(rondo_error_t, reserved, 20);
FIELD(rondo_error_t, operation, 24);
FIELD(rondo_error_t, message, 32);

SIZE(rondo_status_t, 4);
SIZE(rondo_type_t, 4);
SIZE(rondo_op_t, 4);
SIZE(rondo_collective_t, 4);
SIZE(rondo_algorithm_t, 4);
SIZE(rondo_protocol_t, 4);
SIZE(rondo_device_executor_t, 4);
SIZE(rondo_comm_t, 8);
SIZE(rondo_stream_t, 8);

VALUE(RONDO_OK, 0);
VALUE(RONDO_NOT_READY, 1);
VALUE(RONDO_ERROR_INVALID_ARGUMENT, 2);
VALUE(RONDO_ERROR_INVALID_HANDLE, 3);
VALUE(RONDO_ERROR_UNSUPPORTED, 4);
VALUE(RONDO_ERROR_OUT_OF_RESOURCES, 5);
VALUE(RONDO_ERROR_SYSTEM, 6);
VALUE(RONDO_ERROR_AUTHENTICATION, 7);
VALUE(RONDO_ERROR_TIMEOUT, 8);
VALUE(RONDO_ERROR_REMOTE, 9);
VALUE(RONDO_ERROR_MISMATCH, 10);
VALUE(RONDO_ERROR_ABORTED, 11);
VALUE(RONDO_ERROR_COMM_FAILED, 12);
VALUE(RONDO_ERROR_INTERNAL, 13);

VALUE(RONDO_INT8, 0);
VALUE(RONDO_UINT8, 1);
VALUE(RONDO_INT32, 2);
VALUE(RONDO_UINT32, 3);
VALUE(RONDO_INT64, 4);
VALUE(RONDO_UINT64, 5);
VALUE(RONDO_FLOAT16, 6);
VALUE(RONDO_BFLOAT16, 7);
VALUE(RONDO_FLOAT32, 8);
VALUE(RONDO_FLOAT64, 9);
VALUE(RONDO_FLOAT8_E4M3, 10);
VALUE(RONDO_FLOAT8_E5M2, 11);
VALUE(RONDO_SUM, 0);
VALUE(RONDO_PROD, 1);
VALUE(RONDO_MIN, 2);
VALUE(RONDO_MAX, 3);
VALUE(RONDO_AVG, 4);
VALUE(RONDO_ALL_REDUCE, 0);
VALUE(RONDO_REDUCE_SCATTER, 1);
VALUE(RONDO_ALL_GATHER, 2);
VALUE(RONDO_BROADCAST, 3);
VALUE(RONDO_REDUCE, 4);
VALUE(RONDO_BARRIER, 5);
VALUE(RONDO_ALGORITHM_AUTO, 0);
VALUE(RONDO_ALGORITHM_RING, 1);
VALUE(RONDO_ALGORITHM_TREE, 2);
VALUE(RONDO_ALGORITHM_HALVING_DOUBLING, 3);
VALUE(RONDO_ALGORITHM_ONE_SHOT, 4);
VALUE(RONDO_ALGORITHM_TWO_SHOT, 5);
VALUE(RONDO_ALGORITHM_HIERARCHICAL, 6);
VALUE(RONDO_PROTOCOL_AUTO, 0);
VALUE(RONDO_PROTOCOL_SIMPLE, 1);
VALUE(RONDO_PROTOCOL_LL, 2);
VALUE(RONDO_PROTOCOL_DIRECT, 3);
VALUE(RONDO_PROTOCOL_LL128, 4);
VALUE(RONDO_DEVICE_EXECUTOR_AUTO, 0);
VALUE(RONDO_DEVICE_EXECUTOR_KERNEL, 1);
VALUE(RONDO_DEVICE_EXECUTOR_COPY, 2);
VALUE(RONDO_DEVICE_HOST, -1);
VALUE(RONDO_REGISTER_MOVE_PAGES, 1);

/* The library was built with the same header, and the defaults of the macro and of the function are the same. */
int main(void) {
  int major = -1, minor = -1, patch = -1;
  rondo_config_t expected = RONDO_CONFIG_INIT, given;
  rondo_version(&major, &minor, &patch);
  if (major != RONDO_VERSION_MAJOR || minor != RONDO_VERSION_MINOR || patch != RONDO_VERSION_PATCH) {
    fprintf(stderr, "the library says %d.%d.%d\n", major, minor, patch);
    return 1;
  }
  if (rondo_config_default(&given) != RONDO_OK || given.size != expected.size || given.device != expected.device ||
      given.init_timeout_ms != expected.init_timeout_ms || given.timeout_ms != expected.timeout_ms ||
      given.algorithm != expected.algorithm || given.protocol != expected.protocol ||
      given.channels != expected.channels || given.reserved != expected.reserved ||
      given.chunk_bytes != expected.chunk_bytes || given.network_interface != expected.network_interface ||
      given.device_executor != expected.device_executor || given.max_ctas != expected.max_ctas) {
    fprintf(stderr, "rondo_config_default() and RONDO_CONFIG_INIT differ\n");
    return 1;
  }
  return 0;
}
