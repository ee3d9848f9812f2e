/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * This header wraps rondo/rondo.h for C++17. Handles free what they hold, and failures throw exceptions. It needs
 * nothing but the C header. A method has the contract of the C function with the same name. */
#ifndef RONDO_RONDO_HPP
#define RONDO_RONDO_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rondo/rondo.h"

namespace rondo {

/** A failed call. what() says what happened, where, and what to do. */
class Error : public std::runtime_error {
public:
  /** Copies the description of the latest failure of this thread, or of `comm`, from the library. */
  explicit Error(rondo_status_t status, rondo_comm_t comm = nullptr) : Error(status, details(status, comm)) {}

  /** Returns the status, which says what the caller may still do. */
  rondo_status_t status() const noexcept { return status_; }
  /** Returns the rank that noticed the failure first. */
  std::optional<int> rank() const noexcept { return at_least(rank_, 0); }
  /** Returns the rank that the failure is about. */
  std::optional<int> peer() const noexcept { return at_least(peer_, 0); }
  /** Returns the number of the failed operation on its communicator, from 1, or 0 if the failure has no operation. */
  std::uint64_t operation() const noexcept { return operation_; }

private:
  Error(rondo_status_t status, const rondo_error_t &error)
      : std::runtime_error(error.message[0] != '\0' ? error.message : rondo_status_string(status)), status_(status),
        rank_(error.rank), peer_(error.peer), operation_(error.operation) {}

  static rondo_error_t details(rondo_status_t status, rondo_comm_t comm) noexcept {
    rondo_error_t error = RONDO_ERROR_INIT;
    if (rondo_comm_last_error(comm, &error) == RONDO_OK &&
        (error.status == status || status == RONDO_ERROR_COMM_FAILED)) {
      return error;
    }
    return RONDO_ERROR_INIT;
  }
  static std::optional<int> at_least(int value, int least) noexcept {
    return value < least ? std::nullopt : std::optional<int>(value);
  }

  rondo_status_t status_;
  int rank_, peer_;
  std::uint64_t operation_;
};

/** Throws an Error if the status is not RONDO_OK. */
inline void check(rondo_status_t status, rondo_comm_t comm = nullptr) {
  if (status != RONDO_OK) throw Error(status, comm);
}

/** Returns the element type for an arithmetic type of C++. For float16, bfloat16 and float8, call the C functions of
 *  rondo.h. */
template <class T> constexpr rondo_type_t type_of() noexcept {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, long double> &&
                    !(std::is_integral_v<T> && sizeof(T) == 2),
                "Rondo has integers of 8, 32 and 64 bits, float and double");
  constexpr std::size_t bytes = sizeof(T);
  if constexpr (std::is_floating_point_v<T>) return bytes == 4 ? RONDO_FLOAT32 : RONDO_FLOAT64;
  else if constexpr (std::is_signed_v<T>) return bytes == 1 ? RONDO_INT8 : bytes == 4 ? RONDO_INT32 : RONDO_INT64;
  else return bytes == 1 ? RONDO_UINT8 : bytes == 4 ? RONDO_UINT32 : RONDO_UINT64;
}

