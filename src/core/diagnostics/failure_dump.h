// SPDX-License-Identifier: Apache-2.0
// After a failure, one rank of the communicator writes the recording into a folder, and the other ranks see that it has
// done so. Each rank does its part in a separate thread. So the failure is reported in time, even if the folder is
// slow, or if the rank that claimed the dump has been stopped.
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
  /// for the file, for a few seconds at most. Any thread.
  void begin();
  /// Waits briefly for the file, because the caller may now end its process, and a launcher then ends the other ranks.
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
