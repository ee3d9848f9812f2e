// SPDX-License-Identifier: Apache-2.0
// The files of the test program share this header: its scenarios, and communicators for them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

#include "tests/compat/collectives.h"

namespace compat_test {

void check_arguments();
void check_groups();
void check_large_groups();
void check_life();
void check_shrink();
void check_grow();
void check_suspend();
void check_memory();
void check_graphs();
void check_group_streams();
void check_messages();
void check_windows();
void check_null_windows();
void check_configured();
void check_parameters();
void check_properties();
void check_refused_interfaces();
void check_details();
void check_buffers();
void check_fork();
void check_timeouts();
void check_ops();
void check_unsupported();
void check_version();
void check_sum();
void check_timeout();
void check_failed_inits();
void check_blocking_variable();

/// Returns a configuration in the layout of an older release, whose last field is `blocking`. This field is 0.
inline ncclConfig_t nonblocking() {
  ncclConfig_t config;
  std::memset(&config, 0, sizeof config);
  config.size = offsetof(ncclConfig_t, cgaClusterSize);
  config.magic = 0xcafebeef;
  config.blocking = 0;
  return config;
}

/// Waits at most a minute until the communicator's state differs from `lasting`, and returns the state. With
/// ncclInProgress this waits until a communicator is made, and with ncclSuccess until it fails.
ncclResult_t wait_while(ncclComm_t comm, ncclResult_t lasting);

/// The ranks of one communicator on device 0, with memory for every case. One thread drives all ranks.
class Ranks {
 public:
  explicit Ranks(int rank_count) {
    const std::vector<int> devices(static_cast<size_t>(rank_count), 0);
    comms_.resize(static_cast<size_t>(rank_count));
    NCCL(ncclCommInitAll(comms_.data(), rank_count, devices.data()));
    for (int rank = 0; rank < rank_count; ++rank)
      parts_.push_back(std::make_unique<DevicePart>(0, 2 * half_bytes));
  }
  Ranks(const Ranks &) = delete;
  Ranks &operator=(const Ranks &) = delete;
  ~Ranks() {
    for (const ncclComm_t comm : comms_) NCCL(ncclCommDestroy(comm));
  }
  [[nodiscard]] int size() const { return static_cast<int>(comms_.size()); }
  /// Returns the handle. A test that has destroyed the communicator may set it to null.
  [[nodiscard]] ncclComm_t &comm(int rank) { return comms_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const DevicePart &part(int rank) const { return *parts_[static_cast<size_t>(rank)]; }
  [[nodiscard]] Case sum(size_t count) const {
    Case it;
    it.count = count;
    it.rank_count = size();
    return it;
  }
  void write(const Case &it) const {
    for (int rank = 0; rank < size(); ++rank) part(rank).write(before(it, rank));
  }
  void check(const Case &it) const {
    for (int rank = 0; rank < size(); ++rank) check_after(it, rank, part(rank));
  }
  /// Ends the program unless a sum over all ranks works.
  void check_usable(size_t count = 100) {
    const Case it = sum(count);
    write(it);
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < size(); ++rank) NCCL(call(it, rank, part(rank), comm(rank)));
    NCCL(ncclGroupEnd());
    check(it);
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<std::unique_ptr<DevicePart>> parts_;
};

/// Ends the program unless the last error contains these words.
inline void check_last_error(const char *words, const char *file, int line) {
  const std::string said = ncclGetLastError(nullptr);
  if (said.find(words) != std::string::npos) return;
  std::printf("the last error is: %s\n", said.c_str());
  fail_test(words, file, line, 0);
}

#define CHECK_REFUSED(call, wanted, words)                                                          \
  do {                                                                                              \
    const ncclResult_t refused_result = call;                                                       \
    if (refused_result != wanted) compat_test::fail_test(#call, __FILE__, __LINE__, refused_result); \
    compat_test::check_last_error(words, __FILE__, __LINE__);                                       \
  } while (false)

}  // namespace compat_test
