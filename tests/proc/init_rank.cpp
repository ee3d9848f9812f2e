// SPDX-License-Identifier: Apache-2.0
// This program is one rank that joins a communicator, for init_test.py. Variables make it die as it initialises:
//
//     init_rank id FOLDER | env
//
//     RONDO_TEST_RANK, RONDO_TEST_SIZE  which rank it is, with `id`: rank 0 makes the id and hands it over in FOLDER
//     RONDO_TEST_STRIKE=K  it kills itself just before the K-th system call of its initialisation that touches a
//                          socket, a descriptor or shared memory; deaths at all such K cover every phase
//     RONDO_TEST_CHILD=1  just before it kills itself, it forks a child, which outlives it, as a data loader may
//     RONDO_TEST_DESCRIPTORS=N  it may have N descriptors
//     RONDO_TEST_NAP=MS  it arrives that much later, when the others wait for it
//     RONDO_TEST_SLOW_ACCEPT=MS  its first accept() takes that much longer, as if the store's machine were busy
//     RONDO_TEST_LEAVE=K  it does not wait for the others; its main() returns after K of these system calls
//     RONDO_TEST_LEAVE=PATH  it does the same once that file exists
//     RONDO_TEST_CAME=PATH  it makes that file when it has reached the store, and waits there
//
// It prints "joins TIME_NS PROCESS". If it kills itself, it prints "strike TIME_NS SENT_COUNT" with the most sends that
// followed one connect(). Otherwise it prints "init TIME_NS STATUS PEER MESSAGE", and the same for a "barrier". With
// LEAVE it prints "leaves STATUS", the status of its initialisation.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "rondo/rondo.h"

namespace {

constexpr long long id_patience_ns = 20'000'000'000;  // limit of a wait for an id that rank 0 may fail to make

std::atomic<bool> armed{false};
std::atomic<long> call_count{0};
std::atomic<long> sent_since_connect{0};
std::atomic<long> sent_count{0};  // the most sends after one connect()
std::atomic<bool> accepted{false};
std::atomic<bool> told{false};
long strike_at = 0;

long long now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int number(const char *name, int otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Prints a line by one write, so that a kill does not tear it.
void say(const std::string &line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

/// Forks a child that does nothing. The child outlives the ranks, and does not keep the test's pipes open.
void leave_child() {
  if (::fork() != 0) return;
  armed = false;
  const int null = ::open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, descriptor);
  ::sleep(30);
  ::_exit(0);
}

/// The lock is held while a call is counted. So no thread strikes after disarm(), which ends the initialisation.
std::mutex counting;

void count_call() {
  if (!armed) return;
  const std::lock_guard lock(counting);
  if (!armed || ++call_count != strike_at) return;
  if (number("RONDO_TEST_CHILD", 0) != 0) leave_child();
  say("strike " + std::to_string(now_ns()) + " " + std::to_string(sent_count) + "\n");
  ::kill(::getpid(), SIGKILL);
}

/// Reports this rank's arrival once its second message to the store, which has its rank, is sent.
void tell_that_it_came() {
  if (!armed || sent_count < 2 || told.exchange(true)) return;
  if (const char *const path = std::getenv("RONDO_TEST_CAME")) std::ofstream(path) << "came";
}

void disarm() {
  const std::lock_guard lock(counting);
  armed = false;
}

template <class Function>
Function *real(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// These functions replace functions of the C library, and then call them.
extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  count_call();
  return real<int(int, int, int)>("socket")(domain, type, protocol);
}
int bind(int fd, const sockaddr *address, socklen_t bytes) noexcept {
  count_call();
  return real<int(int, const sockaddr *, socklen_t)>("bind")(fd, address, bytes);
}
int connect(int fd, const sockaddr *address, socklen_t bytes) {
  count_call();
  sent_since_connect = 0;
  return real<int(int, const sockaddr *, socklen_t)>("connect")(fd, address, bytes);
}
int accept4(int fd, sockaddr *address, socklen_t *bytes, int flags) {
  count_call();
  if (!accepted.exchange(true))
    std::this_thread::sleep_for(std::chrono::milliseconds(number("RONDO_TEST_SLOW_ACCEPT", 0)));
  return real<int(int, sockaddr *, socklen_t *, int)>("accept4")(fd, address, bytes, flags);
}
ssize_t send(int fd, const void *data, size_t bytes, int flags) {
  count_call();
  const ssize_t sent = real<ssize_t(int, const void *, size_t, int)>("send")(fd, data, bytes, flags);
  if (armed) sent_count = std::max<long>(sent_count, ++sent_since_connect);
  return sent;
}
ssize_t recv(int fd, void *data, size_t bytes, int flags) {
  count_call();
  return real<ssize_t(int, void *, size_t, int)>("recv")(fd, data, bytes, flags);
}
ssize_t sendmsg(int fd, const msghdr *message, int flags) {
  count_call();
  return real<ssize_t(int, const msghdr *, int)>("sendmsg")(fd, message, flags);
}
ssize_t recvmsg(int fd, msghdr *message, int flags) {
  count_call();
  return real<ssize_t(int, msghdr *, int)>("recvmsg")(fd, message, flags);
}
int poll(pollfd *entries, nfds_t count, int timeout_ms) {
  count_call();
  tell_that_it_came();
  return real<int(pollfd *, nfds_t, int)>("poll")(entries, count, timeout_ms);
}
int memfd_create(const char *name, unsigned flags) noexcept {
  count_call();
  return real<int(const char *, unsigned)>("memfd_create")(name, flags);
}
void *mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset) noexcept {
  if (fd >= 0) count_call();
  return real<void *(void *, size_t, int, int, int, off_t)>("mmap")(address, bytes, access, flags, fd, offset);
}
int munmap(void *address, size_t bytes) noexcept {
  count_call();
  return real<int(void *, size_t)>("munmap")(address, bytes);
}

}  // extern "C"

