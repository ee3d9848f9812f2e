// SPDX-License-Identifier: Apache-2.0
#include "src/base/memory_limit.h"

#include <algorithm>
#include <optional>
#include <string>

#include "src/base/spelling.h"

namespace rondo {
namespace {

constexpr uint32_t halvings_max = 16;  // enough, as budgets are below 2^28 bytes, and slots have a smallest size
constexpr uint32_t slot_count_min = 2;
constexpr uint64_t slot_bytes_min = 1024;

std::string describe_slots(const MemoryChoice &choice) {
  std::string text;
  if (choice.slot_count != 0) text = std::to_string(choice.slot_count) + " slots";
  if (choice.slot_bytes == 0) return text;
  return (text.empty() ? "slots" : text) + " of " + show_bytes(choice.slot_bytes) + " bytes";
}

/// Returns the choice nearest to `asked` that fits: with fewer slots, or with smaller slots, or none if neither fits.
std::optional<MemoryChoice> find_fewer(const MemoryChoice &asked,
                                       const std::function<bool(const MemoryChoice &)> &fits) {
  const auto halved = [&](auto MemoryChoice::*member, uint64_t least) -> std::optional<MemoryChoice> {
    MemoryChoice fewer = asked;
    while (fewer.*member / 2 >= least) {
      fewer.*member /= 2;
      if (fits(fewer)) return fewer;
    }
    return std::nullopt;
  };
  if (const auto fewer = halved(&MemoryChoice::slot_count, slot_count_min)) return fewer;
  return halved(&MemoryChoice::slot_bytes, slot_bytes_min);
}

}  // namespace

Result<MemoryChoice> choose_memory(const Config &config, const char *place,
                                   const std::function<uint64_t(const MemoryChoice &)> &bytes_of) {
  const uint64_t limit = config.max_memory_bytes;
  MemoryChoice choice = MemoryChoice::of(config);
  if (limit == 0) return choice;
  for (; choice.halvings <= halvings_max; ++choice.halvings)
    if (bytes_of(choice) <= limit) return choice;
  choice.halvings = halvings_max;
  const std::string slots = describe_slots(choice);
  std::string message = "max_memory_bytes (RONDO_MAX_MEMORY_BYTES) is " + show_volume(static_cast<double>(limit)) +
                        ", and this communicator needs " + show_volume(static_cast<double>(bytes_of(choice))) + " " +
                        place + (slots.empty() ? "" : " with " + slots);
  const auto fewer = find_fewer(choice, [&](const MemoryChoice &each) { return bytes_of(each) <= limit; });
  if (fewer)
    message += "; with " + describe_slots(*fewer) + ", " + show_volume(static_cast<double>(bytes_of(*fewer))) +
               " would fit";
  else if (bytes_of({0, 0, halvings_max}) <= limit)
    message += "; with RONDO_SLOT_COUNT and RONDO_SLOT_BYTES left out, " +
               show_volume(static_cast<double>(bytes_of({0, 0, halvings_max}))) + " would fit";
  else
    message += "; raise the limit, or use fewer ranks or channels";
  return Error{RONDO_ERROR_OUT_OF_RESOURCES, message};
}

}  // namespace rondo
