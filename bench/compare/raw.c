/* SPDX-License-Identifier: Apache-2.0
 * The reference between two hosts: each rank sends S bytes to the other over one socket and receives as many at the
 * same time, without sleeping. An all-reduce among two ranks has to move that much. This program adds nothing up. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/compare/harness.h"

struct session {
  int socket;
};

static struct sockaddr_in own_address(struct compare_job *job) {
  struct sockaddr_in found = {.sin_family = AF_INET};
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) compare_fail(job, "cannot list the interfaces: %s", strerror(errno));
  for (const struct ifaddrs *each = all; each != NULL; each = each->ifa_next)
    if (each->ifa_addr != NULL && each->ifa_addr->sa_family == AF_INET && strcmp(each->ifa_name, job->interface) == 0)
      found.sin_addr = ((const struct sockaddr_in *)(const void *)each->ifa_addr)->sin_addr;
  freeifaddrs(all);
  if (found.sin_addr.s_addr == 0) compare_fail(job, "the interface %s has no IPv4 address", job->interface);
  return found;
}

/* Joins both ranks. Rank 0 listens and publishes its address; rank 1 connects. The alarm of compare_settle() ends a
 * rank that waits too long. */
static void join(struct compare_job *job) {
  struct session *session = calloc(1, sizeof *session);
  struct sockaddr_in address = own_address(job);
  socklen_t length = sizeof address;
  const int on = 1, made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (session == NULL || made < 0) compare_fail(job, "no memory or no socket");
  job->state = session;
  if (job->rank == 0 && (bind(made, (struct sockaddr *)&address, sizeof address) != 0 || listen(made, 1) != 0 ||
                         getsockname(made, (struct sockaddr *)&address, &length) != 0))
    compare_fail(job, "cannot listen: %s", strerror(errno));
  compare_share(job, &address, sizeof address);
  session->socket = made;
  if (job->rank == 0) {
    session->socket = accept(made, NULL, NULL);
    close(made);
  } else if (connect(made, (struct sockaddr *)&address, sizeof address) != 0) {
    compare_fail(job, "cannot connect: %s", strerror(errno));
  }
  if (session->socket < 0 || fcntl(session->socket, F_SETFL, O_NONBLOCK) != 0 ||
      setsockopt(session->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    compare_fail(job, "cannot set the connection up: %s", strerror(errno));
}

static void leave(struct compare_job *job) {
  const struct session *session = job->state;
  close(session->socket);
  free(job->state);
}

/* Returns how many bytes a call of send() or recv() has moved, or 0 if nothing was possible. */
static size_t moved(const struct compare_job *job, ssize_t result, bool received) {
  if (result > 0) return (size_t)result;
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  compare_fail(job, "%s failed: %s", received ? "receiving" : "sending",
               result == 0 ? "the other rank is gone" : strerror(errno));
}

static void exchange(struct compare_job *job, const void *send_from, void *recv_to, size_t count) {
  const struct session *session = job->state;
  const size_t bytes = count * sizeof(float);
  const char *from = send_from;
  char *to = recv_to;
  size_t sent = 0, received = 0;
  while (sent < bytes || received < bytes) {
    if (sent < bytes) sent += moved(job, send(session->socket, from + sent, bytes - sent, MSG_NOSIGNAL), false);
    if (received < bytes) received += moved(job, recv(session->socket, to + received, bytes - received, 0), true);
  }
}

int main(int argc, char **argv) {
  static const struct compare_contender contender = {.name = "raw", .busy_threads = 1, .only_float32 = true,
                                                     .only_exchanges = true, .join = join, .all_reduce = exchange,
                                                     .leave = leave};
  struct compare_job job;
  compare_parse(&job, &contender, argc, argv);
  compare_fork(&job);
  compare_settle(&job);
  compare_run(&job);
  return 0;
}
