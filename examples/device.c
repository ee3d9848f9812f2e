/* SPDX-License-Identifier: Apache-2.0
 * This program runs a collective on memory of a CUDA device, in the order of a CUDA stream. It loads the functions of
 * the driver by name, so that it builds without CUDA. A program with the CUDA runtime calls cudaMalloc() and
 * cudaMemcpy() instead.
 *
 *     $ rondo run -n 2 -- device
 *     rank 0: 65536 sums on device 0, 0 wrong
 *     rank 1: 65536 sums on device 0, 0 wrong
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <rondo/rondo.h>

enum { count = 1 << 16, device = 0 };

static void *driver;

/* Calls a function of the CUDA driver with the arguments after `types`. All of these return 0 on success. */
#define CUDA(name, types, ...)                                               \
  do {                                                                       \
    int(*const function) types = (int(*) types)(uintptr_t)dlsym(driver, name); \
    const int code = function == NULL ? -1 : function(__VA_ARGS__);          \
    if (code != 0) {                                                         \
      fprintf(stderr, "%s: error %d\n", name, code);                         \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

static void check(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return;
  fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  exit(1); /* the other ranks get an error */
}

int main(void) {
  static float numbers[count];
  unsigned long long buffer = 0; /* an address of the device */
  void *context = NULL;
  const char *library = getenv("RONDO_CUDA_LIBRARY");
  driver = dlopen(library != NULL ? library : "libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 77; /* no CUDA here */
  }
  CUDA("cuInit", (unsigned), 0);
  CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
  CUDA("cuCtxPushCurrent_v2", (void *), context);
  CUDA("cuMemAlloc_v2", (unsigned long long *, size_t), &buffer, sizeof numbers);

  rondo_comm_t comm = NULL;
  rondo_config_t config = RONDO_CONFIG_INIT;
  int rank = 0, size = 0, wrong = 0;
  config.device = device;
  check(rondo_comm_init_env(&comm, &config), NULL);
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  for (int at = 0; at < count; ++at) numbers[at] = (float)(rank + at);

  /* These three calls run on the default stream, one after another. None of them waits for the collective. */
  void *on_device = (void *)(uintptr_t)buffer;
  CUDA("cuMemcpyHtoDAsync_v2", (unsigned long long, const void *, size_t, void *), buffer, numbers, sizeof numbers,
       NULL);
  check(rondo_all_reduce(on_device, on_device, count, RONDO_FLOAT32, RONDO_SUM, comm, NULL), comm);
  CUDA("cuMemcpyDtoHAsync_v2", (void *, unsigned long long, size_t, void *), numbers, buffer, sizeof numbers, NULL);
  CUDA("cuCtxSynchronize", (void), );
  rondo_status_t failed = RONDO_OK;
  check(rondo_comm_get_async_error(comm, &failed), comm); /* what failed after the call had returned */
  check(failed, comm);

  for (int at = 0; at < count; ++at) wrong += numbers[at] != (float)(size * at + size * (size - 1) / 2);
  check(rondo_comm_finalize(comm), comm);
  rondo_comm_destroy(comm);
  printf("rank %d: %d sums on device %d, %d wrong\n", rank, count, device, wrong);
  return wrong != 0;
}
