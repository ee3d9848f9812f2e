/* SPDX-License-Identifier: Apache-2.0
 * The options of every driver. compare.py writes them; a person may, too. */
#include "bench/compare/control.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: %s [options]\n"
    "Times one all-reduce (float32 sum) at one size and prints a line of JSON. compare.py runs it.\n"
    "  --ranks N           ranks to make (2); a rank that mpirun made is told by it\n"
    "  --bytes N           size of the vector (8)\n"
    "  --in-place          reduce in one buffer; else from one to another\n"
    "  --type T            float32, bfloat16 or float16 (float32)\n"
    "  --buffers K         private, alloc or registered (private)\n"
    "  --create            time making and destroying a communicator instead\n"
    "  --pin               a core for each rank\n"
    "  --seconds S         about how long a loop of timed calls takes (0.12)\n"
    "  --iterations-min N  timed calls at least (5)\n"
    "  --deadline N        seconds after which a rank is ended (120)\n"
    "  --rank N            be this rank, whose processes are started one by one (needs --control)\n"
    "  --control FILE      where ranks that were not made by this program share memory\n"
    "  --result FILE       for the line of JSON, which a launcher may lose; else it is printed\n"
    "  --interface NAME    for what goes over a network (lo)\n"
    "  --keeper PGID       processes of `floor keep`, stopped without --pin while what counts is timed\n";

static void refuse(const struct compare_contender *contender, const char *what, const char *value) {
  fprintf(stderr, "%s: %s: '%s' will not do; --help lists what there is\n", contender->name, what, value);
  exit(2);
}

static double number(const struct compare_contender *contender, const char *what, double min, double max) {
  char *end = NULL;
  errno = 0;
  const double value = strtod(optarg, &end);
  if (errno != 0 || end == optarg || *end != '\0' || !(value >= min && value <= max)) refuse(contender, what, optarg);
  return value;
}

static int choice(const struct compare_contender *contender, const char *what, const char *const *names) {
  for (int i = 0; names[i] != NULL; ++i)
    if (strcmp(names[i], optarg) == 0) return i;
  refuse(contender, what, optarg);
  return -1;
}

/* Refuses options that this contender does not support. */
static void check(const struct compare_job *job) {
  const struct compare_contender *contender = job->contender;
  if (job->type != compare_float32 && contender->only_float32) refuse(contender, "--type", "other than float32");
  if (job->buffers != compare_private && contender->allocate == NULL)
    refuse(contender, "--buffers", "other than private");
  if (job->create && contender->create == NULL) refuse(contender, "--create", "a communicator");
  if (job->rank >= job->rank_count) refuse(contender, "--rank", "as high as that");
  if (contender->only_exchanges && (job->in_place || job->rank_count != 2))
    refuse(contender, "--in-place or --ranks", "other than 2, out of place");
  if (job->bytes % 4 != 0) refuse(contender, "--bytes", "no multiple of 4");
}

void compare_parse(struct compare_job *job, const struct compare_contender *contender, int argc, char **argv) {
  static const char *const types[] = {"float32", "bfloat16", "float16", NULL};
  static const char *const buffers[] = {"private", "alloc", "registered", NULL};
  enum { ranks = 1, bytes, in_place, type, buffer, create, pin, seconds, iterations_min, deadline, control, keeper,
         rank, interface, result, usage };
  static const struct option options[] = {
      {"ranks", required_argument, NULL, ranks},       {"bytes", required_argument, NULL, bytes},
      {"in-place", no_argument, NULL, in_place},       {"type", required_argument, NULL, type},
      {"buffers", required_argument, NULL, buffer},    {"create", no_argument, NULL, create},
      {"pin", no_argument, NULL, pin},                 {"seconds", required_argument, NULL, seconds},
      {"deadline", required_argument, NULL, deadline}, {"iterations-min", required_argument, NULL, iterations_min},
      {"control", required_argument, NULL, control},   {"keeper", required_argument, NULL, keeper},
      {"rank", required_argument, NULL, rank},         {"interface", required_argument, NULL, interface},
      {"result", required_argument, NULL, result},
      {"help", no_argument, NULL, usage},              {NULL, 0, NULL, 0}};
  *job = (struct compare_job){.contender = contender, .rank = -1, .rank_count = 2, .bytes = 8,
                              .iterations_min = 5, .deadline_s = 120, .target_s = 0.12, .interface = "lo"};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (option) {
      case ranks: job->rank_count = (int)number(contender, "--ranks", 1, compare_ranks_max); break;
      case bytes: job->bytes = (size_t)number(contender, "--bytes", 4, 8589934588.0); break;
      case in_place: job->in_place = true; break;
      case type: job->type = (enum compare_type)choice(contender, "--type", types); break;
      case buffer: job->buffers = (enum compare_buffers)choice(contender, "--buffers", buffers); break;
      case create: job->create = true; break;
      case pin: job->pin = true; break;
      case seconds: job->target_s = number(contender, "--seconds", 0.001, 600); break;
      case iterations_min:
        job->iterations_min = (int)number(contender, "--iterations-min", 1, compare_iterations_max);
        break;
      case deadline: job->deadline_s = (unsigned)number(contender, "--deadline", 1, 86400); break;
      case control: job->control_path = optarg; break;
      case keeper: job->keeper = (pid_t)number(contender, "--keeper", 2, INT32_MAX); break;
      case rank: job->rank = (int)number(contender, "--rank", 0, compare_ranks_max - 1); break;
      case interface: job->interface = optarg; break;
      case result: job->result_path = optarg; break;
      case usage: printf(help, contender->name); exit(0);
      default: exit(2);
    }
  }
  if (optind < argc) refuse(contender, "an argument", argv[optind]);
  check(job);
}
