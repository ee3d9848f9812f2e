// SPDX-License-Identifier: Apache-2.0
// These tests cover the flight recorder: what its records contain, and for which ranks an operation waits. A reader
// must detect any wrong content of a segment without harm to itself.
#include "src/core/diagnostics/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "src/base/clock.h"
#include "src/base/shared_file.h"
#include "src/memory/region.h"
#include "src/proto/memory.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/ranks.h"
#include "transports/shm/recorder.h"
#include "transports/shm/shm_transport.h"

using namespace rondo;

namespace {

std::shared_ptr<shm::Segment> make_segment(uint32_t rank_count) {
  shm::SegmentShape shape;
  shape.rank_count = rank_count;
  shape.geometry = {2, 64, 64};
  auto segment = shm::Segment::create({0x1234, 0x5678}, shape);
  REQUIRE(segment.ok());
  return segment.value();
}

OperationInfo sum_of(uint64_t count) {
  OperationInfo what;
  what.signature = {RONDO_ALL_REDUCE, RONDO_FLOAT8_E5M2, RONDO_AVG, 0xFFFF'FFFF, count, count * 3};
  what.choice = {RONDO_ALGORITHM_TWO_SHOT, RONDO_PROTOCOL_LL, 8, uint64_t{1} << 30};
  return what;
}

uint64_t ticks(const shm::Segment &segment) {
  return read_ticks(static_cast<TickSource>(segment.header().tick_source));
}

RankNow rank_now(Activity activity, uint64_t entered, uint64_t completed,
                 ProcessState process = ProcessState::running) {
  RankNow now;
  now.activity = activity;
  now.rank.entered = entered;
  now.rank.completed = completed;
  now.rank.process_state = process;
  return now;
}

/// Makes another mapping of the segment, as `rondo status` makes it.
Result<std::shared_ptr<const shm::Segment>> observe(int descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return shm::Segment::observe(FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)));
}

}  // namespace

