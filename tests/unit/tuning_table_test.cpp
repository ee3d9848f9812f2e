// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuning_table.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "src/plan/tuner.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

/// Returns a choice by the interpreter.
constexpr PlanChoice by(rondo_algorithm_t algorithm, rondo_protocol_t protocol, uint32_t channels,
                        uint64_t chunk_bytes) {
  return {algorithm, protocol, channels, chunk_bytes, RONDO_KERNEL_INTERPRETER};
}

constexpr PlanChoice ring{RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 2, 4096, RONDO_KERNEL_INTERPRETER};
constexpr PlanChoice tree{RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_LL, 1, 1024, RONDO_KERNEL_INTERPRETER};
constexpr PlanChoice load_store{RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_AUTO, 1, 8192, RONDO_KERNEL_LOAD_STORE};

TuningRow row(uint32_t rank_count, uint64_t bytes_max, const PlanChoice &choice, bool oversubscribed = false) {
  return {RONDO_ALL_REDUCE, rank_count, oversubscribed, bytes_max, choice};
}

TuningRow on(BufferPlace buffers, const PlanChoice &choice, uint64_t bytes_max = TuningRow::any_bytes) {
  return {RONDO_ALL_REDUCE, 2, false, bytes_max, choice, false, buffers};
}

TuningTable table_of(std::vector<TuningRow> rows) {
  auto table = TuningTable::make(std::move(rows));
  REQUIRE(table.ok());
  return table.value();
}

std::string refusal(std::vector<TuningRow> rows) {
  const auto table = TuningTable::make(std::move(rows));
  return table.ok() ? "accepted" : table.error().message;
}

TunerInput input_for(const TuningTable *table, uint32_t rank_count, uint64_t bytes) {
  TunerInput input;
  input.rank_count = rank_count;
  input.bytes = bytes;
  input.element_bytes = 4;
  input.slot_bytes = 65536;
  input.ll_slot_bytes = 2048;
  input.post_bytes = 65536;
  input.exchange_chunk_bytes = 65536;
  input.table = table;
  return input;
}

PlanChoice choose(const TunerInput &input) {
  const auto chosen = choose_plan(input);
  REQUIRE(chosen.ok());
  return chosen.value();
}

std::string text_with(const std::string &row_fields,
                      const std::string &head = R"("format": "rondo tuning table", "version": 1)") {
  return "{" + head + R"(, "rows": [{)" + row_fields + "}]}";
}

const std::string good_row =
    R"("collective": "all_reduce", "ranks": 2, "oversubscribed": false, "bytes_max": 64, "algorithm": "ring", )"
    R"("protocol": "simple", "channels": 2, "chunk_bytes": 4096)";

