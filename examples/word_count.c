/* SPDX-License-Identifier: Apache-2.0
 *
 * This program counts the bytes and words of a text file, divided among the ranks of a job. For example:
 *
 *     $ rondo run -n 2 -- word_count LICENSE
 *     rank 0 of 2: bytes 0 to 5679: 782 words
 *     rank 1 of 2: bytes 5679 to 11358: 799 words
 *     total: 11358 bytes, 1581 words
 *     counted serially: 11358 bytes, 1581 words, which is the same
 *
 * Every rank counts the words that begin in its part of the file, so no word is counted twice or cut in two. One
 * all-reduce adds up the counts. Rank 0 then counts alone and compares. The exit status is 1 where the
 * two differ, 2 for a wrong use, 3 where something failed.
 *
 *     word_count --serial FILE      counts alone, without a communicator
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rondo/rondo.h"

enum { exit_differs = 1, exit_usage = 2, exit_failed = 3 };

/* The indices of the counts in the all-reduce. */
enum { bytes_at, words_at, counts_size };

static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Counts the bytes of [begin, end), and the words whose first letter is in that range. A word follows a space, or the
 * beginning of the file. Returns false if the file cannot be read; errno has the reason. */
static bool count_part(FILE *file, long begin, long end, uint64_t counts[counts_size]) {
  counts[bytes_at] = counts[words_at] = 0;
  bool after_space = true;
  if (begin > 0) {
    if (fseek(file, begin - 1, SEEK_SET) != 0) return false;
    after_space = is_space(getc(file));
  } else if (fseek(file, 0, SEEK_SET) != 0) {
    return false;
  }
  for (long at = begin; at < end; ++at) {
    const int c = getc(file);
    if (c == EOF) {
      if (!ferror(file)) errno = EIO; /* the file became shorter meanwhile */
      return false;
    }
    ++counts[bytes_at];
    if (after_space && !is_space(c)) ++counts[words_at];
    after_space = is_space(c);
  }
  return true;
}

static bool file_size(FILE *file, long *size) {
  if (fseek(file, 0, SEEK_END) != 0) return false;
  *size = ftell(file);
  return *size >= 0;
}

static int file_failed(const char *path) {
  fprintf(stderr, "word_count: %s: %s\n", path, strerror(errno));
  return exit_failed;
}

static int rondo_failed(rondo_comm_t comm, const char *what) {
  rondo_error_t error = RONDO_ERROR_INIT;
  (void)rondo_comm_last_error(comm, &error);
  fprintf(stderr, "word_count: %s: %s: %s\n", what, rondo_status_string(error.status), error.message);
  return exit_failed;
}

static int count_serially(FILE *file, const char *path) {
  long size = 0;
  uint64_t counts[counts_size];
  if (!file_size(file, &size) || !count_part(file, 0, size, counts)) return file_failed(path);
  printf("%" PRIu64 " bytes, %" PRIu64 " words\n", counts[bytes_at], counts[words_at]);
  return EXIT_SUCCESS;
}

/* Checks the sum against a count by rank 0 alone. */
static int compare(FILE *file, const char *path, long size, const uint64_t total[counts_size]) {
  uint64_t serial[counts_size];
  if (!count_part(file, 0, size, serial)) return file_failed(path);
  const bool equal = memcmp(serial, total, sizeof serial) == 0;
  printf("total: %" PRIu64 " bytes, %" PRIu64 " words\n", total[bytes_at], total[words_at]);
  printf("counted serially: %" PRIu64 " bytes, %" PRIu64 " words, which is %s\n", serial[bytes_at], serial[words_at],
         equal ? "the same" : "NOT THE SAME");
  return equal ? EXIT_SUCCESS : exit_differs;
}

static int count_together(FILE *file, const char *path) {
  rondo_comm_t comm = NULL;
  int rank = 0, size = 1;
  if (rondo_comm_init_env(&comm, NULL) != RONDO_OK) return rondo_failed(NULL, "cannot make the communicator");
  (void)rondo_comm_rank(comm, &rank);
  (void)rondo_comm_size(comm, &size);
  long file_bytes = 0;
  uint64_t counts[counts_size], total[counts_size];
  int status = EXIT_SUCCESS;
  if (!file_size(file, &file_bytes)) {
    status = file_failed(path);
  } else {
    const long begin = (long)((double)file_bytes * rank / size), end = (long)((double)file_bytes * (rank + 1) / size);
    if (!count_part(file, begin, end, counts)) {
      status = file_failed(path);
    } else if (rondo_all_reduce(counts, total, counts_size, RONDO_UINT64, RONDO_SUM, comm, NULL) != RONDO_OK) {
      status = rondo_failed(comm, "all-reduce");
    } else {
      printf("rank %d of %d: bytes %ld to %ld: %" PRIu64 " words\n", rank, size, begin, end, counts[words_at]);
      fflush(stdout);
      if (rank == 0) status = compare(file, path, file_bytes, total);
    }
  }
  if (status != exit_failed && rondo_comm_finalize(comm) != RONDO_OK) status = rondo_failed(comm, "finalize");
  (void)rondo_comm_destroy(comm); /* after a failure, this reports it to the other ranks */
  return status;
}

int main(int argc, char **argv) {
  const bool serial = argc == 3 && strcmp(argv[1], "--serial") == 0;
  if (argc != 2 && !serial) {
    fprintf(stderr, "usage: %s [--serial] FILE\n", argc > 0 ? argv[0] : "word_count");
    return exit_usage;
  }
  const char *path = argv[argc - 1];
  FILE *file = fopen(path, "rb");
  if (file == NULL) return file_failed(path);
  const int status = serial ? count_serially(file, path) : count_together(file, path);
  (void)fclose(file);
  return status;
}
