/* SPDX-License-Identifier: Apache-2.0
 * The reference over RDMA verbs: each of two ranks writes S bytes into the other's memory, inline, and waits for S
 * bytes. The first argument says how a rank learns that the bytes have arrived, and whether both send at once:
 *
 *     memory                 a rank polls the memory, as ib_write_lat of perftest does; a real device promises no order
 *     completion             writes with immediate; a rank polls the completion queue, and asks to receive again
 *     memory-turns           as memory, but rank 1 answers what rank 0 sent, so that a call is a round trip
 *     completion-turns       likewise
 *
 * --interface names the device. Its first port is used, with that port's first RoCE v2 GID of an IPv4 address. */
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/harness.h"

enum { inline_bytes = 232, queue_length = 64, requests_per_signal = 16, hop_limit = 64, retries = 6, timer = 15 };
static const char *const ways[] = {"memory", "memory-turns", "completion", "completion-turns"};

/* A cell of which only the end is written: the payload, then the number. One packet is stored in this order. */
struct cell {
  char payload[inline_bytes - sizeof(uint64_t)];
  _Atomic uint64_t number;
};

struct end {
  union ibv_gid gid;
  uint32_t queue_pair, key;
  uint64_t cells;
};

struct session {
  struct ibv_context *device;
  struct ibv_pd *domain;
  struct ibv_cq *completions;
  struct ibv_qp *queue_pair;
  struct ibv_mr *region;
  struct cell landed[2]; /* two: the peer may be one exchange ahead, but not two */
  struct cell staged;
  uint64_t number, received, unsignalled, under_way;
  struct end peer;
};

static struct end *ends; /* the ends of both ranks, in shared memory */
static bool by_completion, in_turns;

static void require(const struct compare_job *job, const char *what, bool done) {
  if (!done) compare_fail(job, "%s failed", what);
}

static struct ibv_context *open_device(const struct compare_job *job) {
  struct ibv_context *found = NULL;
  int count = 0;
  struct ibv_device **devices = ibv_get_device_list(&count);
  for (int each = 0; devices != NULL && each < count; ++each)
    if (strcmp(ibv_get_device_name(devices[each]), job->interface) == 0) found = ibv_open_device(devices[each]);
  if (devices != NULL) ibv_free_device_list(devices);
  if (found == NULL) compare_fail(job, "no RDMA device %s (--interface)", job->interface);
  return found;
}

static uint32_t choose_gid(const struct compare_job *job, struct ibv_context *device, union ibv_gid *gid) {
  struct ibv_gid_entry entry;
  for (uint32_t index = 0; ibv_query_gid_ex(device, 1, index, &entry, 0) == 0; ++index) {
    *gid = entry.gid;
    const bool ipv4 = entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && ipv4) return index;
  }
  compare_fail(job, "%s has no address of RoCE v2 by IPv4", job->interface);
}

static void ask_to_receive(const struct compare_job *job, struct session *session) {
  struct ibv_recv_wr request = {.wr_id = 1}, *bad = NULL;
  require(job, "ibv_post_recv", ibv_post_recv(session->queue_pair, &request, &bad) == 0);
}

