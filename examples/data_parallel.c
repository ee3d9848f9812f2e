/* SPDX-License-Identifier: Apache-2.0
 * This program trains a small network data-parallel. Each rank has its own samples. The gradients of a layer are
 * averaged on a stream, while the gradients of the layer before it are computed. docs/overlap.md explains it.
 *
 *     $ rondo run -n 2 data_parallel
 *     2 ranks, 4 buckets: the loss fell below half
 *     all ranks have the same parameters, with overlap and without
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rondo/rondo.h>

enum { layers = 4, width = 64, batch = 16, steps = 80, layer_floats = width * width + width };

static float activations[layers + 1][batch][width]; /* input of each layer, and the output of the last */
static float errors[batch][width], below[batch][width];

typedef struct {
  rondo_comm_t comm;
  rondo_stream_t stream;       /* a queue with a thread of its own, on which the collectives run */
  rondo_event_t done[layers];  /* passed when the gradients of a layer are averaged */
  float *parameters;           /* parameters of a layer: the matrix, row by row, then the biases */
  float *gradients;            /* the same layout, in memory that peers read in place: a layer is a bucket */
  int rank, size;
} job_t;

static void check(rondo_status_t status, rondo_comm_t comm) {
  if (status == RONDO_OK) return;
  fprintf(stderr, "%s\n", rondo_last_error_message(comm));
  exit(1); /* the other ranks get an error */
}

/* Returns a number from -1 to 1 and moves the state on. */
static float draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* Runs the forward pass over samples of this rank and step. Returns the mean squared error. */
static float forward(const job_t *job, int step) {
  uint32_t seed = (uint32_t)(step * job->size + job->rank) * 2654435761u;
  for (int sample = 0; sample < batch; ++sample)
    for (int at = 0; at < width; ++at) activations[0][sample][at] = draw(&seed);
  for (int layer = 0; layer < layers; ++layer) {
    const float *matrix = job->parameters + layer * layer_floats, *bias = matrix + width * width;
    for (int sample = 0; sample < batch; ++sample)
      for (int out = 0; out < width; ++out) {
        float sum = bias[out];
        for (int in = 0; in < width; ++in) sum += matrix[out * width + in] * activations[layer][sample][in];
        activations[layer + 1][sample][out] = sum > 0 || layer == layers - 1 ? sum : 0.5f * sum;
      }
  }
  float loss = 0;
  for (int sample = 0; sample < batch; ++sample)
    for (int at = 0; at < width; ++at) { /* the network learns to reverse its input */
      errors[sample][at] = activations[layers][sample][at] - activations[0][sample][width - 1 - at];
      loss += errors[sample][at] * errors[sample][at] / (batch * width);
    }
  return loss;
}

/* Computes the gradients of one layer from `errors`, and the errors of the layer before it. */
static void backward(const job_t *job, int layer) {
  const float *matrix = job->parameters + layer * layer_floats;
  float *gradient = job->gradients + layer * layer_floats;
  memset(gradient, 0, sizeof(float) * layer_floats);
  memset(below, 0, sizeof below);
  for (int sample = 0; sample < batch; ++sample)
    for (int out = 0; out < width; ++out) {
      const float error = errors[sample][out] / batch;
      gradient[width * width + out] += error;
      for (int in = 0; in < width; ++in) {
        gradient[out * width + in] += error * activations[layer][sample][in];
        below[sample][in] += errors[sample][out] * matrix[out * width + in];
      }
    }
  for (int sample = 0; sample < batch; ++sample)
    for (int at = 0; at < width; ++at)
      errors[sample][at] = activations[layer][sample][at] > 0 ? below[sample][at] : 0.5f * below[sample][at];
}

