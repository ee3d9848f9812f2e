// SPDX-License-Identifier: Apache-2.0
/* Measures which part of a training step is matrix products, and how fast they are compared with the library alone.
 * Preloaded into `rondo train`, it times each call of oneDNN's sgemm. When the process ends, it runs each shape alone
 * as often, and reports both times on standard error. It is for one rank, and includes the products of the validation.
 *
 *     cc -O2 -shared -fPIC bench/compare/products.c -o products.so -ldl
 *     LD_PRELOAD=$PWD/products.so rondo train --model small --steps 20 --validation-batches 1 --measure 0 --json F
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int sgemm_t(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                    float *, int64_t);

struct shape {
  char transpose_a, transpose_b;
  int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
};

enum { shape_count_max = 256 };
static struct {
  struct shape shape;
  uint64_t calls, ns;
} kinds[shape_count_max];
static int kind_count;
static sgemm_t *real_sgemm;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int kind_of(const struct shape *shape) {
  int at = 0;
  while (at < kind_count && memcmp(&kinds[at].shape, shape, sizeof *shape) != 0) ++at;
  if (at == shape_count_max) {
    fputs("products: more shapes than there is room for\n", stderr);
    abort();
  }
  if (at == kind_count) kinds[kind_count++].shape = *shape;
  return at;
}

static float *numbers(size_t count) {
  float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
  if (values == NULL) abort();
  for (size_t at = 0; at < count; ++at) values[at] = (float)(at % 17) / 17;
  return values;
}

/* Times a shape alone. A row-major matrix of r rows with the leading dimension l has at most r * l elements. */
static uint64_t ns_alone(const struct shape *it, uint64_t calls) {
  const int64_t rows_a = it->transpose_a == 'T' ? it->k : it->m, rows_b = it->transpose_b == 'T' ? it->n : it->k;
  float *a = numbers((size_t)(rows_a * it->lda)), *b = numbers((size_t)(rows_b * it->ldb));
  float *c = numbers((size_t)(it->m * it->ldc));
  uint64_t begin = 0;
  for (uint64_t call = 0; call <= calls; ++call) {
    if (call == 1) begin = now_ns(); /* the first call generates the code */
    real_sgemm(it->transpose_a, it->transpose_b, it->m, it->n, it->k, it->alpha, a, it->lda, b, it->ldb, it->beta, c,
               it->ldc);
  }
  const uint64_t ns = now_ns() - begin;
  free(a), free(b), free(c);
  return ns;
}

static void report(void) {
  static int told;
  if (told++) return;
  uint64_t calls = 0, ns = 0, alone_ns = 0;
  double operations = 0;
  for (int at = 0; at < kind_count; ++at) {
    const struct shape *it = &kinds[at].shape;
    calls += kinds[at].calls;
    ns += kinds[at].ns;
    alone_ns += ns_alone(it, kinds[at].calls);
    operations += 2.0 * (double)it->m * (double)it->n * (double)it->k * (double)kinds[at].calls;
  }
  fprintf(stderr, "products: %llu calls of %d shapes: %.1f ms, %.1f Gflop/s; alone %.1f ms, %.1f Gflop/s: %.2f of it\n",
          (unsigned long long)calls, kind_count, 1e-6 * (double)ns, operations / (double)ns, 1e-6 * (double)alone_ns,
          operations / (double)alone_ns, (double)alone_ns / (double)ns);
}

int dnnl_sgemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  if (real_sgemm == NULL) real_sgemm = (sgemm_t *)dlsym(RTLD_NEXT, "dnnl_sgemm");
  struct shape shape;
  memset(&shape, 0, sizeof shape); /* padding is compared, too */
  shape.transpose_a = transpose_a, shape.transpose_b = transpose_b;
  shape.m = m, shape.n = n, shape.k = k, shape.lda = lda, shape.ldb = ldb, shape.ldc = ldc;
  shape.alpha = alpha, shape.beta = beta;
  const uint64_t begin = now_ns();
  const int status = real_sgemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  const uint64_t ns = now_ns() - begin;
  const int known = kind_count, kind = kind_of(&shape);
  if (kind_count != known) atexit(report); /* runs before the library frees what it made for this shape */
  ++kinds[kind].calls;
  kinds[kind].ns += ns;
  return status;
}
