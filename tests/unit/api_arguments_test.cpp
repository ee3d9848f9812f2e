// SPDX-License-Identifier: Apache-2.0
// These tests make calls that the C interface refuses. A refusal must leave everything as it was.
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/living_threads.h"
#include "tests/unit/ranks.h"

using rondo_test::all_ok;
using rondo_test::error_message;
using rondo_test::Ranks;

namespace {

constexpr auto refused = RONDO_ERROR_INVALID_ARGUMENT;

std::array<float, 64> a;
std::array<float, 64> b;

/// Checks that the communicator still works, after whatever was refused.
void check_works(Ranks &ranks) {
  const auto sums = ranks.each<double>([](int rank, rondo_comm_t comm) {
    double value = rank + 1;
    return rondo_all_reduce(&value, &value, 1, RONDO_FLOAT64, RONDO_SUM, comm, nullptr) == RONDO_OK ? value : -1;
  });
  for (const double sum : sums) CHECK(sum == ranks.size() * (ranks.size() + 1) / 2);
}

}  // namespace

TEST_CASE("collectives: null pointers, unknown enums and bad roots are refused with what is wrong") {
  Ranks ranks(2);
  REQUIRE(ranks.status() == RONDO_OK);
  const rondo_comm_t comm = ranks[0];
  const auto type = RONDO_FLOAT32;
  CHECK(rondo_all_reduce(nullptr, b.data(), 1, type, RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("send is NULL"));
  CHECK(rondo_all_reduce(a.data(), nullptr, 1, type, RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("recv is NULL"));
  CHECK(rondo_all_reduce(a.data(), b.data(), 1, static_cast<rondo_type_t>(12), RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("known are: int8, uint8"));
  CHECK(rondo_all_reduce(a.data(), b.data(), 1, type, static_cast<rondo_op_t>(5), comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("known are: sum, prod, min, max, avg"));
  CHECK(rondo_broadcast(a.data(), b.data(), 1, type, 2, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("root is 2; it must be a rank, 0 to 1"));
  CHECK(rondo_reduce(a.data(), b.data(), 1, type, RONDO_SUM, -1, comm, nullptr) == refused);
  CHECK(rondo_all_gather_v(a.data(), b.data(), nullptr, nullptr, type, comm, nullptr) == refused);
  CHECK(rondo_all_gather(nullptr, b.data(), 1, type, comm, nullptr) == refused);
  CHECK(rondo_reduce_scatter(a.data(), nullptr, 1, type, RONDO_SUM, comm, nullptr) == refused);
  check_works(ranks);
}

TEST_CASE("collectives: sizes that do not fit the address space are refused") {
  Ranks ranks(2);
  const rondo_comm_t comm = ranks[0];
  const size_t most = std::numeric_limits<size_t>::max();
  CHECK(rondo_all_reduce(a.data(), b.data(), most / 4 + 1, RONDO_FLOAT32, RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("overflows"));
  CHECK(rondo_all_gather(a.data(), b.data(), most / 4, RONDO_FLOAT32, comm, nullptr) == refused);
  CHECK(rondo_all_reduce(a.data(), b.data(), most / 4, RONDO_FLOAT32, RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("end of the address space"));
  const size_t counts[2] = {most - 1, 5};
  CHECK(rondo_all_gather_v(a.data(), b.data(), counts, nullptr, RONDO_INT8, comm, nullptr) == refused);
  check_works(ranks);
}

TEST_CASE("collectives: buffers may coincide as in place, or be disjoint, and nothing else") {
  Ranks ranks(2);
  const rondo_comm_t comm = ranks[1];
  const auto type = RONDO_FLOAT32;
  CHECK(rondo_all_reduce(a.data(), a.data() + 1, 8, type, RONDO_SUM, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("overlap"));
  CHECK(rondo_all_gather(a.data(), a.data(), 8, type, comm, nullptr) == refused);  // rank 1's block is at 8
  CHECK(rondo_reduce_scatter(a.data(), a.data(), 8, type, RONDO_SUM, comm, nullptr) == refused);
  const size_t counts[2] = {4, 4};
  const size_t displacements[2] = {0, 3};
  CHECK(rondo_all_gather_v(b.data(), a.data(), counts, displacements, type, comm, nullptr) == refused);
  CHECK_THAT(error_message(), Contains("blocks of ranks 0 and 1 overlap"));
  check_works(ranks);
}

TEST_CASE("init: a size above what the store of a communicator accepts is refused at once") {
  std::vector<rondo_comm_t> comms(4097);
  CHECK(rondo_comm_init_all(comms.data(), 4097, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK_THAT(error_message(), Contains("size is 4097; a communicator has 1 to 4096 ranks"));
  rondo_unique_id_t id{};
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  CHECK(rondo_comm_init(comms.data(), &id, 0, 4097, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_comm_init_ids(comms.data(), &id, 1, 0, 4097, nullptr) == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_unique_id_free(&id) == RONDO_OK);
}

TEST_CASE("handles: a destroyed, null or foreign one is recognised") {
  rondo_comm_t comm = nullptr;
  REQUIRE(rondo_comm_init_all(&comm, 1, nullptr) == RONDO_OK);
  rondo_stream_t stream = nullptr;
  REQUIRE(rondo_stream_create(&stream) == RONDO_OK);
  CHECK(rondo_barrier(static_cast<rondo_comm_t>(stream), nullptr) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_barrier(comm, comm) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_stream_destroy(stream) == RONDO_OK);
  CHECK(rondo_barrier(comm, stream) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_barrier(comm, nullptr) == RONDO_OK);
  CHECK(rondo_comm_destroy(comm) == RONDO_OK);
  CHECK(rondo_barrier(comm, nullptr) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_destroy(comm) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_barrier(nullptr, nullptr) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_abort(nullptr) == RONDO_ERROR_INVALID_HANDLE);
}

TEST_CASE("a unique id that is not used: freeing it gives back its descriptors and its thread, once or twice") {
  const auto held = [] {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})) +
           rondo_test::living_threads();
  };
  const size_t before = held();
  rondo_unique_id_t id{};
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  CHECK(held() >= before + 4);
  CHECK(rondo_unique_id_free(&id) == RONDO_OK);
  CHECK(held() == before);
  CHECK(rondo_unique_id_free(&id) == RONDO_OK);  // a second free is accepted, as for an id of another process
  rondo_comm_t comm = nullptr;
  CHECK(rondo_comm_init(&comm, &id, 0, 1, nullptr) == RONDO_ERROR_REMOTE);
  // A failed initialisation gives the id's resources back as well.
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  rondo_config_t hasty = RONDO_CONFIG_INIT;
  hasty.init_timeout_ms = 20;
  CHECK(rondo_comm_init(&comm, &id, 0, 2, &hasty) == RONDO_ERROR_TIMEOUT);
  CHECK(held() == before);
  id.internal[7] ^= 1;
  CHECK(rondo_unique_id_free(&id) == refused);
  CHECK(rondo_unique_id_free(nullptr) == refused);
}

TEST_CASE("several unique ids: the first makes the communicator, and each rank discards its own others") {
  const auto held = [] {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})) +
           rondo_test::living_threads();
  };
  const size_t before = held();
  std::array<rondo_unique_id_t, 4> ids{};
  for (const size_t each : {0u, 1u, 3u}) REQUIRE(rondo_get_unique_id(&ids[each], nullptr) == RONDO_OK);
  ids[2] = ids[0];  // which must not be discarded
  const size_t with_ids = held();
  rondo_comm_t comm = nullptr;
  const auto init = [&](rondo_comm_t *made, const rondo_unique_id_t *from, int count, int rank, int size) {
    return rondo_comm_init_ids(made, from, count, rank, size, nullptr);
  };
  CHECK(init(nullptr, ids.data(), 4, 0, 1) == refused);
  CHECK(init(&comm, nullptr, 4, 0, 1) == refused);
  CHECK(init(&comm, ids.data(), 0, 0, 1) == refused);
  CHECK_THAT(error_message(), Contains("id_count is 0; it must be 1 or more"));
  CHECK(init(&comm, ids.data(), 4, 2, 2) == refused);
  ids[3].internal[7] ^= 1;
  CHECK(init(&comm, ids.data(), 4, 0, 1) == refused);
  CHECK_THAT(error_message(), Contains("ids[3]: "));
  ids[3].internal[7] ^= 1;
  CHECK((comm == nullptr && held() == with_ids));
  std::array<rondo_comm_t, 2> comms{};
  std::array<rondo_status_t, 2> made{};
  std::thread other([&] { made[1] = init(&comms[1], ids.data(), 4, 1, 2); });
  made[0] = init(&comms[0], ids.data(), 4, 0, 2);
  other.join();
  CHECK((made[0] == RONDO_OK && made[1] == RONDO_OK));
  CHECK(rondo_comm_init(&comm, &ids[1], 0, 1, nullptr) == RONDO_ERROR_REMOTE);  // discarded
  for (const rondo_comm_t each : comms) CHECK(rondo_comm_destroy(each) == RONDO_OK);
  CHECK(held() == before);
}

TEST_CASE("initialisation: bad arguments and configurations are refused with the list of what is known") {
  rondo_comm_t comm = nullptr;
  rondo_unique_id_t id{};
  CHECK(rondo_comm_init(&comm, &id, 0, 1, nullptr) == refused);  // not an id
  CHECK(rondo_comm_init(&comm, nullptr, 0, 1, nullptr) == refused);
  REQUIRE(rondo_get_unique_id(&id, nullptr) == RONDO_OK);
  CHECK(rondo_comm_init(nullptr, &id, 0, 1, nullptr) == refused);
  CHECK(rondo_comm_init(&comm, &id, 1, 1, nullptr) == refused);
  CHECK(rondo_comm_init(&comm, &id, 0, 0, nullptr) == refused);
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.kernel = static_cast<rondo_kernel_t>(3);
  CHECK(rondo_comm_init(&comm, &id, 0, 1, &config) == refused);
  CHECK_THAT(error_message(), Contains("interpreter, load_store"));
  config = RONDO_CONFIG_INIT;
  config.channels = 9;
  CHECK(rondo_comm_init(&comm, &id, 0, 1, &config) == refused);
  config = RONDO_CONFIG_INIT;
  config.device = 1'000'000;
  const rondo_status_t no_device = rondo_comm_init(&comm, &id, 0, 1, &config);  // UNSUPPORTED without a driver
  CHECK((no_device == RONDO_ERROR_UNSUPPORTED || no_device == refused));
  config = RONDO_CONFIG_INIT;
  config.size = 3;
  CHECK(rondo_comm_init(&comm, &id, 0, 1, &config) == refused);
  CHECK(comm == nullptr);
  CHECK(rondo_comm_init(&comm, &id, 0, 1, nullptr) == RONDO_OK);
  CHECK(rondo_comm_destroy(comm) == RONDO_OK);
}

TEST_CASE("initialisation: an algorithm that cannot do a collective is answered with those that can") {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = RONDO_ALGORITHM_HALVING_DOUBLING;
  Ranks ranks(2, config);
  REQUIRE(ranks.status() == RONDO_OK);
  CHECK(rondo_broadcast(a.data(), b.data(), 1, RONDO_FLOAT32, 0, ranks[0], nullptr) == RONDO_ERROR_UNSUPPORTED);
  CHECK_THAT(error_message(), Contains("ring"));
  check_works(ranks);
}

TEST_CASE("structs with a size: an older caller gets what it knows, none at all is refused") {
  Ranks ranks(1);
  rondo_comm_properties_t properties = RONDO_COMM_PROPERTIES_INIT;
  properties.size = 4;
  CHECK(rondo_comm_get_properties(ranks[0], &properties) == refused);
  CHECK(rondo_comm_get_properties(ranks[0], nullptr) == refused);
  properties = RONDO_COMM_PROPERTIES_INIT;
  REQUIRE(rondo_comm_get_properties(ranks[0], &properties) == RONDO_OK);
  CHECK(properties.size == sizeof properties);
  CHECK(properties.rank_count == 1);
  rondo_plan_info_t info{};
  CHECK(rondo_comm_query_plan(ranks[0], RONDO_ALL_REDUCE, 1, RONDO_INT8, &info) == refused);
  info = RONDO_PLAN_INFO_INIT;
  CHECK(rondo_comm_query_plan(ranks[0], static_cast<rondo_collective_t>(7), 1, RONDO_INT8, &info) == refused);
  CHECK(rondo_comm_query_plan(ranks[0], RONDO_ALL_REDUCE, 1, RONDO_INT8, &info) == RONDO_OK);
  CHECK(info.algorithm != RONDO_ALGORITHM_AUTO);
}

TEST_CASE("registration: what overlaps, is empty or unknown is refused") {
  Ranks ranks(2);
  std::vector<char> memory(100'000);
  rondo_registration_t first = nullptr;
  rondo_registration_t second = nullptr;
  CHECK(rondo_comm_register(ranks[0], memory.data(), 0, 0, &first) == refused);
  CHECK(rondo_comm_register(ranks[0], nullptr, 1, 0, &first) == refused);
  CHECK(rondo_comm_register(ranks[0], memory.data(), 1, 4, &first) == refused);
  REQUIRE(rondo_comm_register(ranks[0], memory.data(), 50'000, 0, &first) == RONDO_OK);
  CHECK(rondo_comm_register(ranks[0], memory.data() + 49'999, 10, 0, &second) == refused);
  CHECK(rondo_comm_register(ranks[0], memory.data() + 50'000, 50'000, RONDO_REGISTER_MOVE_PAGES, &second) == RONDO_OK);
  CHECK(rondo_comm_deregister(ranks[1], first) == refused);
  CHECK(rondo_comm_deregister(ranks[0], first) == RONDO_OK);
  CHECK(rondo_comm_deregister(ranks[0], first) == RONDO_ERROR_INVALID_HANDLE);
  CHECK(rondo_comm_destroy(ranks[0]) == RONDO_OK);  // ends the second registration
  CHECK(rondo_comm_deregister(ranks[1], second) == RONDO_ERROR_INVALID_HANDLE);
  ranks.forget(0);
  memory[60'000] = 1;  // the pages belong to the caller again
  CHECK(memory[60'000] == 1);
}
