// SPDX-License-Identifier: Apache-2.0
// Fuzzes the environment. In each line, a letter picks the variable (A is the first), and the variable's value follows.
// Either all values are accepted, and their printed forms read as equal values, or an error names the variable.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "src/base/config.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

namespace {

using Variables = std::map<std::string, std::string>;

Variables variables_of(std::string_view text) {
  const auto known = config_variables();
  Variables variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    const size_t index = static_cast<unsigned char>(line[0] - 'A') % known.size();
    variables[known[index].name] = std::string(line.substr(1));
  }
  return variables;
}

Result<Config> parse(const Variables &variables) {
  return parse_config([&](const char *name) -> const char * {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void check_ranges(const Config &config) {
  FUZZ_CHECK(config.channels <= device_channels_max);
  FUZZ_CHECK(config.chunk_bytes == 0 ||
             (config.chunk_bytes >= chunk_bytes_min && config.chunk_bytes <= chunk_bytes_max));
  FUZZ_CHECK(config.timeout_ns >= 1'000'000 && config.init_timeout_ns >= 1'000'000);
  FUZZ_CHECK(config.slot_count != 1 && (config.slot_count & (config.slot_count - 1)) == 0);
  FUZZ_CHECK(config.slot_bytes % 64 == 0);
  FUZZ_CHECK(rondo_algorithm_string(config.algorithm) != nullptr);
  FUZZ_CHECK(rondo_protocol_string(config.protocol) != nullptr);
  const auto settings = merge(nullptr, config);
  FUZZ_CHECK(settings.ok() == (config.channels <= channels_max));  // this limit is that of host memory
  FUZZ_CHECK(!settings.ok() || settings.value().timeout_ns == config.timeout_ns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const Variables variables = variables_of({reinterpret_cast<const char *>(data), size});
  const auto parsed = parse(variables);
  if (!parsed.ok()) {
    const std::string &message = parsed.error().message;
    FUZZ_CHECK(parsed.error().status == RONDO_ERROR_INVALID_ARGUMENT);
    FUZZ_CHECK(message.starts_with("RONDO_") && message.size() < 400);
    for (const char character : message) FUZZ_CHECK(character >= ' ' && character <= '~');
    return 0;
  }
  check_ranges(parsed.value());
  Variables shown;
  for (const ConfigVariable &variable : config_variables()) shown[variable.name] = variable.show(parsed.value());
  const auto again = parse(shown);
  FUZZ_CHECK(again.ok());
  for (const ConfigVariable &variable : config_variables())
    FUZZ_CHECK(variable.show(again.value()) == variable.show(parsed.value()));
  return 0;
}