TEST_CASE("ticks: they lie between the marks around them, and garbage is taken for the nearer mark") {
  for (const TickSource source : {TickSource::clock, best_tick_source()}) {
    const TickMark before = mark_ticks(source);
    const uint64_t begin_ns = now_ns();
    const uint64_t seen = read_ticks(source);
    const uint64_t end_ns = now_ns();
    while (now_ns() < end_ns + 2'000'000) {  // marks further apart convert more exactly
    }
    const TickMark after = mark_ticks(source);
    const uint64_t converted = ticks_to_ns(seen, before, after);
    CHECK(converted + 100'000 >= begin_ns);
    CHECK(converted <= end_ns + 100'000);
    CHECK(ticks_to_ns(0, before, after) == before.at_ns);
    CHECK(ticks_to_ns(UINT64_MAX, before, after) == after.at_ns);
    CHECK(ticks_to_ns(seen, before, before) == before.at_ns);
    CHECK(ticks_to_ns(seen, after, before) == after.at_ns);
  }
}

TEST_CASE("recorder: what was entered is read back whole, with its end") {
  const auto segment = make_segment(2);
  const shm::SegmentRecording recording(segment);
  shm::RankBoard &board = segment->board(1);
  CHECK_FALSE(recording.operation(1, 0).has_value());
  CHECK_FALSE(recording.operation(1, 1).has_value());
  shm::enter(board, 1, sum_of(77), ticks(*segment));
  auto seen = recording.operation(1, 1);
  REQUIRE(seen.has_value());
  CHECK(seen->what == sum_of(77));
  CHECK(seen->state == OperationState::running);
  CHECK(seen->ended_ns == 0);
  shm::complete(board, 1, {}, ticks(*segment));
  seen = recording.operation(1, 1);
  REQUIRE(seen.has_value());
  CHECK(seen->state == OperationState::completed);
  CHECK(seen->entered_ns >= recording.made_ns());
  CHECK(seen->ended_ns >= seen->entered_ns);
  CHECK(seen->ended_ns <= now_ns());
  CHECK(recording.rank(1).completed == 1);
  shm::enter(board, 2, sum_of(78), ticks(*segment));
  shm::fail(board, 2, ticks(*segment));
  CHECK(recording.operation(1, 2)->state == OperationState::failed);
  CHECK(recording.rank(1).completed == 1);
  CHECK_FALSE(recording.operation(0, 1).has_value());
}

TEST_CASE("recorder: the last 1,024 operations are kept, one more pushes the oldest out") {
  const auto segment = make_segment(1);
  const shm::SegmentRecording recording(segment);
  for (uint64_t number = 1; number <= recorded_operation_count; ++number)
    shm::enter(segment->board(0), number, sum_of(number), ticks(*segment));
  REQUIRE(recording.operation(0, 1).has_value());
  shm::enter(segment->board(0), recorded_operation_count + 1, sum_of(5), ticks(*segment));
  CHECK_FALSE(recording.operation(0, 1).has_value());
  REQUIRE(recording.operation(0, 2).has_value());
  CHECK(recording.operation(0, 2)->what == sum_of(2));
  // The late end of an operation changes nothing if the record of the operation has been overwritten.
  shm::fail(segment->board(0), 1, ticks(*segment));
  CHECK(recording.operation(0, recorded_operation_count + 1)->state == OperationState::running);
}

TEST_CASE("recorder: messages are on record, counted, and pushed out by later ones") {
  const auto segment = make_segment(2);
  REQUIRE(segment->open_messages().ok());
  const shm::SegmentRecording recording(segment);
  shm::ShmMessages messages(segment, 1);
  const MessageInfo what{0, true, RONDO_FLOAT32, 400, 1};
  messages.announce(0, true, 1);
  messages.enter_batch();
  const uint64_t record = messages.begin(what);
  CHECK(recording.rank(1).batches == BatchCounts{1, 0});
  CHECK(recording.rank(1).messages == record);
  REQUIRE(recording.message(1, record).has_value());
  CHECK(recording.message(1, record)->what == what);
  CHECK(recording.message(1, record)->state == OperationState::running);
  CHECK(look_at_ranks(recording)[1].message->what == what);
  CHECK(messages.find(1, 0, true, 1) == what);
  CHECK_FALSE(messages.find(1, 0, false, 1).has_value());
  messages.complete(record, what, MessageRun::in_call);
  messages.complete_batch();
  const auto seen = recording.message(1, record);
  REQUIRE(seen.has_value());
  CHECK(seen->state == OperationState::completed);
  CHECK(seen->ended_ns >= seen->begun_ns);
  CHECK(recording.rank(1).batches == BatchCounts{1, 1});
  CHECK(recording.statistics(1).collectives[RONDO_SEND].bytes == 400);
  CHECK(recording.statistics(1).collectives[RONDO_RECV].operations == 0);
  messages.complete(messages.begin(what), what, MessageRun::captured);
  CHECK(recording.statistics(1).collectives[RONDO_SEND].operations == 1);  // the captured one does not count
  const std::string line = message_line(*seen, 1, recording.made_ns());
  CHECK_THAT(line, Catch::Matchers::Contains("\"direction\":\"send\",\"peer\":0,\"message\":1"));
  for (uint64_t more = 0; more < recorded_message_count; ++more) static_cast<void>(messages.begin(what));
  CHECK_FALSE(recording.message(1, record).has_value());
}

TEST_CASE("recorder: what a device runs comes before what was called") {
  using Kind = DevicePlace::Kind;
  const auto segment = make_segment(2);
  REQUIRE(segment->open_messages().ok());
  const shm::SegmentRecording recording(segment);
  shm::ShmMessages messages(segment, 1);
  for (uint32_t rank = 0; rank < 2; ++rank)
    memory::store_release(segment->board(rank).state, static_cast<uint64_t>(RankState::alive));
  for (uint64_t number = 1; number <= 2; ++number) shm::enter(segment->board(1), number, sum_of(9), ticks(*segment));
  messages.announce(0, false, 2);
  messages.enter_batch();
  const MessageInfo first{0, false, RONDO_INT8, 4, 1}, second{0, false, RONDO_INT8, 4, 2};
  static_cast<void>(messages.begin(first));
  const uint64_t record = messages.begin(second);
  const auto now = [&] { return look_at_ranks(recording)[1]; };
  CHECK(now().message->what == first);
  CHECK_FALSE(find_wait(look_at_ranks(recording)).has_value());
  messages.publish_place({Kind::messages, record});
  CHECK(now().message->what == second);
  CHECK(messages.doing(1).message == second);
  messages.publish_place({Kind::collective, 1});
  CHECK_FALSE(now().message.has_value());
  CHECK(now().latest->number == 1);
  const auto wait = find_wait(look_at_ranks(recording));
  REQUIRE(wait.has_value());
  CHECK(wait->operation == 1);
  CHECK(wait->waited_for == std::vector<uint32_t>{0});
  messages.publish_place({Kind::idle, 0});
  CHECK(now().latest->number == 2);
  CHECK_FALSE(find_wait(look_at_ranks(recording)).has_value());
}

TEST_CASE("recorder: a communicator of eight ranks stays within 16 MiB, records and all") {
  CHECK(shm::choose_segment_shape(8, 2, 0, 0).bytes() <= size_t{16} << 20);
}

TEST_CASE("recorder: a reader beside a writer sees whole records only") {
  const auto segment = make_segment(1);
  const shm::SegmentRecording recording(segment);
  constexpr uint64_t last = 30'000;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (uint64_t number = 1; number <= last; ++number) {
      shm::enter(segment->board(0), number, sum_of(number), ticks(*segment));
      shm::complete(segment->board(0), number, {}, ticks(*segment));
    }
    done.store(true);
  });
  uint64_t wrong = 0;
  uint64_t read = 0;
  while (!done.load() || read == 0) {
    const uint64_t latest = recording.rank(0).entered;
    // The two records are the newest, and the one that is overwritten next.
    const uint64_t oldest = latest > recorded_operation_count ? latest - recorded_operation_count + 1 : 1;
    for (const uint64_t number : {latest, oldest}) {
      const auto seen = recording.operation(0, number);
      if (!seen) continue;
      ++read;
      wrong += seen->what != sum_of(number) || (seen->ended_ns != 0 && seen->ended_ns < seen->entered_ns);
    }
  }
  writer.join();
  CHECK(wrong == 0);
  CHECK(recording.rank(0).completed == last);
}

