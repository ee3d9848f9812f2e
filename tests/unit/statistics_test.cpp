// SPDX-License-Identifier: Apache-2.0
// Tests rondo_comm_statistics(). Operations and bytes are exact, and the time in which a caller waited is separate from
// the hidden time. The test causes the delays with which it compares times, so a slow machine changes nothing.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/memory/region.h"
#include "tests/catch.h"
#include "tests/unit/ranks.h"
#include "tests/unit/stream_tools.h"
#include "transports/shm/recorder.h"

using namespace rondo;

namespace {

rondo_statistics_t statistics_of(rondo_comm_t comm) {
  rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
  REQUIRE(rondo_comm_statistics(comm, &statistics) == RONDO_OK);
  return statistics;
}

/// The number of failed calls. Threads count them, because Catch2's assertions must not be used in threads.
std::atomic<uint32_t> failed_calls = 0;

void expect_ok(rondo_status_t status) {
  if (status != RONDO_OK) ++failed_calls;
}

/// Two ranks of this process, each with a stream. At the end, none of their calls may have failed.
struct Pair {
  Pair() {
    REQUIRE(rondo_comm_init_all(comms.data(), 2, nullptr) == RONDO_OK);
    for (rondo_stream_t &stream : streams) REQUIRE(rondo_stream_create(&stream) == RONDO_OK);
  }
  ~Pair() {
    CHECK(failed_calls.exchange(0) == 0);
    for (const rondo_stream_t stream : streams) static_cast<void>(rondo_stream_destroy(stream));
    for (const rondo_comm_t comm : comms) static_cast<void>(rondo_comm_destroy(comm));
  }
  Pair(const Pair &) = delete;
  Pair &operator=(const Pair &) = delete;

  void enqueue(int rank) {
    auto &buffer = buffers[static_cast<size_t>(rank)];
    expect_ok(rondo_all_reduce(buffer.data(), buffer.data(), buffer.size(), RONDO_INT32, RONDO_SUM,
                               comms[static_cast<size_t>(rank)], streams[static_cast<size_t>(rank)]));
  }