/** A queue with a thread that runs operations in order, for communicators on host memory. */
class Stream {
public:
  /** Makes the stream. */
  Stream() { check(rondo_stream_create(&stream_)); }
  Stream(Stream &&other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream &operator=(Stream &&other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  /** Waits until everything is done, and ends the stream. */
  ~Stream() {
    if (stream_ != nullptr) (void)rondo_stream_destroy(stream_);
  }
  /** Waits until everything is done. Throws the first failure since the last call. */
  void synchronize() const { check(rondo_stream_synchronize(stream_)); }
  /** Returns the handle of the C interface. It remains with this object. */
  rondo_stream_t get() const noexcept { return stream_; }
  operator rondo_stream_t() const noexcept { return stream_; } // NOLINT: a stream stands for its handle

private:
  rondo_stream_t stream_ = nullptr;
};

/** An array in host memory that the ranks of this host can map. It is zeroed, and freed with this object. */
template <class T> class Memory {
  static_assert(std::is_trivially_copyable_v<T>, "other ranks read the bytes");

public:
  /** Allocates `count` elements, at least 1. */
  explicit Memory(std::size_t count) : size_(count) {
    void *memory = nullptr;
    check(rondo_mem_alloc(&memory, count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : SIZE_MAX));
    data_ = static_cast<T *>(memory);
  }
  Memory(Memory &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory &operator=(Memory &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Memory() { (void)rondo_mem_free(data_); }

  T *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  T *begin() const noexcept { return data_; }
  T *end() const noexcept { return data_ + size_; }
  T &operator[](std::size_t index) const noexcept { return data_[index]; }

private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

/** A group of this thread's calls. end() enqueues them. If the object is destroyed before end(), none is enqueued. */
class Group {
public:
  /** Begins the group. It may be nested in another group. */
  Group() { check(rondo_group_begin()); }
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;
  /** Discards the calls of this group and of all groups around it, if end() was not called. */
  ~Group() {
    if (!ended_) (void)rondo_group_cancel(nullptr);
  }
  /** Enqueues the calls. Without a stream, they are complete when this method returns. */
  void end() {
    ended_ = true;
    check(rondo_group_end());
  }

private:
  bool ended_ = false;
};

/** A buffer that peers read in place while this object lives. End it before its communicator. */
class Registration {
public:
  Registration(rondo_comm_t comm, void *pointer, std::size_t bytes, unsigned flags) : comm_(comm) {
    check(rondo_comm_register(comm, pointer, bytes, flags, &handle_), comm);
  }
  Registration(Registration &&other) noexcept : comm_(other.comm_), handle_(std::exchange(other.handle_, nullptr)) {}
  Registration &operator=(Registration &&other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Registration() {
    if (handle_ != nullptr) (void)rondo_comm_deregister(comm_, handle_);
  }

private:
  rondo_comm_t comm_ = nullptr;
  rondo_registration_t handle_ = nullptr;
};

/** The sum of elements that each rank multiplies by its own factor. It stands for an operation of one communicator and
 *  one element type, as rondo_op_create_premul_sum() makes it. Calls that are enqueued do not need the object. */
class PremulSum {
public:
  /** Takes the factor. */
  template <class T> PremulSum(rondo_comm_t comm, T factor) : comm_(comm) { make(&factor, RONDO_RESIDENCE_HOST); }
  /** Keeps the address of the factor. Each operation reads the factor there when it runs. */
  template <class T> PremulSum(rondo_comm_t comm, T *factor) : comm_(comm) { make(factor, RONDO_RESIDENCE_DEVICE); }
  PremulSum(PremulSum &&other) noexcept : comm_(other.comm_), op_(std::exchange(other.op_, RONDO_SUM)) {}
  PremulSum &operator=(PremulSum &&other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(op_, other.op_);
    return *this;
  }
  ~PremulSum() {
    if (op_ != RONDO_SUM) (void)rondo_op_destroy(op_, comm_);
  }
  operator rondo_op_t() const noexcept { return op_; } // NOLINT: it stands for its value

private:
  template <class T> void make(T *factor, rondo_residence_t residence) {
    check(rondo_op_create_premul_sum(&op_, factor, type_of<std::remove_cv_t<T>>(), residence, comm_), comm_);
  }

  rondo_comm_t comm_ = nullptr;
  rondo_op_t op_ = RONDO_SUM;
};

/** One rank of a communicator. The destructor destroys the communicator. If an exception destroys the object, the
 *  destructor aborts the communicator first, so that other ranks do not wait for this rank. */
class Communicator {
public:
  /** Joins the communicator of `id`, as rondo_comm_init() does. */
  Communicator(const rondo_unique_id_t &id, int rank, int size, const rondo_config_t &config = RONDO_CONFIG_INIT) {
    check(rondo_comm_init(&comm_, &id, rank, size, &config));
  }
  /** Takes ownership of a handle of the C interface, such as a handle from rondo_comm_init_all(). */
  explicit Communicator(rondo_comm_t comm) noexcept : comm_(comm) {}
  Communicator(Communicator &&other) noexcept
      : comm_(std::exchange(other.comm_, nullptr)), exceptions_(other.exceptions_) {}
  Communicator &operator=(Communicator &&other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(exceptions_, other.exceptions_);
    return *this;
  }
  ~Communicator() {
    if (comm_ == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_) (void)rondo_comm_abort(comm_);
    (void)rondo_comm_destroy(comm_);
  }

  /** Makes a communicator of all ranks of the job that the environment describes. */
  static Communicator from_environment(const rondo_config_t &config = RONDO_CONFIG_INIT) {
    rondo_comm_t comm = nullptr;
    check(rondo_comm_init_env(&comm, &config));
    return Communicator(comm);
  }
  /** Makes a communicator of the ranks with an equal color. For RONDO_NO_COLOR the object is empty: get() is NULL. */
  Communicator split(int color, int key = 0) const {
    rondo_comm_t part = nullptr;
    check(rondo_comm_split(comm_, color, key, nullptr, &part), comm_);
    return Communicator(part);
  }

  /** Makes a communicator without the `count` excluded ranks, as rondo_comm_shrink() does. */
  Communicator shrink(const int *excluded, int count, unsigned flags = 0) const {
    rondo_comm_t rest = nullptr;
    check(rondo_comm_shrink(comm_, excluded, count, flags, nullptr, &rest));
    return Communicator(rest);
  }
  /** Makes the id by which new ranks join, as rondo_comm_grow_id() does. */
  rondo_unique_id_t grow_id() const {
    rondo_unique_id_t id;
    check(rondo_comm_grow_id(comm_, &id), comm_);
    return id;
  }
  /** Makes a communicator of `size` ranks: the ranks of this one, and new ranks. A new rank passes the id to the
   *  constructor instead. */
  Communicator grow(int size) const {
    rondo_comm_t grown = nullptr;
    check(rondo_comm_grow(comm_, nullptr, -1, size, nullptr, &grown));
    return Communicator(grown);
  }
  /** Ends all operations on all ranks with RONDO_ERROR_REVOKED. Afterwards call shrink(). */
  void revoke() const { check(rondo_comm_revoke(comm_), comm_); }
  /** Gives device memory back until resume(), on all ranks. A nonblocking communicator does not wait for the end. */
  void suspend() const { check(rondo_comm_suspend(comm_, RONDO_SUSPEND_MEMORY), comm_); }
  /** Allocates the memory that suspend() gave back, on all ranks. It waits as suspend() does. */
  void resume() const { check(rondo_comm_resume(comm_), comm_); }
  /** Waits until this rank's operations are complete. */
  void flush() const { check(rondo_comm_flush(comm_), comm_); }

  /** Returns the number of this rank. */
  int rank() const { return number(rondo_comm_rank); }
  /** Returns the number of ranks. */
  int size() const { return number(rondo_comm_size); }
  /** Returns the handle of the C interface. It remains with this object. */
  rondo_comm_t get() const noexcept { return comm_; }
  /** Waits until this rank's operations are complete and every rank has called this method. */
  void finalize() const { check(rondo_comm_finalize(comm_), comm_); }
  /** Ends all operations on all ranks. Any thread. */
  void abort() const { check(rondo_comm_abort(comm_), comm_); }
  /** Registers a buffer, so that peers read it in place. */
  Registration register_buffer(void *pointer, std::size_t bytes, unsigned flags = 0) const {
    return {comm_, pointer, bytes, flags};
  }

  template <class T> void all_reduce(const T *send, T *recv, std::size_t count, rondo_op_t op = RONDO_SUM,
                                     rondo_stream_t stream = nullptr) const {
    check(rondo_all_reduce(send, recv, count, type_of<T>(), op, comm_, stream), comm_);
  }
  template <class T> void reduce_scatter(const T *send, T *recv, std::size_t recv_count, rondo_op_t op = RONDO_SUM,
                                         rondo_stream_t stream = nullptr) const {
    check(rondo_reduce_scatter(send, recv, recv_count, type_of<T>(), op, comm_, stream), comm_);
  }
  template <class T> void all_gather(const T *send, T *recv, std::size_t send_count,
                                     rondo_stream_t stream = nullptr) const {
    check(rondo_all_gather(send, recv, send_count, type_of<T>(), comm_, stream), comm_);
  }
  template <class T> void all_gather_v(const T *send, T *recv, const std::size_t *counts,
                                       const std::size_t *displacements = nullptr,
                                       rondo_stream_t stream = nullptr) const {
    check(rondo_all_gather_v(send, recv, counts, displacements, type_of<T>(), comm_, stream), comm_);
  }
  template <class T> void broadcast(T *data, std::size_t count, int root, rondo_stream_t stream = nullptr) const {
    check(rondo_broadcast(data, data, count, type_of<T>(), root, comm_, stream), comm_);
  }
  template <class T> void reduce(const T *send, T *recv, std::size_t count, int root, rondo_op_t op = RONDO_SUM,
                                 rondo_stream_t stream = nullptr) const {
    check(rondo_reduce(send, recv, count, type_of<T>(), op, root, comm_, stream), comm_);
  }
  template <class T> void all_to_all(const T *send, T *recv, std::size_t count, rondo_stream_t stream = nullptr) const {
    check(rondo_all_to_all(send, recv, count, type_of<T>(), comm_, stream), comm_);
  }
  template <class T> void gather(const T *send, T *recv, std::size_t send_count, int root,
                                 rondo_stream_t stream = nullptr) const {
    check(rondo_gather(send, recv, send_count, type_of<T>(), root, comm_, stream), comm_);
  }
  template <class T> void scatter(const T *send, T *recv, std::size_t recv_count, int root,
                                  rondo_stream_t stream = nullptr) const {
    check(rondo_scatter(send, recv, recv_count, type_of<T>(), root, comm_, stream), comm_);
  }
  template <class T> void send(const T *data, std::size_t count, int peer, rondo_stream_t stream = nullptr) const {
    check(rondo_send(data, count, type_of<T>(), peer, comm_, stream), comm_);
  }
  template <class T> void recv(T *data, std::size_t count, int peer, rondo_stream_t stream = nullptr) const {
    check(rondo_recv(data, count, type_of<T>(), peer, comm_, stream), comm_);
  }
  std::uint64_t probe(int peer) const {
    std::uint64_t count = 0;
    check(rondo_probe(peer, comm_, &count), comm_);
    return count;
  }
  void barrier(rondo_stream_t stream = nullptr) const { check(rondo_barrier(comm_, stream), comm_); }

private:
  int number(rondo_status_t (*query)(rondo_comm_t, int *) RONDO_NOEXCEPT) const {
    int value = 0;
    check(query(comm_, &value), comm_);
    return value;
  }

  rondo_comm_t comm_ = nullptr;
  int exceptions_ = std::uncaught_exceptions(); // exceptions in flight when this object was made
};

} // namespace rondo

#endif /* RONDO_RONDO_HPP */