TEST_CASE("wait: a rank that has not entered the oldest operation that others are in is waited for") {
  using enum Activity;
  CHECK_FALSE(find_wait({rank_now(between_calls, 3, 3), rank_now(left, 3, 3)}).has_value());
  auto wait = find_wait({rank_now(in_call, 7, 6), rank_now(between_calls, 6, 6), rank_now(in_call, 7, 6)});
  REQUIRE(wait.has_value());
  CHECK(wait->operation == 7);
  CHECK(wait->waiting == std::vector<uint32_t>{0, 2});
  CHECK(wait->waited_for == std::vector<uint32_t>{1});
  // A root that has run ahead does not hide the older operation.
  wait = find_wait({rank_now(in_call, 9, 8), rank_now(in_call, 7, 6), rank_now(dead, 6, 6)});
  CHECK(wait->operation == 7);
  CHECK(wait->waited_for == std::vector<uint32_t>{2});
  // If all ranks have called, the operation waits for the rank that cannot continue.
  wait = find_wait({rank_now(in_call, 7, 6), rank_now(in_call, 7, 6, ProcessState::stopped), rank_now(dead, 7, 6)});
  CHECK(wait->waiting == std::vector<uint32_t>{0, 1});
  CHECK(wait->waited_for == std::vector<uint32_t>{1, 2});
  wait = find_wait({rank_now(in_call, 7, 6), rank_now(in_call, 7, 6)});
  CHECK(wait->waited_for.empty());
  // A slow rank in an operation that waits for no other rank does not hide the rank that is missing in the next one.
  wait = find_wait({rank_now(failed, 8, 7), rank_now(in_call, 7, 6), rank_now(dead, 7, 7)});
  CHECK(wait->operation == 8);
  CHECK(wait->waited_for == std::vector<uint32_t>{1, 2});
  wait = find_wait({rank_now(failed, 7, 6), rank_now(dead, 5, 5)});
  CHECK(wait->waited_for == std::vector<uint32_t>{1});
}