  std::array<rondo_comm_t, 2> comms{};
  std::array<rondo_stream_t, 2> streams{};
  std::array<std::array<int32_t, 100>, 2> buffers{};
};

constexpr uint64_t rest_ns = 40'000'000;

void rest() {
  const uint64_t until_ns = now_ns() + rest_ns;
  while (now_ns() < until_ns) sleep_for_ns(until_ns - now_ns());
}

/// Waits until the latest operation that rank 0 has entered is `operation`.
void wait_until_entered(rondo_comm_t comm, uint64_t operation) {
  const auto object = process().communicators.find(comm);
  const auto segments = shm::observe_process(static_cast<int>(::getpid()));
  REQUIRE(segments.ok());
  const uint64_t deadline_ns = now_ns() + 60'000'000'000;
  const auto entered = [&] {
    for (const auto &recording : segments.value().recordings)
      if (recording->rank(0).entered == operation) return true;
    return false;
  };
  while (!entered() && now_ns() < deadline_ns) sleep_for_ns(100'000);
  REQUIRE(entered());
}

enum class Wait { synchronize, event, held_call };

/// Checks the exposed time of an operation if a caller begins to wait halfway.
void check_exposed_behind(Wait wait) {
  Pair pair;
  const auto stream = process().streams.find(pair.streams[0]);
  const rondo_event_t event = make_event();
  pair.enqueue(0);
  REQUIRE(rondo_event_record(event, pair.streams[0]) == RONDO_OK);
  wait_until_entered(pair.comms[0], 1);
  rest();  // hidden
  std::thread late([&] {
    const uint64_t deadline_ns = now_ns() + 60'000'000'000;
    while (stream->waited_ns() == 0 && now_ns() < deadline_ns) sleep_for_ns(100'000);  // until the call below waits
    rest();                                                                            // exposed
    pair.enqueue(1);
    expect_ok(rondo_stream_synchronize(pair.streams[1]));
  });
  const uint64_t begin_ns = now_ns();
  switch (wait) {
    case Wait::synchronize: CHECK(rondo_stream_synchronize(pair.streams[0]) == RONDO_OK); break;
    case Wait::event: CHECK(rondo_event_synchronize(event) == RONDO_OK); break;
    case Wait::held_call: CHECK(rondo_stream_wait_event(nullptr, event) == RONDO_OK); break;
  }
  const uint64_t waited_ns = now_ns() - begin_ns;
  late.join();
  REQUIRE(rondo_stream_synchronize(pair.streams[0]) == RONDO_OK);
  const rondo_statistics_t seen = statistics_of(pair.comms[0]);
  CHECK(seen.total.exposed_ns >= rest_ns);
  CHECK(seen.total.exposed_ns <= waited_ns);
  CHECK(seen.total.in_flight_ns - seen.total.exposed_ns >= rest_ns);
  REQUIRE(rondo_event_destroy(event) == RONDO_OK);
}

}  // namespace

TEST_CASE("statistics: operations and bytes of every collective are counted exactly, in calls and on streams") {
  for (const bool on_stream : {false, true}) {
    Pair pair;
    const auto run = [&](size_t rank) {
      const rondo_comm_t comm = pair.comms[rank];
      const rondo_stream_t stream = on_stream ? pair.streams[rank] : nullptr;
      std::vector<float> from(64), to(64);
      const std::array<size_t, 2> counts{3, 4};
      for (int i = 0; i < 3; ++i)
        expect_ok(rondo_all_reduce(from.data(), to.data(), 10, RONDO_FLOAT32, RONDO_SUM, comm, stream));
      expect_ok(rondo_all_reduce(from.data(), to.data(), 0, RONDO_FLOAT32, RONDO_SUM, comm, stream));
      expect_ok(rondo_reduce_scatter(from.data(), to.data(), 5, RONDO_FLOAT16, RONDO_SUM, comm, stream));
      expect_ok(rondo_reduce_scatter_v(from.data(), to.data(), counts.data(), RONDO_INT8, RONDO_SUM, comm, stream));
      expect_ok(rondo_all_gather(from.data(), to.data(), 6, RONDO_INT32, comm, stream));
      expect_ok(rondo_all_gather_v(from.data(), to.data(), counts.data(), nullptr, RONDO_INT32, comm, stream));
      expect_ok(rondo_broadcast(from.data(), to.data(), 7, RONDO_FLOAT32, 1, comm, stream));
      expect_ok(rondo_reduce(from.data(), to.data(), 9, RONDO_INT8, RONDO_MAX, 0, comm, stream));
      for (int i = 0; i < 2; ++i) expect_ok(rondo_barrier(comm, stream));
      if (on_stream) expect_ok(rondo_stream_synchronize(stream));
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    for (const rondo_comm_t comm : pair.comms) {
      const rondo_statistics_t seen = statistics_of(comm);
      CHECK(seen.waits_seen == 1);
      const auto check = [&](rondo_collective_t collective, uint64_t operations, uint64_t bytes) {
        CHECK(seen.collectives[collective].operations == operations);
        CHECK(seen.collectives[collective].bytes == bytes);
        CHECK(seen.collectives[collective].exposed_ns <= seen.collectives[collective].in_flight_ns);
      };
      check(RONDO_ALL_REDUCE, 4, 120);
      check(RONDO_REDUCE_SCATTER, 2, 2 * 5 * 2 + 7);
      check(RONDO_ALL_GATHER, 2, 2 * 6 * 4 + 7 * 4);
      check(RONDO_BROADCAST, 1, 28);
      check(RONDO_REDUCE, 1, 9);
      check(RONDO_BARRIER, 2, 0);
      for (size_t none = RONDO_BARRIER + 1; none < RONDO_STATISTICS_COLLECTIVES; ++none)
        CHECK(seen.collectives[none].operations == 0);
      CHECK(seen.total.operations == 12);
      CHECK(seen.total.bytes == 120 + 27 + 76 + 28 + 9);
      CHECK(seen.total.in_flight_ns > 0);
    }
  }
}

TEST_CASE("statistics: what runs in the call is exposed as a whole") {
  Pair pair;
  int32_t value = 1;
  std::thread late([&] {
    int32_t other = 1;
    rest();
    expect_ok(rondo_all_reduce(&other, &other, 1, RONDO_INT32, RONDO_SUM, pair.comms[1], nullptr));
  });
  const uint64_t begin_ns = now_ns();
  CHECK(rondo_all_reduce(&value, &value, 1, RONDO_INT32, RONDO_SUM, pair.comms[0], nullptr) == RONDO_OK);
  const uint64_t whole_ns = now_ns() - begin_ns;
  late.join();
  const rondo_statistics_t seen = statistics_of(pair.comms[0]);
  CHECK(seen.total.exposed_ns == seen.total.in_flight_ns);
  CHECK(seen.total.in_flight_ns <= whole_ns + 1'000'000);
}

TEST_CASE("statistics: an operation that ends before anybody waits for it is hidden as a whole") {
  Pair pair;
  pair.enqueue(0);
  wait_until_entered(pair.comms[0], 1);
  rest();  // rank 0's operation is in flight, and no call waits for it
  pair.enqueue(1);
  while (rondo_stream_query(pair.streams[0]) == RONDO_NOT_READY) sleep_for_ns(100'000);
  REQUIRE(rondo_stream_synchronize(pair.streams[0]) == RONDO_OK);
  REQUIRE(rondo_stream_synchronize(pair.streams[1]) == RONDO_OK);
  const rondo_statistics_t seen = statistics_of(pair.comms[0]);
  CHECK(seen.total.operations == 1);
  CHECK(seen.total.in_flight_ns >= rest_ns);
  CHECK(seen.total.exposed_ns == 0);
}

TEST_CASE("statistics: of an operation that is waited for halfway, the part behind that is exposed") {
  for (const Wait wait : {Wait::synchronize, Wait::event, Wait::held_call}) check_exposed_behind(wait);
}

TEST_CASE("statistics: what a stream runs behind the point that is waited for is not exposed") {
  Pair pair;
  const rondo_event_t event = make_event();
  pair.enqueue(0);
  REQUIRE(rondo_event_record(event, pair.streams[0]) == RONDO_OK);
  pair.enqueue(0);  // waits for rank 1 after the event
  pair.enqueue(1);
  REQUIRE(rondo_event_synchronize(event) == RONDO_OK);
  wait_until_entered(pair.comms[0], 2);
  const uint64_t exposed_ns = statistics_of(pair.comms[0]).total.exposed_ns;
  rest();
  pair.enqueue(1);
  while (rondo_stream_query(pair.streams[0]) == RONDO_NOT_READY) sleep_for_ns(100'000);
  const rondo_statistics_t seen = statistics_of(pair.comms[0]);
  CHECK(seen.total.operations == 2);
  CHECK(seen.total.exposed_ns == exposed_ns);
  CHECK(seen.total.in_flight_ns >= rest_ns);
  REQUIRE(rondo_event_destroy(event) == RONDO_OK);
}

TEST_CASE("statistics: several ranks that wait at once count once") {
  Pair pair;
  pair.enqueue(0);
  std::thread late([&] {
    rest();
    pair.enqueue(1);
  });
  const uint64_t begin_ns = now_ns();
  std::vector<std::thread> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.emplace_back([&] { expect_ok(rondo_stream_synchronize(pair.streams[0])); });
  for (std::thread &each : waiting) each.join();
  const uint64_t waited_ns = now_ns() - begin_ns;
  late.join();
  REQUIRE(rondo_stream_synchronize(pair.streams[1]) == RONDO_OK);
  CHECK(statistics_of(pair.comms[0]).total.exposed_ns <= waited_ns);
}

TEST_CASE("statistics: a struct that is too small, or none, is refused") {
  Pair pair;
  rondo_statistics_t statistics = RONDO_STATISTICS_INIT;
  statistics.size -= 1;
  CHECK(rondo_comm_statistics(pair.comms[0], &statistics) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_statistics(pair.comms[0], nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_statistics(nullptr, &statistics) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("statistics: a stranger's counters are no longer than the communicator's life, whatever they hold") {
  shm::SegmentShape shape;
  shape.geometry = {2, 64, 64};
  const auto segment = shm::Segment::create({1, 2}, shape);
  REQUIRE(segment.ok());
  shm::CollectiveCounters &counters = segment.value()->board(0).counters.collectives[2];
  counters = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  const shm::SegmentRecording recording(segment.value());
  const RecordedStatistics seen = recording.statistics(0);
  const uint64_t age_ns = now_ns() - recording.made_ns();
  CHECK(seen.collectives[2].operations == UINT64_MAX);
  CHECK(seen.collectives[2].in_flight_ns <= age_ns);
  CHECK(seen.collectives[2].exposed_ns <= seen.collectives[2].in_flight_ns);
}
