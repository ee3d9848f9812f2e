// SPDX-License-Identifier: Apache-2.0
// This file is `rondo trace`. It makes one timeline, for Perfetto and Chrome's trace viewer, of the flight recordings
// of all ranks of a job. The job may be running, or the recordings may be in files.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <sys/stat.h>

#include "src/base/spelling.h"
#include "src/base/unique_handle.h"
#include "src/base/user_file.h"
#include "src/cli/commands.h"
#include "src/cli/status/processes.h"
#include "src/cli/subcommand.h"
#include "src/cli/trace/timeline.h"
#include "src/console/command_line.h"
#include "src/console/output.h"
#include "src/core/diagnostics/recorder.h"
#include "transports/shm/recorder.h"

namespace rondo::cli {
namespace {

struct TraceOptions {
  std::vector<std::string> sources;
  std::string output = "-";
};

constexpr console::Manual trace_manual{
    "rondo trace",
    "Makes one timeline of the latest operations and messages of all ranks, for ui.perfetto.dev or chrome://tracing.",
    "rondo trace PID|FILE... [OPTIONS]",
    "  rondo trace $(pidof rondo-train) -o job.json    then open job.json in ui.perfetto.dev\n"
    "  rondo trace host-a.jsonl host-b.jsonl > job.json\n"
    "                                                  recordings of two hosts, by rondo status --job --dump\n"};

Result<Parsed<TraceOptions>> parse_trace_options(Arguments args) {
  TraceOptions options;
  console::CommandLine app(trace_manual);
  app.add_option("source", options.sources,
                 "PID: a running process and all below it, such as a rank or a launcher; FILE: a flight recording "
                 "(RONDO_RECORDER_DIR, rondo status --dump), one of each host")
      ->required()
      ->type_name("PID|FILE");
  app.add_option("-o,--output", options.output, "write the timeline to FILE; - is standard output [-]")
      ->type_name("FILE");
  if (auto answer = app.read(args)) {
    if (answer->is_help) return Parsed<TraceOptions>(std::move(answer->text));
    return invalid_argument(std::move(answer->text));
  }
  if (auto complaint = console::check_output(options.output)) return invalid_argument(std::move(*complaint));
  return Parsed<TraceOptions>(std::move(options));
}

/// Returns the process that `source` names, or 0 if `source` is not a number, or is the name of a file.
pid_t process_of(const std::string &source) {
  struct stat status {};
  if (::stat(source.c_str(), &status) == 0) return 0;
  pid_t process = 0;
  const auto [rest, wrong] = std::from_chars(source.data(), source.data() + source.size(), process);
  return wrong == std::errc{} && rest == source.data() + source.size() && process > 0 ? process : 0;
}

Result<void> observe(pid_t process, shm::Observed &all) {
  // This fails unless the process exists and this user may read it. A process that has ended meanwhile is no error.
  if (auto seen = shm::observe_process(process); !seen.ok())
    return Error{RONDO_ERROR_SYSTEM, std::move(seen).error().message};
  for (const pid_t each : processes_below(process))
    if (auto observed = shm::observe_process(each); observed.ok()) shm::merge(all, std::move(observed).value());
  return {};
}

Result<void> add_running(const shm::Observed &observed, Timeline &timeline) {
  for (const auto &recording : observed.recordings) {
    Result<void> added;
    static_cast<void>(print_recording(*recording, [&](std::string_view line) {
      line.remove_suffix(1);  // the end of the line
      added = timeline.add_line(line, "the job");
      return added.ok();
    }));
    RONDO_TRY(added);
  }
  return {};
}

Result<void> add_file(const std::string &path, Timeline &timeline) {
  const UserFile opened = open_user_file(path);
  const FileDescriptor descriptor(opened.descriptor);
  if (!descriptor.valid()) return invalid_argument("cannot open " + path + ": " + opened.problem);
  std::ifstream file("/proc/self/fd/" + std::to_string(descriptor.get()));
  std::string line;
  line.resize(Timeline::line_bytes_max + 2);
  while (file.getline(line.data(), static_cast<std::streamsize>(line.size()))) {  // a longer line ends the loop
    const auto length = static_cast<size_t>(file.gcount()) - (file.eof() ? 0 : 1);
    RONDO_TRY(timeline.add_line(std::string_view(line).substr(0, length), path));
  }
  if (!file.eof()) return invalid_argument(path + " is no flight recording: it cannot be read, or a line is too long");
  return {};
}

Result<void> write(const Timeline &timeline, const std::string &path) {
  const auto print = [&timeline](std::FILE *to) {
    return print_timeline(timeline, [to](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), to) == text.size();
    });
  };
  if (auto complaint = console::write_output(path, print)) return Error{RONDO_ERROR_SYSTEM, std::move(*complaint)};
  if (path == "-") return {};
  std::printf("%s: %s", path.c_str(), counted(timeline.operation_count(), "operation").c_str());
  if (timeline.message_count() != 0) std::printf(" and %s", counted(timeline.message_count(), "message").c_str());
  std::printf(" in %s", counted(timeline.lanes().size(), "lane").c_str());
  if (timeline.clock_count() > 1)
    std::printf(", clocks of %zu hosts within %.1f us", timeline.clock_count(),
                static_cast<double>(timeline.uncertainty_ns()) * 1e-3);
  std::printf("; open it in ui.perfetto.dev\n");
  return {};
}

Result<void> trace(const TraceOptions &options) {
  Timeline timeline;
  shm::Observed observed;
  for (const std::string &source : options.sources) {
    if (const pid_t process = process_of(source); process != 0) {
      RONDO_TRY(observe(process, observed));
    } else {
      RONDO_TRY(add_file(source, timeline));
    }
  }
  for (const Error &error : observed.refused) std::fprintf(stderr, "rondo trace: %s\n", error.message.c_str());
  RONDO_TRY(add_running(observed, timeline));
  RONDO_TRY(timeline.align());
  return write(timeline, options.output);
}

}  // namespace

int run_trace(Arguments args) {
  const auto parsed = parse_trace_options(args);
  if (!parsed.ok()) {
    std::fprintf(stderr, "rondo trace: %s\n", parsed.error().message.c_str());
    return exit_usage;
  }
  if (const auto *help = std::get_if<std::string>(&parsed.value())) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const auto traced = trace(std::get<TraceOptions>(parsed.value()));
  if (traced.ok()) return 0;
  std::fprintf(stderr, "rondo trace: %s\n", traced.error().message.c_str());
  return traced.error().status == RONDO_ERROR_INVALID_ARGUMENT ? exit_usage : exit_failed;
}

}  // namespace rondo::cli
