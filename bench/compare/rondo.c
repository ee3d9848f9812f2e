/* SPDX-License-Identifier: Apache-2.0
 * Rondo as a contender of bench/compare: as a program uses it, through rondo.h alone. */
#include "rondo/rondo.h"

#include <stdlib.h>
#include <unistd.h>

#include "bench/compare/harness.h"

struct session {
  rondo_comm_t comm;
  rondo_config_t config;
  rondo_type_t type;
};

static void require(struct compare_job *job, const char *what, rondo_status_t status) {
  const struct session *session = job->state;
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status == RONDO_OK) return;
  (void)rondo_comm_last_error(session->comm, &error);
  compare_fail(job, "%s: %s: %s", what, rondo_status_string(status), error.message);
}

static void make_communicator(struct compare_job *job) {
  struct session *session = job->state;
  rondo_unique_id_t id = {{0}};
  if (job->rank == 0) require(job, "rondo_get_unique_id", rondo_get_unique_id(&id, &session->config));
  compare_share(job, &id, sizeof id);
  require(job, "rondo_comm_init",
          rondo_comm_init(&session->comm, &id, job->rank, job->rank_count, &session->config));
}

static void end_communicator(struct compare_job *job) {
  struct session *session = job->state;
  require(job, "rondo_comm_finalize", rondo_comm_finalize(session->comm));
  const rondo_comm_t comm = session->comm;
  session->comm = NULL;
  require(job, "rondo_comm_destroy", rondo_comm_destroy(comm));
}

static void join(struct compare_job *job) {
  static const rondo_type_t types[] = {RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_FLOAT16}; /* as enum compare_type */
  struct session *session = calloc(1, sizeof *session);
  if (session == NULL) compare_fail(job, "no memory");
  job->state = session;
  session->type = types[job->type];
  require(job, "rondo_config_default", rondo_config_default(&session->config, sizeof session->config));
  session->config.network_interface = job->interface;
  session->config.timeout_ms = session->config.init_timeout_ms = job->deadline_s * 1000;
  if (!job->create) make_communicator(job); /* with --create, making it is timed later */
}

static void leave(struct compare_job *job) {
  if (!job->create) end_communicator(job);
  free(job->state);
}

static void all_reduce(struct compare_job *job, const void *send, void *recv, size_t count) {
  const struct session *session = job->state;
  const rondo_status_t status = rondo_all_reduce(send, recv, count, session->type, RONDO_SUM, session->comm, NULL);
  if (status != RONDO_OK) require(job, "rondo_all_reduce", status);
}

static void create(struct compare_job *job) {
  make_communicator(job);
  end_communicator(job);
}

/* Allocates whole pages, because only whole pages can be moved. Private memory has whole pages, too. The registrations
 * end with the communicator. */
static void *allocate(struct compare_job *job, size_t bytes) {
  const struct session *session = job->state;
  void *at = NULL;
  if (job->buffers == compare_alloc) {
    require(job, "rondo_mem_alloc", rondo_mem_alloc(&at, bytes));
    return at;
  }
  rondo_registration_t registration;
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  at = compare_private_memory(job, bytes);
  require(job, "rondo_comm_register",
          rondo_comm_register(session->comm, at, bytes, RONDO_REGISTER_MOVE_PAGES, &registration));
  return at;
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "rondo", .busy_threads = 1, .join = join,
                                                     .all_reduce = all_reduce, .leave = leave, .create = create,
                                                     .allocate = allocate};
  struct compare_job job;
  compare_parse(&job, &contender, argc, argv);
  compare_fork(&job);
  compare_settle(&job);
  compare_run(&job);
  return 0;
}