/* Trains from the same start, and returns the last loss divided by the loss of the first step. */
static float train(const job_t *job, int overlap) {
  uint32_t seed = 1; /* equal on all ranks: they begin with equal parameters, and make equal updates */
  float first = 0, loss = 0;
  for (int at = 0; at < layers * layer_floats; ++at)
    job->parameters[at] = at % layer_floats < width * width ? 0.2f * draw(&seed) : 0;
  for (int step = 0; step < steps; ++step) {
    loss = forward(job, step);
    if (step == 0) first = loss;
    for (int layer = layers - 1; layer >= 0; --layer) { /* the last layer's gradients are complete first */
      float *bucket = job->gradients + layer * layer_floats;
      backward(job, layer);
      check(rondo_all_reduce(bucket, bucket, layer_floats, RONDO_FLOAT32, RONDO_AVG, job->comm, job->stream),
            job->comm); /* returns at once; the next layer is computed meanwhile */
      check(rondo_event_record(job->done[layer], job->stream), job->comm);
      if (!overlap) check(rondo_event_synchronize(job->done[layer]), job->comm);
    }
    for (int layer = layers - 1; layer >= 0; --layer) { /* the update, in the order of the calls */
      check(rondo_event_synchronize(job->done[layer]), job->comm);
      for (int at = layer * layer_floats; at < (layer + 1) * layer_floats; ++at)
        job->parameters[at] -= 0.2f * job->gradients[at];
    }
  }
  check(rondo_stream_synchronize(job->stream), job->comm); /* returns what failed on the stream */
  return loss / first;
}

/* Returns a hash of the parameters' bits, or 0 if a rank has another one. */
static uint64_t agreed_hash(const job_t *job) {
  uint64_t hash = 14695981039346656037u, least = 0, most = 0;
  for (int at = 0; at < layers * layer_floats; ++at) {
    uint32_t bits;
    memcpy(&bits, &job->parameters[at], sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  check(rondo_all_reduce(&hash, &least, 1, RONDO_UINT64, RONDO_MIN, job->comm, NULL), job->comm);
  check(rondo_all_reduce(&hash, &most, 1, RONDO_UINT64, RONDO_MAX, job->comm, NULL), job->comm);
  return least == most ? hash : 0;
}

int main(void) {
  static float parameters[layers * layer_floats];
  job_t job = {.parameters = parameters};
  void *memory = NULL;
  check(rondo_comm_init_env(&job.comm, NULL), NULL);
  rondo_comm_rank(job.comm, &job.rank);
  rondo_comm_size(job.comm, &job.size);
  check(rondo_stream_create(&job.stream), job.comm);
  check(rondo_mem_alloc(&memory, sizeof parameters), job.comm);
  job.gradients = memory;
  for (int layer = 0; layer < layers; ++layer) check(rondo_event_create(&job.done[layer]), job.comm);

  train(&job, 0);
  const uint64_t plain = agreed_hash(&job);
  rondo_statistics_t before = RONDO_STATISTICS_INIT, after = RONDO_STATISTICS_INIT;
  check(rondo_comm_statistics(job.comm, &before), job.comm);
  const float ratio = train(&job, 1);
  check(rondo_comm_statistics(job.comm, &after), job.comm);
  const uint64_t overlapped = agreed_hash(&job);

  const double in_flight = (double)(after.total.in_flight_ns - before.total.in_flight_ns);
  const double exposed = (double)(after.total.exposed_ns - before.total.exposed_ns);
  const int right = ratio < 0.5f && plain != 0 && plain == overlapped;
  if (job.rank == 0) {
    printf("%d ranks, %d buckets: the loss fell %s half\n", job.size, layers, ratio < 0.5f ? "below" : "not below");
    printf("%s\n", plain != 0 && plain == overlapped ? "all ranks have the same parameters, with overlap and without"
                                                    : "the parameters differ");
    fprintf(stderr, "%.0f us a step in flight, %.0f us of it waited for\n", in_flight / steps / 1e3,
            exposed / steps / 1e3);
  }
  for (int layer = 0; layer < layers; ++layer) rondo_event_destroy(job.done[layer]);
  rondo_stream_destroy(job.stream);
  check(rondo_comm_finalize(job.comm), job.comm);
  rondo_comm_destroy(job.comm);
  rondo_mem_free(memory);
  return right ? 0 : 1;
}
