// SPDX-License-Identifier: Apache-2.0
// After a failure one rank of the communicator writes its recording into a folder, and the others see that it does. A
// thread beside the rank's own calls does all of that. So a failure is reported in time however slow the folder is,
// also if the rank that claimed the writing has been stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "src/links/flight_recorder.h"

namespace rondo {

class FailureDump {
 public:
  /// Without a folder nothing is written. `recorder` outlives this.
  FailureDump(FlightRecorder &recorder, std::string folder, uint32_t rank);
  ~FailureDump() { finish(); }
  FailureDump(const FailureDump &) = delete;
  FailureDump &operator=(const FailureDump &) = delete;

  /// The communicator has failed. Does not wait. From now on the process's exit() waits for the file, for some seconds
  /// at most. Any thread.
  void begin();
  /// Waits briefly for the file. The caller may end the process at once, and a launcher then ends the other ranks.
  void wait_briefly() const;
  /// After begin(), waits until the file is there, or the reason why not is logged.
  void finish();

 private:
  void write() const;

  FlightRecorder &recorder_;
  const std::string folder_;
  const uint32_t rank_;
  std::atomic<bool> done_ = false;  ///< stored by the thread, pairs with wait_briefly()
  std::mutex mutex_;                ///< guards what follows
  bool begun_ = false;
  bool owed_ = false;  ///< no thread could be started: finish() writes
  std::thread thread_;
};

}  // namespace rondo
