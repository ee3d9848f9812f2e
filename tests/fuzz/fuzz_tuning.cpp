// SPDX-License-Identifier: Apache-2.0
// Fuzzes tuning tables. The result is either rows with which the tuner makes possible choices, or an error of one line.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/plan/tuner.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

namespace {

void check_choice(const TuningTable &table, const TuningRow &row, bool with_load_store) {
  TunerInput input;
  input.collective = row.collective;
  input.rank_count = row.rank_count;
  input.oversubscribed = row.oversubscribed;
  input.bytes = row.bytes_max;
  input.element_bytes = 4;
  input.slot_bytes = 4096;
  input.ll_slot_bytes = 2048;
  if (with_load_store) input.post_bytes = input.exchange_chunk_bytes = 65536;
  input.table = &table;
  const auto chosen = choose_plan(input);
  FUZZ_CHECK(chosen.ok());
  const Algorithm *const algorithm = find_algorithm(chosen.value().algorithm);
  FUZZ_CHECK(algorithm != nullptr && algorithm->supports(row.collective));
  FUZZ_CHECK(row.rank_count <= algorithm->rank_count_max);
  FUZZ_CHECK(chosen.value().channels >= 1 && chosen.value().channels <= 8);
  FUZZ_CHECK(chosen.value().chunk_bytes >= 64 && chosen.value().chunk_bytes % 64 == 0);
  FUZZ_CHECK(with_load_store || chosen.value().kernel != RONDO_KERNEL_LOAD_STORE);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto parsed = parse_tuning({reinterpret_cast<const char *>(data), size});
  if (!parsed.ok()) {
    FUZZ_CHECK(parsed.error().status == RONDO_ERROR_INVALID_ARGUMENT);
    FUZZ_CHECK(!parsed.error().message.empty() && parsed.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const TuningTable &table = parsed.value();
  FUZZ_CHECK(!table.rows().empty() && table.hash() != 0);
  for (const TuningRow &row : table.rows())
    for (const bool with_load_store : {false, true}) check_choice(table, row, with_load_store);
  return 0;
}