namespace {

/// Exchanges the id. Rank 0 makes the id, and passes it on as a file.
bool exchange_id(const std::string &folder, int rank, rondo_unique_id_t &id) {
  const std::string path = folder + "/id";
  if (rank == 0) {
    if (rondo_get_unique_id(&id, nullptr) != RONDO_OK) return false;
    std::ofstream(path + ".new", std::ios::binary).write(id.internal, sizeof id.internal);
    return std::rename((path + ".new").c_str(), path.c_str()) == 0;
  }
  for (const long long until_ns = now_ns() + id_patience_ns; now_ns() < until_ns;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.internal, sizeof id.internal)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool report(const char *what, rondo_comm_t comm, rondo_status_t status) {
  rondo_error_t error = RONDO_ERROR_INIT;
  if (status != RONDO_OK) static_cast<void>(rondo_comm_last_error(comm, &error));
  say(std::string(what) + " " + std::to_string(now_ns()) + " " + std::to_string(static_cast<int>(status)) + " " +
      std::to_string(error.peer) + " " + error.message + "\n");
  return status == RONDO_OK;
}

/// Leaves at `when`. That is the number of a system call of the initialisation, or a file that another process makes.
int leave(const rondo_unique_id_t &id, int rank, const std::string &when) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.nonblocking = 1;
  rondo_comm_t comm = nullptr;
  rondo_status_t state = RONDO_NOT_READY;
  const bool is_path = when.starts_with('/');
  const long calls = is_path ? 0 : std::atol(when.c_str());
  const auto leaves = [&] { return is_path ? ::access(when.c_str(), F_OK) == 0 : call_count >= calls; };
  armed = true;
  if (rondo_comm_init(&comm, &id, rank, number("RONDO_TEST_SIZE", 1), &config) != RONDO_OK) return 1;
  while (!leaves() && state == RONDO_NOT_READY) {  // bounded by the timeout of the initialisation
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (rondo_comm_get_async_error(comm, &state) != RONDO_OK) return 1;
  }
  disarm();
  say("leaves " + std::to_string(static_cast<int>(state)) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how != (argc == 3 ? "id" : "env")) {
    std::fprintf(stderr, "usage: init_rank id FOLDER | init_rank env, see the source\n");
    return 2;
  }
  if (const int most = number("RONDO_TEST_DESCRIPTORS", 0); most != 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(most);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  }
  const int rank = number("RONDO_TEST_RANK", 0);
  rondo_unique_id_t id{};
  if (how == "id" && !exchange_id(argv[2], rank, id)) return report("id", nullptr, RONDO_ERROR_INTERNAL) ? 0 : 1;
  rondo_comm_t comm = nullptr;
  strike_at = number("RONDO_TEST_STRIKE", 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(number("RONDO_TEST_NAP", 0)));
  say("joins " + std::to_string(now_ns()) + " " + std::to_string(::getpid()) + "\n");
  if (const char *const when = std::getenv("RONDO_TEST_LEAVE")) return leave(id, rank, when);
  armed = true;
  const rondo_status_t status = how == "env" ? rondo_comm_init_env(&comm, nullptr)
                                             : rondo_comm_init(&comm, &id, rank, number("RONDO_TEST_SIZE", 1), nullptr);
  disarm();
  if (!report("init", nullptr, status)) return 1;
  const bool met = report("barrier", comm, rondo_barrier(comm, nullptr));
  static_cast<void>(rondo_comm_destroy(comm));
  return met ? 0 : 1;
}
