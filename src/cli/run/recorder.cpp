// SPDX-License-Identifier: Apache-2.0
#include "src/cli/run/recorder.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "src/base/kernel_file.h"
#include "src/cli/status/processes.h"
#include "src/core/diagnostics/recorder.h"
#include "transports/shm/recorder.h"

namespace rondo::cli {

std::string recorder_folder(const std::vector<std::string> &environment) {
  constexpr std::string_view assignment = "RONDO_RECORDER_DIR=";
  for (auto entry = environment.rbegin(); entry != environment.rend(); ++entry)
    if (entry->starts_with(assignment)) return entry->substr(assignment.size());
  const char *const inherited = std::getenv("RONDO_RECORDER_DIR");
  return inherited != nullptr ? inherited : "";
}

void record_job(const std::string &folder, const std::function<void(const std::string &)> &say) {
  if (folder.empty()) return;
  if (!proc_has_own_numbers())
    return say("no flight recording: /proc shows another PID namespace; mount its own there");
  shm::Observed observed;
  for (const pid_t process : processes_below(::getpid()))
    if (auto more = shm::observe_process(process); more.ok()) shm::merge(observed, std::move(more).value());
  for (const auto &recording : observed.recordings) {
    if (recording->dumped()) continue;
    const std::string path = recording_path(*recording, folder);
    const auto written = write_recordings({recording.get()}, path);
    say(written.ok() ? "the flight recording of the ranks is in " + path
                     : "no flight recording: " + written.error().message + " (RONDO_RECORDER_DIR)");
  }
}

}  // namespace rondo::cli