std::string with(std::string text, const std::string &part, const std::string &other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

std::string parse_refusal(const std::string &text) {
  const auto table = parse_tuning(text);
  if (table.ok()) return "accepted";
  CHECK(table.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(table.error().message.find('\n') == std::string::npos);
  return table.error().message;
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tuning table: its row is chosen for its ranks and sizes, the built-in tables elsewhere") {
  const TuningTable table = table_of({row(4, 100, tree), row(4, 1000, ring)});
  CHECK(choose(input_for(&table, 4, 100)) == tree);
  CHECK(choose(input_for(&table, 4, 101)) == ring);
  CHECK(choose(input_for(&table, 4, 1000)) == ring);
  for (const auto &[rank_count, bytes] :
       std::vector<std::pair<uint32_t, uint64_t>>{{4, 1001}, {3, 100}, {5, 100}, {2, 8}})
    CHECK(choose(input_for(&table, rank_count, bytes)) == choose(input_for(nullptr, rank_count, bytes)));
  TunerInput oversubscribed = input_for(&table, 4, 100);
  oversubscribed.oversubscribed = true;
  const PlanChoice measured = choose(oversubscribed);
  oversubscribed.table = nullptr;
  CHECK(measured == choose(oversubscribed));
  TunerInput broadcast = input_for(&table, 4, 100);
  broadcast.collective = RONDO_BROADCAST;
  CHECK(choose(broadcast) != tree);
  TunerInput barrier = input_for(&table, 4, 1);
  barrier.collective = RONDO_BARRIER;
  CHECK(choose(barrier) == tree);
}

TEST_CASE(
    "tuning table: between two measured numbers of ranks the one whose ratio is nearer counts, the larger of equals") {
  const TuningTable table = table_of({row(2, 100, tree), row(8, 100, ring), row(4, 100, load_store, true)});
  CHECK(choose(input_for(&table, 3, 8)) == tree);
  CHECK(choose(input_for(&table, 4, 8)) == ring);  // 4 is twice 2 and half of 8
  CHECK(choose(input_for(&table, 5, 8)) == ring);
  CHECK(choose(input_for(&table, 9, 8)) == choose(input_for(nullptr, 9, 8)));
}

TEST_CASE("tuning table: what the user asks for is not overridden; the rest of a row that agrees with it stands") {
  const TuningTable table = table_of({row(4, 100, load_store), row(4, 1000, ring)});
  TunerInput input = input_for(&table, 4, 500);
  input.overrides.algorithm = RONDO_ALGORITHM_RING;
  CHECK(choose(input) == ring);
  input.overrides.chunk_bytes = 128;
  CHECK(choose(input).chunk_bytes == 128);
  CHECK(choose(input).channels == ring.channels);
  input.bytes = 50;  // this size's row has another algorithm; the next row is for larger messages
  input.overrides = {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_AUTO, 0, 0};
  const PlanChoice chosen = choose(input);
  input.table = nullptr;
  CHECK(chosen == choose(input));
  input.table = &table;
  for (const PlanChoice wanted : {PlanChoice{RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_LL, 0, 0},
                                  PlanChoice{RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_AUTO, 3, 0},
                                  PlanChoice{RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_SIMPLE, 1, 64}}) {
    input.overrides = wanted;
    const PlanChoice got = choose(input);
    CHECK((wanted.algorithm == RONDO_ALGORITHM_AUTO || got.algorithm == wanted.algorithm));
    CHECK((wanted.protocol == RONDO_PROTOCOL_AUTO || got.protocol == wanted.protocol));
    CHECK((wanted.channels == 0 || got.channels == wanted.channels));
    CHECK(got.kernel != RONDO_KERNEL_LOAD_STORE);
  }
}

TEST_CASE("tuning table: a row that cannot be here gives way to the next, and chunks are cut to the slots") {
  const TuningTable table =
      table_of({row(4, 100, load_store), row(4, 1000, by(RONDO_ALGORITHM_RING, RONDO_PROTOCOL_LL, 1, 1 << 20))});
  TunerInput input = input_for(&table, 4, 50);
  CHECK(choose(input) == load_store);
  input.post_bytes = 0;  // no exchange exists
  CHECK(choose(input) == by(RONDO_ALGORITHM_RING, RONDO_PROTOCOL_LL, 1, 7 * 2048));
  input.ll_slot_bytes = 0;
  const PlanChoice chosen = choose(input);
  input.table = nullptr;
  CHECK(chosen == choose(input));
  // Between measured numbers of ranks, the tuner skips an algorithm that cannot have this many ranks.
  TunerInput many = input_for(nullptr, 300, 8);
  const TuningTable wide = table_of({row(254, 100, tree), row(400, 100, ring)});
  many.table = &wide;
  CHECK(choose_plan(many).ok());
}

TEST_CASE("tuning table: rows that no tuner could have meant are refused by number and field") {
  CHECK(refusal({row(2, 64, ring)}) == "accepted");
  CHECK(refusal({}) == "rows: there are none");
  CHECK(contains(refusal({row(2, 64, ring), row(2, 64, tree)}), "rows[1]: out of order"));
  CHECK(contains(refusal({row(4, 64, ring), row(2, 64, ring)}), "rows[1]: out of order"));
  CHECK(contains(refusal({row(2, 64, ring, true), row(4, 64, ring)}), "rows[1]: out of order"));
  CHECK(contains(refusal({row(1, 64, ring)}), "rows[0]: ranks is 1"));
  CHECK(contains(refusal({row(2, 0, ring)}), "bytes_max is 0"));
  CHECK(contains(refusal({row(2, 64, by(RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 9, 64))}), "channels is 9"));
  CHECK(contains(refusal({row(2, 64, by(RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 96))}), "chunk_bytes is 96"));
  CHECK(contains(refusal({row(2, 64, by(RONDO_ALGORITHM_AUTO, RONDO_PROTOCOL_SIMPLE, 1, 64))}), "not 'auto'"));
  CHECK(contains(refusal({row(2, 64, by(RONDO_ALGORITHM_RING, RONDO_PROTOCOL_AUTO, 1, 64))}), "not 'auto'"));
  CHECK(contains(refusal({row(2, 64, {RONDO_ALGORITHM_TREE, RONDO_PROTOCOL_AUTO, 1, 64, RONDO_KERNEL_LOAD_STORE})}),
                 "'load_store'"));
  CHECK(contains(refusal({row(2, 64, {RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_AUTO, 2, 64, RONDO_KERNEL_LOAD_STORE})}),
                 "'load_store'"));
  const PlanChoice slots{RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_SIMPLE, 1, 64, RONDO_KERNEL_LOAD_STORE};
  CHECK(contains(refusal({row(2, 64, slots)}), "the kernel 'load_store' has no protocol"));
  const PlanChoice no_kernel{RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_SIMPLE, 1, 64, RONDO_KERNEL_AUTO};
  CHECK(contains(refusal({row(2, 64, no_kernel)}), "one kernel"));
  CHECK(contains(refusal({{RONDO_BARRIER, 2, false, 64, ring}}), "a barrier has no rows"));
  for (const rondo_collective_t unplanned : {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER}) {
    const PlanChoice choice = by(RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_SIMPLE, 1, 64);
    CHECK(refusal({{unplanned, 2, false, 64, choice}}) ==
          "rows[0]: " + std::string(rondo_collective_string(unplanned)) + " has no rows: nothing is chosen for it");
  }
  CHECK(contains(refusal({{RONDO_ALL_GATHER, 2, false, 64, tree}}), "'tree' cannot do all_gather"));
  const Algorithm *one_shot = find_algorithm(RONDO_ALGORITHM_ONE_SHOT);
  CHECK(
      contains(refusal({row(one_shot->rank_count_max + 1, 64, by(RONDO_ALGORITHM_ONE_SHOT, RONDO_PROTOCOL_LL, 1, 64))}),
               "ranks at most"));
  CHECK(contains(refusal(std::vector<TuningRow>(TuningTable::row_count_max + 1, row(2, 64, ring))), "more than 4096"));
}

TEST_CASE("tuning table: rows are for buffers of one place, and blocks of load_store on devices are many") {
  const PlanChoice blocks{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 64, 65536, RONDO_KERNEL_LOAD_STORE};
  CHECK(contains(refusal({row(2, TuningRow::any_bytes, blocks)}), "channels is 64; it takes 1 to 8"));
  PlanChoice too_many = blocks, by_ring = blocks;
  too_many.channels = 1025;
  by_ring.algorithm = RONDO_ALGORITHM_RING;
  CHECK(contains(refusal({on(BufferPlace::device, too_many)}), "channels is 1025"));
  CHECK(contains(refusal({on(BufferPlace::device, by_ring)}), "on devices by one_shot or two_shot"));
  CHECK(contains(refusal({on(BufferPlace::device, ring), row(2, 64, ring)}), "rows[1]: out of order"));
  PlanChoice one_shot = blocks;
  one_shot.algorithm = RONDO_ALGORITHM_ONE_SHOT;
  const auto of = [](rondo_collective_t collective, BufferPlace place, const PlanChoice &choice) {
    TuningRow made = on(place, choice);
    made.collective = collective;
    return made;
  };
  for (const auto collective : {RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE}) {
    const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
    const PlanChoice &right = rooted ? blocks : one_shot, &wrong = rooted ? one_shot : blocks;
    for (const auto place : {BufferPlace::device, BufferPlace::shared_device, BufferPlace::peer_devices}) {
      CHECK(TuningTable::make({of(collective, place, right)}).ok());
      if (rooted)  // reduce_scatter and all_gather have no two_shot at all
        CHECK(contains(refusal({of(collective, place, wrong)}),
                       "reduce_scatter and all_gather by one_shot, broadcast and reduce by two_shot"));
    }
    PlanChoice on_host = right;
    on_host.channels = 1;
    CHECK(contains(refusal({of(collective, BufferPlace::host, on_host)}), "'load_store' does all_reduce"));
  }

  const TuningTable table = table_of({row(2, TuningRow::any_bytes, ring), on(BufferPlace::device, tree),
                                      on(BufferPlace::shared_device, blocks)});
  CHECK_FALSE(table.wants_load_store(2, BufferPlace::host));
  CHECK_FALSE(table.wants_load_store(2, BufferPlace::device));
  CHECK(table.wants_load_store(2, BufferPlace::shared_device));
  CHECK_FALSE(table.wants_load_store(3, BufferPlace::shared_device));
  CHECK(table_of({on(BufferPlace::device, tree), of(RONDO_BROADCAST, BufferPlace::device, blocks)})
            .wants_load_store(2, BufferPlace::device));
  TunerInput input = input_for(&table, 2, 1 << 20);
  CHECK(choose(input).algorithm == RONDO_ALGORITHM_RING);
  input.buffers = BufferPlace::device;
  input.exchange_channels = 100;
  CHECK(choose(input).algorithm == RONDO_ALGORITHM_TREE);
  input.buffers = BufferPlace::shared_device;
  CHECK(choose(input) == blocks);
  input.exchange_channels = 16;  // all channels of the exchange are used
  CHECK(choose(input).channels == 16);
  input.overrides.channels = 4;
  CHECK(choose(input).channels == 4);
  const TuningTable of_host = table_of({row(2, TuningRow::any_bytes, ring)});
  input.table = &of_host;  // does not apply to devices
  CHECK(choose(input).kernel == RONDO_KERNEL_LOAD_STORE);
}

TEST_CASE("tuning table: devices that reach each other have rows of their own") {
  const PlanChoice blocks{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 64, 65536, RONDO_KERNEL_LOAD_STORE};
  TuningRow gather = on(BufferPlace::device, ring);
  gather.collective = RONDO_ALL_GATHER;
  gather.choice.chunk_bytes = 128;
  const TuningTable table = table_of({on(BufferPlace::device, tree), on(BufferPlace::peer_devices, blocks), gather});
  TunerInput input = input_for(&table, 2, 1 << 20);
  input.exchange_channels = 16;
  input.buffers = BufferPlace::peer_devices;
  CHECK(choose(input).kernel == RONDO_KERNEL_LOAD_STORE);
  CHECK(choose(input).channels == 16);
  input.collective = RONDO_ALL_GATHER;  // has no row, so the table changes nothing
  CHECK(choose(input).kernel == RONDO_KERNEL_LOAD_STORE);
  input.buffers = BufferPlace::device;
  CHECK(choose(input).chunk_bytes == 128);
}

TEST_CASE("tuning table: processes on devices have the rows of processes, although they share what is registered") {
  const PlanChoice blocks{RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_AUTO, 64, 65536, RONDO_KERNEL_LOAD_STORE};
  const TuningTable table = table_of({on(BufferPlace::device, tree, 1 << 20), on(BufferPlace::peer_devices, blocks)});
  TunerInput input = input_for(&table, 2, 1 << 20);
  input.exchange_channels = 16;
  input.buffers = BufferPlace::registered;
  CHECK(choose(input).algorithm == RONDO_ALGORITHM_TREE);
  input.bytes += 4;  // has no row, so the table changes nothing
  CHECK(choose(input).kernel == RONDO_KERNEL_LOAD_STORE);
  CHECK(buffer_place_string(BufferPlace::registered) == nullptr);
}

TEST_CASE("tuning table: the hash tells tables apart by every field, and is 0 for none") {
  CHECK(TuningTable().hash() == 0);
  const TuningTable table = table_of({row(2, 64, ring)});
  CHECK(table.hash() != 0);
  CHECK(table.hash() == table_of({row(2, 64, ring)}).hash());
  for (const TuningRow &other : {row(3, 64, ring), row(2, 65, ring), row(2, 64, ring, true), row(2, 64, tree),
                                 row(2, 64, {ring.algorithm, ring.protocol, 1, ring.chunk_bytes, ring.kernel}),
                                 row(2, 64, {ring.algorithm, ring.protocol, 2, 64, ring.kernel}),
                                 TuningRow{RONDO_BROADCAST, 2, false, 64, ring}, on(BufferPlace::device, ring, 64)})
    CHECK(table.hash() != table_of({other}).hash());
}

TEST_CASE("tuning file: rows are read, and what is beside them is let be") {
  const auto table = parse_tuning(with(text_with(good_row + "}, {" + with(good_row, "64", "\"any\"")), "\"rows\"",
                                       R"("measurements": [1, {"x": null}], "costs": {}, "rows")"));
  REQUIRE(table.ok());
  REQUIRE(table.value().rows().size() == 2);
  CHECK(table.value().rows()[0] == row(2, 64, ring));
  CHECK(table.value().rows()[1] == row(2, TuningRow::any_bytes, ring));
}

TEST_CASE("tuning file: what is not understood is refused with its place") {
  const std::string good = text_with(good_row);
  CHECK(parse_refusal(good) == "accepted");
  CHECK(contains(parse_refusal(""), "this is not JSON from byte"));
  CHECK(contains(parse_refusal(good.substr(0, good.size() - 1)), "this is not JSON from byte"));
  CHECK(contains(parse_refusal(good + "x"), "this is not JSON from byte"));
  CHECK(contains(parse_refusal("[1]"), "wants an object"));
  CHECK(contains(parse_refusal(std::string(100, '[')), "levels of brackets"));
  CHECK(contains(parse_refusal(R"({"version": 1, "rows": []})"), "format: is not"));
  CHECK(contains(parse_refusal(with(good, "\"version\": 1", "\"version\": 2")),
                 "version: is 2, but this Rondo reads version 1"));
  CHECK(contains(parse_refusal(with(good, "\"version\": 1", "\"version\": -1")), "version: wants a whole number"));
  CHECK(contains(parse_refusal(with(good, "\"rows\"", "\"lines\"")), "unknown key 'lines'; known are: format"));
  CHECK(contains(parse_refusal(with(good, "\"rows\": [{", "\"rows\": 3, \"costs\": [{")), "rows: wants a list"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2", "\"ranks\": 2, \"ranks\": 4")),
                 "the key 'ranks' occurs twice"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2, ", "")), "rows[0]: ranks: wants a whole number"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2", "\"ranks\": 2.5")), "rows[0]: ranks: wants a whole number"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2", "\"ranks\": 99999999999")),
                 "rows[0]: ranks: wants a whole number"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2", "\"rank\": 2")), "rows[0]: unknown key 'rank'"));
  CHECK(contains(parse_refusal(with(good, "\"ring\"", "\"star\"")),
                 "rows[0]: algorithm: 'star' is unknown; known are: auto, ring"));
  CHECK(contains(parse_refusal(with(good, "\"simple\"", "7")), "rows[0]: protocol: wants a name"));
  CHECK(contains(parse_refusal(with(good, "\"simple\"", "\"ll128\"")), "rows[0]: protocol: 'll128' is unknown"));
  CHECK(contains(parse_refusal(with(good, "\"bytes_max\": 64", "\"bytes_max\": \"all\"")), "rows[0]: bytes_max"));
  CHECK(contains(parse_refusal(with(good, "\"ranks\": 2", "\"ranks\": 2, \"buffers\": \"disk\"")),
                 "rows[0]: buffers: 'disk' is unknown; known are: host, device, shared_device, peer_devices"));
  for (const auto place : {BufferPlace::device, BufferPlace::shared_device, BufferPlace::peer_devices}) {
    const std::string buffers = std::string("\"ranks\": 2, \"buffers\": \"") + buffer_place_string(place) + "\"";
    CHECK(parse_tuning(with(good, "\"ranks\": 2", buffers)).value().rows()[0].buffers == place);
  }
  CHECK(contains(parse_refusal(with(good, "false", "0")), "rows[0]: oversubscribed: wants true or false"));
  CHECK(contains(parse_refusal(text_with(good_row + "}, {" + good_row)), "rows[1]: out of order"));
  CHECK(contains(parse_refusal(text_with(good_row + "}, 5, {" + good_row)), "rows[1]: wants an object"));
  CHECK(contains(parse_refusal(std::string(tuning_file_bytes_max + 1, ' ')), "larger than 16M bytes"));
}

TEST_CASE("tuning file: a file that is missing or broken is named with what to do") {
  const auto missing = read_tuning_file("/nonexistent/tuning.json");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().status == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(contains(missing.error().message, "RONDO_TUNING_FILE: '/nonexistent/tuning.json': "));
  CHECK(contains(missing.error().message, "rondo tune -o FILE"));
  CHECK(contains(read_tuning_file("/tmp").error().message, "no regular file"));
  std::string path = "/tmp/rondo-tuning-test-XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  REQUIRE(descriptor >= 0);
  ::close(descriptor);
  std::ofstream(path) << text_with(good_row);
  CHECK(read_tuning_file(path).ok());
  std::ofstream(path) << text_with(with(good_row, "ring", "star"));
  CHECK(contains(read_tuning_file(path).error().message, path + "': rows[0]: algorithm: 'star' is unknown"));
  ::unlink(path.c_str());
}
