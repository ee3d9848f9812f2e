/* SPDX-License-Identifier: Apache-2.0
 * This is the example of docs/overlap.md. It all-reduces gradients while it computes the next ones.
 *
 *     $ rondo run -n 2 -- overlap
 *     2 ranks, 8 buckets, 0 wrong sums
 */
#include <stdio.h>
#include <stdlib.h>
#include <rondo/rondo.h>

enum { bucket_count = 8, bucket_floats = 1 << 18 };

static void check(rondo_status_t status, rondo_comm_t comm, const char *call) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status == RONDO_OK) return;
  rondo_comm_last_error(comm, &error);
  fprintf(stderr, "%s: %s\n", call, error.message[0] != 0 ? error.message : rondo_status_string(status));
  exit(1); /* the other ranks get an error */
}

/* Stands for the backward pass of one part of a model. */
static void compute_gradients(float *gradients, int bucket, int rank) {
  for (int at = 0; at < bucket_floats; ++at) gradients[at] = (float)(bucket + rank);
}

int main(void) {
  rondo_comm_t comm = NULL;
  rondo_stream_t stream = NULL;           /* a queue with a thread of its own */
  rondo_event_t reduced[bucket_count];    /* each is passed when a bucket's all-reduce is complete */
  void *memory = NULL;                    /* memory that peers read in place, without a copy */
  int rank = 0, size = 0;
  check(rondo_comm_init_env(&comm, NULL), NULL, "rondo_comm_init_env");
  rondo_comm_rank(comm, &rank);
  rondo_comm_size(comm, &size);
  check(rondo_stream_create(&stream), comm, "rondo_stream_create");
  check(rondo_mem_alloc(&memory, sizeof(float) * bucket_count * bucket_floats), comm, "rondo_mem_alloc");
  for (int bucket = 0; bucket < bucket_count; ++bucket)
    check(rondo_event_create(&reduced[bucket]), comm, "rondo_event_create");

  float *gradients = memory;
  for (int bucket = 0; bucket < bucket_count; ++bucket) { /* the backward pass */
    float *mine = gradients + (size_t)bucket * bucket_floats;
    compute_gradients(mine, bucket, rank);
    check(rondo_all_reduce(mine, mine, bucket_floats, RONDO_FLOAT32, RONDO_SUM, comm, stream), comm,
          "rondo_all_reduce"); /* returns at once; the stream's thread does it */
    check(rondo_event_record(reduced[bucket], stream), comm, "rondo_event_record");
  }
  int wrong = 0;
  for (int bucket = 0; bucket < bucket_count; ++bucket) { /* the update, in the order of the buckets */
    check(rondo_event_synchronize(reduced[bucket]), comm, "rondo_event_synchronize");
    for (int at = 0; at < bucket_floats; ++at)
      wrong += gradients[bucket * bucket_floats + at] != (float)(size * bucket + size * (size - 1) / 2);
  }
  check(rondo_stream_synchronize(stream), comm, "rondo_all_reduce"); /* returns what failed on the stream */
  if (rank == 0) printf("%d ranks, %d buckets, %d wrong sums\n", size, bucket_count, wrong);

  for (int bucket = 0; bucket < bucket_count; ++bucket) rondo_event_destroy(reduced[bucket]);
  rondo_stream_destroy(stream);
  check(rondo_comm_finalize(comm), comm, "rondo_comm_finalize");
  rondo_comm_destroy(comm);
  rondo_mem_free(memory);
  return wrong != 0;
}