static void connect_pair(const struct compare_job *job, struct session *session, uint32_t gid_index) {
  struct ibv_port_attr port;
  require(job, "ibv_query_port", ibv_query_port(session->device, 1, &port) == 0);
  struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  require(job, "setting the queue pair up",
          ibv_modify_qp(session->queue_pair, &attributes,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  for (int each = 0; each < queue_length; ++each) ask_to_receive(job, session);
  attributes = (struct ibv_qp_attr){
      .qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = session->peer.queue_pair,
      .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1, .port_num = 1,
                  .grh = {.dgid = session->peer.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = hop_limit}}};
  require(job, "connecting the queue pair",
          ibv_modify_qp(session->queue_pair, &attributes,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                            IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
  attributes = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = timer, .retry_cnt = retries,
                                    .rnr_retry = retries, .max_rd_atomic = 1};
  require(job, "starting the queue pair",
          ibv_modify_qp(session->queue_pair, &attributes,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                            IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void join(struct compare_job *job) {
  struct session *session = calloc(1, sizeof *session);
  if (session == NULL) compare_fail(job, "no memory");
  job->state = session;
  if (job->bytes > sizeof session->staged.payload)
    compare_fail(job, "--bytes: at most %zu, which go inline", sizeof session->staged.payload);
  session->device = open_device(job);
  session->domain = ibv_alloc_pd(session->device);
  session->completions = ibv_create_cq(session->device, 2 * queue_length, NULL, NULL, 0);
  require(job, "making a protection domain and a completion queue",
          session->domain != NULL && session->completions != NULL);
  session->region = ibv_reg_mr(session->domain, session->landed, sizeof session->landed,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_qp_init_attr wanted = {.send_cq = session->completions, .recv_cq = session->completions,
                                    .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = queue_length, .max_recv_wr = queue_length,
                                            .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = inline_bytes}};
  session->queue_pair = ibv_create_qp(session->domain, &wanted);
  require(job, "making a queue pair", session->region != NULL && session->queue_pair != NULL);
  struct end *own = &ends[job->rank];
  const uint32_t gid_index = choose_gid(job, session->device, &own->gid);
  own->queue_pair = session->queue_pair->qp_num;
  own->key = session->region->rkey;
  own->cells = (uint64_t)(uintptr_t)session->landed;
  compare_barrier(job, false);
  session->peer = ends[1 - job->rank];
  connect_pair(job, session, gid_index);
  compare_barrier(job, false);
}

static void leave(struct compare_job *job) {
  struct session *session = job->state;
  (void)ibv_destroy_qp(session->queue_pair);
  (void)ibv_dereg_mr(session->region);
  (void)ibv_destroy_cq(session->completions);
  (void)ibv_dealloc_pd(session->domain);
  (void)ibv_close_device(session->device);
  free(session);
}

/* Takes a completion, if there is one. Only a signalled send has one, which shows that all earlier sends have ended. */
static void take_completion(const struct compare_job *job, struct session *session) {
  struct ibv_wc completion;
  if (ibv_poll_cq(session->completions, 1, &completion) <= 0) return;
  if (completion.status != IBV_WC_SUCCESS) compare_fail(job, "%s", ibv_wc_status_str(completion.status));
  if (completion.wr_id == 0) {
    session->under_way -= requests_per_signal;
    return;
  }
  ++session->received;
  ask_to_receive(job, session);
}

static void send_cell(const struct compare_job *job, struct session *session, const void *from) {
  const size_t skipped = sizeof session->staged.payload - job->bytes;
  memcpy(session->staged.payload + skipped, from, job->bytes);
  /* relaxed: read by this thread's own call below */
  atomic_store_explicit(&session->staged.number, ++session->number, memory_order_relaxed);
  const bool signals = ++session->unsignalled == requests_per_signal;
  if (signals) session->unsignalled = 0;
  while (session->under_way == queue_length) take_completion(job, session);
  struct ibv_sge part = {.addr = (uint64_t)(uintptr_t)&session->staged + skipped,
                         .length = (uint32_t)(sizeof session->staged - skipped)};
  struct ibv_send_wr request = {
      .sg_list = &part, .num_sge = 1, .opcode = by_completion ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
      .send_flags = IBV_SEND_INLINE | (signals ? IBV_SEND_SIGNALED : 0),
      .wr.rdma = {session->peer.cells + session->number % 2 * sizeof(struct cell) + skipped, session->peer.key}};
  struct ibv_send_wr *bad = NULL;
  require(job, "ibv_post_send", ibv_post_send(session->queue_pair, &request, &bad) == 0);
  ++session->under_way;
}

/* Receives a cell. The alarm of compare_settle() ends a rank that waits too long. */
static void receive_cell(const struct compare_job *job, struct session *session, uint64_t number, void *to) {
  const struct cell *cell = &session->landed[number % 2];
  if (by_completion)
    while (session->received < number) take_completion(job, session);
  else
    /* acquire: pairs with the device's write, so the bytes before the number have arrived */
    while (atomic_load_explicit(&cell->number, memory_order_acquire) != number) __builtin_ia32_pause();
  memcpy(to, cell->payload + sizeof cell->payload - job->bytes, job->bytes);
}

static void exchange(struct compare_job *job, const void *send_from, void *recv_to, size_t count) {
  struct session *session = job->state;
  const uint64_t number = session->number + 1;
  (void)count;
  if (in_turns && job->rank == 1) receive_cell(job, session, number, recv_to);
  send_cell(job, session, send_from);
  if (!in_turns || job->rank == 0) receive_cell(job, session, number, recv_to);
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "raw_verbs", .busy_threads = 1, .only_float32 = true,
                                                     .only_exchanges = true, .join = join, .all_reduce = exchange,
                                                     .leave = leave};
  struct compare_job job;
  int way = 0;
  const int way_count = (int)(sizeof ways / sizeof *ways);
  while (argc > 1 && way < way_count && strcmp(argv[1], ways[way]) != 0) ++way;
  if (argc < 2 || way == way_count) way = 0;
  else --argc, ++argv;
  by_completion = way >= 2;
  in_turns = way % 2 == 1;
  compare_parse(&job, &contender, argc, argv);
  ends = compare_shared_memory(&job, 2 * sizeof *ends);
  compare_fork(&job);
  compare_settle(&job);
  compare_run(&job);
  return 0;
}
