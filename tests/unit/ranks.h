// SPDX-License-Identifier: Apache-2.0
// This file makes a communicator whose ranks are threads of the test, through the public interface.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

class Ranks {
 public:
  explicit Ranks(int size, const rondo_config_t &config = RONDO_CONFIG_INIT)
      : Ranks(std::vector<rondo_config_t>(static_cast<size_t>(size), config)) {}
  explicit Ranks(std::vector<rondo_config_t> configs) : comms_(configs.size()), configs_(std::move(configs)) {
    status_ = rondo_comm_init_all(comms_.data(), size(), configs_.data());
  }
  ~Ranks() {
    for (const rondo_comm_t comm : comms_)
      if (comm != nullptr) static_cast<void>(rondo_comm_destroy(comm));
  }
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;

  [[nodiscard]] rondo_status_t status() const { return status_; }
  [[nodiscard]] int size() const { return static_cast<int>(comms_.size()); }
  [[nodiscard]] rondo_comm_t operator[](int rank) const { return comms_[static_cast<size_t>(rank)]; }
  void forget(int rank) { comms_[static_cast<size_t>(rank)] = nullptr; }

  /// Runs `body(rank, comm)` on a thread for each rank, and returns the results. Catch2's assertions must not be used
  /// in these threads.
  template <class T>
  std::vector<T> each(const std::function<T(int, rondo_comm_t)> &body) {
    std::vector<T> results(comms_.size());
    std::vector<std::thread> threads;
    for (int rank = 1; rank < size(); ++rank)
      threads.emplace_back([&, rank] { results[static_cast<size_t>(rank)] = body(rank, (*this)[rank]); });
    results[0] = body(0, (*this)[0]);
    for (std::thread &thread : threads) thread.join();
    return results;
  }
  std::vector<rondo_status_t> run(const std::function<rondo_status_t(int, rondo_comm_t)> &body) {
    return each<rondo_status_t>(body);
  }

 private:
  std::vector<rondo_comm_t> comms_;
  std::vector<rondo_config_t> configs_;
  rondo_status_t status_ = RONDO_OK;
};

/// Returns the message of the last error of this thread, or of a communicator.
inline std::string error_message(rondo_comm_t comm = nullptr) {
  rondo_error_t error = RONDO_ERROR_INIT;
  return rondo_comm_last_error(comm, &error) == RONDO_OK ? error.message : "?";
}

inline bool all_ok(const std::vector<rondo_status_t> &statuses) {
  for (const rondo_status_t status : statuses)
    if (status != RONDO_OK) return false;
  return true;
}

}  // namespace rondo_test