TEST_CASE("recorder: a communicator's own operations are in it, in order and timed") {
  rondo_test::Ranks ranks(3);
  REQUIRE(ranks.status() == RONDO_OK);
  const auto statuses = ranks.run([](int, rondo_comm_t comm) {
    std::vector<float> values(100, 1);
    rondo_status_t status = RONDO_OK;
    for (int round = 0; round < 1100 && status == RONDO_OK; ++round)
      status = rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT32, RONDO_MAX, comm, nullptr);
    return status;
  });
  REQUIRE(rondo_test::all_ok(statuses));
  const auto observed = shm::observe_process(::getpid());
  REQUIRE(observed.ok());
  REQUIRE(observed.value().recordings.size() == 1);
  CHECK(observed.value().refused.empty());
  const shm::SegmentRecording &recording = *observed.value().recordings[0];
  const auto now = look_at_ranks(recording);
  REQUIRE(now.size() == 3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(now[rank].activity == Activity::between_calls);
    CHECK(now[rank].rank.process == static_cast<uint64_t>(::getpid()));
    CHECK(now[rank].rank.process_state == ProcessState::running);
    CHECK(now[rank].rank.completed == 1100);
    uint64_t before_ns = recording.made_ns();
    for (uint64_t number = 1100 - recorded_operation_count + 1; number <= 1100; ++number) {
      const auto seen = recording.operation(rank, number);
      REQUIRE(seen.has_value());
      CHECK(seen->what.signature.count == 100);
      CHECK(seen->what.signature.op == RONDO_MAX);
      CHECK(seen->state == OperationState::completed);
      CHECK(seen->entered_ns >= before_ns);
      CHECK(seen->ended_ns >= seen->entered_ns);
      before_ns = seen->ended_ns;
    }
    CHECK_FALSE(recording.operation(rank, 1100 - recorded_operation_count).has_value());
  }
}

TEST_CASE("recorder: collectives that exchange blocks are in it by name, and uneven ones say so") {
  rondo_test::Ranks ranks(2);
  const auto statuses = ranks.run([](int, rondo_comm_t comm) {
    const size_t each[] = {3, 3};
    std::vector<float> send(6, 1), recv(6);
    const auto status = rondo_all_to_all(send.data(), recv.data(), 3, RONDO_FLOAT32, comm, nullptr);
    if (status != RONDO_OK) return status;
    return rondo_all_to_all_v(send.data(), each, nullptr, recv.data(), each, nullptr, RONDO_FLOAT32, comm, nullptr);
  });
  REQUIRE(rondo_test::all_ok(statuses));
  const auto observed = shm::observe_process(::getpid());
  REQUIRE(observed.ok());
  REQUIRE(observed.value().recordings.size() == 1);
  const shm::SegmentRecording &recording = *observed.value().recordings[0];
  for (uint64_t number = 1; number <= 2; ++number) {
    const auto seen = recording.operation(1, number);
    REQUIRE(seen.has_value());
    const std::string line = operation_line(*seen, 1, recording.made_ns(), 0);
    CHECK_THAT(line, Catch::Matchers::Contains("\"collective\":\"all_to_all\""));
    CHECK_THAT(line, Catch::Matchers::Contains(number == 1 ? "\"uneven_blocks\":false" : "\"uneven_blocks\":true"));
  }
}

