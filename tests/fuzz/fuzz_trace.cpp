// SPDX-License-Identifier: Apache-2.0
// Fuzzes the lines of recordings. The result is either a timeline whose times are in order and which prints as JSON, or
// an error of one line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/cli/trace/timeline.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

namespace {

bool refused(const Result<void> &result) {
  if (result.ok()) return false;
  FUZZ_CHECK(result.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  FUZZ_CHECK(!result.error().message.empty() && result.error().message.find('\n') == std::string::npos);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cli::Timeline timeline;
  std::string_view rest(reinterpret_cast<const char *>(data), size);
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    if (refused(timeline.add_line(rest.substr(0, end), "file"))) return 0;
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
  }
  if (refused(timeline.align())) return 0;
  for (const cli::TracedLane &lane : timeline.lanes()) {
    for (const cli::TracedOperation &each : lane.operations) FUZZ_CHECK(each.entered_ns <= each.ended_ns);
    for (const cli::TracedMessage &each : lane.messages) FUZZ_CHECK(each.entered_ns <= each.ended_ns);
  }
  std::string text;
  FUZZ_CHECK(cli::print_timeline(timeline, [&](std::string_view piece) {
    text += piece;
    return true;
  }));
  FUZZ_CHECK(nlohmann::json::accept(text));
  return 0;
}
