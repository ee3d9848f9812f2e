// SPDX-License-Identifier: Apache-2.0
// After a failure, one rank of the communicator writes the recording into a folder. The other ranks wait until they see
// that the recording was written. Each rank does this in a separate thread, so a slow folder, or a stopped rank that
// claimed the dump, does not delay the report of the failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "src/links/recording.h"

namespace rondo {

class FailureDump {
 public:
  /// Keeps a reference to `recorder`, which must outlive this object. With an empty `folder`, nothing is written.
  FailureDump(FlightRecorder &recorder, std::string folder, uint32_t rank);
  ~FailureDump() { finish(); }
  FailureDump(const FailureDump &) = delete;
  FailureDump &operator=(const FailureDump &) = delete;

  /// Starts the dump after the communicator has failed, and returns at once. From then on, exit() of the process waits
  /// for the file, for a few seconds at most. Any thread may call it.
  void begin();
  /// Waits briefly for the file: if the caller ends its process next, a launcher may kill the rank that writes it.
  void wait_briefly() const;
  /// Waits, after begin(), until the file is written, or the log says why it is not.
  void finish();

 private:
  void write() const;

  FlightRecorder &recorder_;
  const std::string folder_;
  const uint32_t rank_;
  std::atomic<bool> done_ = false;  ///< stored by the thread, pairs with wait_briefly()
  std::mutex mutex_;                ///< guards the following members
  bool begun_ = false;
  bool owed_ = false;  ///< true if no thread could be started, so finish() must write
  std::thread thread_;
};

}  // namespace rondo