TEST_CASE("observe: what is not a segment, or one of another layout, is refused with the reason") {
  const auto refusal = [](int descriptor) {
    const auto seen = observe(descriptor);
    return seen.ok() ? std::string("accepted") : seen.error().message;
  };
  const FileDescriptor unsealed(::memfd_create(shm::segment_file_name, MFD_CLOEXEC));
  REQUIRE(::ftruncate(unsealed.get(), 1 << 20) == 0);
  CHECK(refusal(unsealed.get()).find("not sealed") != std::string::npos);
  auto small = make_shared_file(64, shm::segment_file_name);
  CHECK(refusal(small.value().get()).find("too short") != std::string::npos);
  auto empty = make_shared_file(1 << 20, shm::segment_file_name);
  CHECK(refusal(empty.value().get()).find("being made") != std::string::npos);

  const auto segment = make_segment(2);
  CHECK(refusal(segment->descriptor()) == "accepted");
  const uint64_t magic = segment->header().magic;
  segment->header().magic = magic + 7;
  CHECK(refusal(segment->descriptor()).find("has layout " + std::to_string((magic + 7) & 0xFFFF)) != std::string::npos);
  segment->header().magic = ~magic;
  CHECK(refusal(segment->descriptor()).find("does not begin as one") != std::string::npos);
  segment->header().magic = magic;
  for (const uint64_t rank_count : {uint64_t{0}, uint64_t{1} << 20, UINT64_MAX}) {
    segment->header().rank_count = rank_count;
    CHECK(refusal(segment->descriptor()).find("ranks and has") != std::string::npos);
  }
}

TEST_CASE("observe: a segment full of random words, which change meanwhile, is printed without a crash") {
  const auto segment = make_segment(3);
  std::fill_n(reinterpret_cast<std::byte *>(&segment->board(0)), 3 * sizeof(shm::RankBoard), std::byte{1});
  const auto seen = observe(segment->descriptor());  // after the fill: absent pages would stay zeros in this mapping
  REQUIRE(seen.ok());
  const shm::SegmentRecording recording(seen.value());
  shm::SharedFailure &failure = segment->failure();  // only its state is atomic, so this precedes the other thread
  failure.status = UINT64_MAX;
  for (size_t at = 0; at < sizeof failure.message; ++at) failure.message[at] = static_cast<char>(at % 255 + 1);
  memory::store_sync(failure.state, 2);
  std::atomic<bool> done = false;
  std::thread scribbler([&] {
    std::mt19937_64 random(20261121);
    auto *const words = reinterpret_cast<uint64_t *>(&segment->board(0));
    const size_t word_count = 3 * sizeof(shm::RankBoard) / sizeof(uint64_t);
    while (!done.load())
      for (size_t at = 0; at < word_count; ++at)
        memory::store_relaxed(words[at], random() >> (random() % 64));  // also small numbers, which are known names
  });
  for (int round = 0; round < (rondo_test::sanitized() ? 5 : 20); ++round) {
    const auto ranks = look_at_ranks(recording);
    static_cast<void>(find_wait(ranks));
    size_t line_count = 0;
    CHECK(print_recording(recording, [&](std::string_view line) {
      const std::string_view text = line.substr(0, line.size() - 1);
      CHECK(std::ranges::all_of(text, [](char character) { return character >= ' ' && character <= '~'; }));
      ++line_count;
      return line.back() == '\n';
    }));
    CHECK(line_count >= 4);
  }
  done.store(true);
  scribbler.join();
}

TEST_CASE("recording: a file is whole or not there, and a sink that fails ends it") {
  const auto segment = make_segment(1);
  const shm::SegmentRecording recording(segment);
  int line_count = 0;
  CHECK_FALSE(print_recording(recording, [&](std::string_view) { return ++line_count < 2; }));
  CHECK(line_count == 2);
  const auto written = write_recordings({&recording}, "/nonexistent/folder/file");
  REQUIRE_FALSE(written.ok());
  CHECK(written.error().message.find("/nonexistent/folder/file") != std::string::npos);
}
