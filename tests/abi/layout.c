/* SPDX-License-Identifier: Apache-2.0
 *
 * The library was built with this header, and its default functions must write what the initialiser macros do.
 * constants_test.py checks sizes, offsets and values, which are in include/rondo/constants.json.
 */
#include <stdio.h>
#include <string.h>

#include "rondo/rondo.h"

/* Bytes that no default writes, to see which ones are written. */
#define FILL 0xA5

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      fprintf(stderr, "not so: %s\n", #condition);           \
      return 1;                                              \
    }                                                        \
  } while (0)

static int check_config(void) {
  rondo_config_t expected = RONDO_CONFIG_INIT, given;
  CHECK(rondo_config_default(&given, sizeof given) == RONDO_OK);
  CHECK(given.size == expected.size && given.device == expected.device);
  CHECK(given.init_timeout_ms == expected.init_timeout_ms && given.timeout_ms == expected.timeout_ms);
  CHECK(given.algorithm == expected.algorithm && given.protocol == expected.protocol);
  CHECK(given.channels == expected.channels && given.kernel == expected.kernel);
  CHECK(given.chunk_bytes == expected.chunk_bytes && given.network_interface == expected.network_interface);
  CHECK(given.device_executor == expected.device_executor && given.max_ctas == expected.max_ctas);
  CHECK(given.nonblocking == expected.nonblocking && given.max_memory_bytes == expected.max_memory_bytes);
  return 0;
}

/* The tail of a later version's struct gets zeros. A struct that is too small, or NULL, is refused, and not written. */
#define CHECK_GROWTH(type, function)                                                 \
  do {                                                                               \
    struct { type known; unsigned char tail[16]; unsigned char behind; } given;      \
    memset(&given, FILL, sizeof given);                                              \
    CHECK(function(&given.known, sizeof(type) - 1) == RONDO_ERROR_INVALID_ARGUMENT); \
    CHECK(function(NULL, sizeof(type)) == RONDO_ERROR_INVALID_ARGUMENT);             \
    CHECK(function(&given.known, 5000) == RONDO_ERROR_INVALID_ARGUMENT);             \
    CHECK(((unsigned char *)&given)[0] == FILL);                                     \
    CHECK(function(&given.known, sizeof(type)) == RONDO_OK);                         \
    CHECK(given.tail[0] == FILL);                                                    \
    CHECK(function(&given.known, sizeof(type) + 16) == RONDO_OK);                    \
    CHECK(given.known.size == sizeof(type) + 16 && given.tail[15] == 0);             \
    CHECK(given.behind == FILL);                                                     \
  } while (0)

/* Makes the same checks for a struct without padding, and checks that the function writes the values of INIT. */
#define CHECK_DEFAULT(type, init, function)                                          \
  do {                                                                               \
    type expected = init, written;                                                   \
    CHECK_GROWTH(type, function);                                                    \
    CHECK(function(&written, sizeof(type)) == RONDO_OK);                             \
    CHECK(memcmp(&written, &expected, sizeof(type)) == 0);                           \
  } while (0)

int main(void) {
  int major = -1, minor = -1, patch = -1;
  rondo_version(&major, &minor, &patch);
  CHECK(major == RONDO_VERSION_MAJOR && minor == RONDO_VERSION_MINOR && patch == RONDO_VERSION_PATCH);
  if (check_config() != 0) return 1;
  CHECK_GROWTH(rondo_config_t, rondo_config_default);
  CHECK_DEFAULT(rondo_comm_properties_t, RONDO_COMM_PROPERTIES_INIT, rondo_comm_properties_default);
  CHECK_DEFAULT(rondo_plan_info_t, RONDO_PLAN_INFO_INIT, rondo_plan_info_default);
  CHECK_DEFAULT(rondo_statistics_t, RONDO_STATISTICS_INIT, rondo_statistics_default);
  CHECK_DEFAULT(rondo_error_t, RONDO_ERROR_INIT, rondo_error_default);
  return 0;
}
