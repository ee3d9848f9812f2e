// SPDX-License-Identifier: Apache-2.0
// These tests send messages between ranks of several hosts, which are threads of one process (group_world.h): contents,
// random programs, and each way to fail.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include "tests/catch.h"
#include "tests/message_caller.h"
#include "tests/net/group_world.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "tests/test_clock.h"

using namespace rondo;
using Catch::Matchers::Contains;
using rondo_test::HeldClock;
using rondo_test::Item;
using rondo_test::MessageProgram;
using rondo_test::run_ranks;
using rondo_test::World;

namespace {

constexpr size_t large = 8u << 20;  // more than a pair's slots and sockets hold

Message message(bool sends, uint32_t peer, void *data, size_t bytes, rondo_type_t type = RONDO_INT8) {
  return {peer, sends, type, static_cast<std::byte *>(data), bytes};
}

Result<void> send(Communicator &comm, uint32_t peer, void *data, size_t bytes, rondo_type_t type = RONDO_INT8) {
  RONDO_TRY(comm.open_messages());
  const Message one = message(true, peer, data, bytes, type);
  return comm.submit({}, {&one, 1}, {});
}

Result<void> receive(Communicator &comm, uint32_t peer, void *data, size_t bytes, rondo_type_t type = RONDO_INT8) {
  RONDO_TRY(comm.open_messages());
  const Message one = message(false, peer, data, bytes, type);
  return comm.submit({}, {&one, 1}, {});
}

Result<void> meet(Communicator &comm) {
  Call call;
  call.signature = {RONDO_BARRIER, RONDO_UINT8, RONDO_MAX, 0, 1, 0};
  return comm.submit(call, {});
}

void nap() { sleep_for_ns(1'000'000); }

/// Returns the errors of `body`, by rank. A rank that fails stays until all have failed.
std::vector<Error> fail_on(World &world, const std::function<Result<void>(uint32_t, Communicator &)> &body) {
  std::vector<Error> told(world.rank_count());
  std::atomic<uint32_t> done = 0;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    const auto result = body(rank, comm);
    if (!result.ok()) told[rank] = result.error();
    ++done;
    while (done < world.rank_count()) nap();  // bounded by the timeout of the operations
    return true;
  });
  CHECK(wrong.empty());
  return told;
}

/// Checks that all ranks have the status, and a message that contains `part`.
void check_all(const std::vector<Error> &told, rondo_status_t status, const std::string &part) {
  for (const Error &each : told) {
    CHECK(each.status == status);
    CHECK_THAT(each.message, Contains(part));
  }
}

/// Lets every rank exchange messages with all ranks, itself included, in one group.
bool exchange_all(uint32_t rank, Communicator &comm, size_t bytes) {
  const uint32_t ranks = comm.rank_count();
  std::vector<std::vector<std::byte>> out(ranks), in(ranks, std::vector<std::byte>(bytes));
  std::vector<Message> messages;
  const auto contents = [&](uint32_t from, uint32_t to) {
    return rondo_test::contents_of({false, rondo_test::Exchange::none, 0, from, to, bytes, uint64_t{from} * 97 + to});
  };
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    out[peer] = contents(rank, peer);
    messages.push_back(message(true, peer, out[peer].data(), bytes));
    messages.push_back(message(false, peer, in[peer].data(), bytes));
  }
  if (!comm.open_messages().ok() || !comm.submit({}, messages, {}).ok()) return false;
  for (uint32_t peer = 0; peer < ranks; ++peer)
    if (!rondo_test::same_bytes(in[peer], contents(peer, rank))) return false;
  return true;
}

/// A rank that runs a random program, and checks what it receives.
class Runner {
 public:
  Runner(const MessageProgram &program, uint32_t rank, Communicator &comm)
      : program_(program), rank_(rank), comm_(comm), buffers_(2 * program.items.size()) {}

  Result<void> run() {
    RONDO_TRY(comm_.open_messages());
    const auto &cuts = program_.cuts[rank_];
    for (size_t each = 0; each < cuts.size(); ++each) {
      calls_.clear();
      messages_.clear();
      const size_t end = each + 1 < cuts.size() ? cuts[each + 1] : program_.items.size();
      for (size_t index = cuts[each]; index < end; ++index) add(index);
      RONDO_TRY(comm_.submit(calls_, messages_, {}));
    }
    return right() ? Result<void>() : Error{RONDO_ERROR_INTERNAL, "wrong contents"};
  }

 private:
  void add(size_t index) {
    const Item &item = program_.items[index];
    std::vector<std::byte> &out = buffers_[2 * index], &in = buffers_[2 * index + 1];
    if (item.collective) {
      out.resize(item.bytes);
      for (size_t i = 0; i < item.bytes / 4; ++i) {
        const int32_t value = rondo_test::contribution(item, rank_, i);
        std::memcpy(&out[4 * i], &value, 4);
      }
      const Signature signature{RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, item.bytes / 4, 0};
      calls_.push_back({signature, out.data(), out.data(), true});
      return;
    }
    if (item.from == rank_) {
      out = contents_of(item);
      messages_.push_back(message(true, item.to, out.data(), item.bytes));
    }
    if (item.to != rank_) return;
    in.resize(item.bytes);
    messages_.push_back(message(false, item.from, in.data(), item.bytes));
  }

  [[nodiscard]] bool right() const {
    for (size_t index = 0; index < program_.items.size(); ++index) {
      const Item &item = program_.items[index];
      if (item.collective && !rondo_test::are_sums(buffers_[2 * index], item, program_.rank_count)) return false;
      if (item.collective || item.to != rank_) continue;
      if (!rondo_test::same_bytes(buffers_[2 * index + 1], contents_of(item))) return false;
    }
    return true;
  }

  const MessageProgram &program_;
  const uint32_t rank_;
  Communicator &comm_;
  std::vector<std::vector<std::byte>> buffers_;  ///< by item: sent and received bytes
  std::vector<Call> calls_;
  std::vector<Message> messages_;
};

/// Runs a program of up to 6 ranks, which are on 2 or 3 hosts as the seed says.
void run_program(uint64_t seed) {
  INFO("RONDO_SEED=" << seed);
  rondo_test::ProgramMaker::Limits limits;
  limits.ranks_max = 6;
  limits.comms_max = 1;
  const MessageProgram program = rondo_test::ProgramMaker(seed, limits).make();
  const uint32_t host_count = 2 + static_cast<uint32_t>(seed % 2);
  std::vector<uint32_t> node_of;
  for (uint32_t rank = 0; rank < program.rank_count; ++rank)
    node_of.push_back(seed % 3 == 0 ? rank % host_count : rank * host_count / program.rank_count);
  World world(node_of);
  if (seed % 5 == 0) world.settings.slot_bytes = 4096;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    auto result = Runner(program, rank, comm).run();
    if (result.ok()) result = comm.finalize();
    if (!result.ok()) std::fprintf(stderr, "rank %u: %s\n", rank, result.error().message.c_str());
    return result.ok();
  });
  CHECK(wrong == std::vector<uint32_t>());
}

}  // namespace

TEST_CASE("messages between hosts: all ranks exchange with all, whatever the size and the placement", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1}, {0, 0, 1, 1}, {0, 1, 0, 2, 2}}) {
    World world(node_of);
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      for (const size_t bytes : std::vector<size_t>{0, 1, 8, 33, 4096, 200'000, 3u << 20})
        if (!exchange_all(rank, comm, bytes)) return false;
      return comm.finalize().ok();
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("messages between hosts: pairs that no schedule connects have links, and no other cost before", "[net]") {
  World world({0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2});
  world.group.oversubscribed = false;
  world.settings.wait = WaitMode::sleep;
  std::atomic<uint32_t> unlinked = 0;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    for (uint32_t peer = 0; peer < comm.rank_count(); ++peer)
      if (world.group.node_of(peer) != world.group.node_of(rank))
        unlinked += comm.links().carries_plans(peer) ? 0 : 1;
    return meet(comm).ok() && exchange_all(rank, comm, 3000) && meet(comm).ok() && exchange_all(rank, comm, 70'000) &&
           comm.finalize().ok();
  });
  CHECK(wrong == std::vector<uint32_t>());
  CHECK(unlinked > 0);
}

TEST_CASE("messages between hosts: random messages, groups and collectives yield what they must", "[net]") {
  rondo_test::GateShare share("programs of messages between hosts", std::getenv("RONDO_SEED") == nullptr);
  rondo_test::for_each_seed(100, [&](uint64_t seed) {
    if (share.has_next()) run_program(seed);
  });
}

TEST_CASE("messages between hosts: ends of different sizes are told on all ranks, with both sizes", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1}, {0, 1, 0, 2, 3, 4}}) {
    World world(node_of);
    const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
      std::vector<char> own(8192);
      if (rank == 0) {
        RONDO_TRY(send(comm, 1, own.data(), 16));
        RONDO_TRY(send(comm, 1, own.data(), 8192, RONDO_FLOAT16));
      }
      if (rank == 1) {
        RONDO_TRY(receive(comm, 0, own.data(), 16));
        RONDO_TRY(receive(comm, 0, own.data(), 4096, RONDO_FLOAT32));
      }
      return meet(comm);
    });
    check_all(told, RONDO_ERROR_MISMATCH,
              "rank 1 receives message 2 from rank 0 as 4096 bytes (float32), rank 0 sent 8192 bytes (float16)");
  }
}

TEST_CASE("messages between hosts: the deadline tells what the peer has called, and what it does", "[net]") {
  World world({0, 1});
  world.settings.timeout_ns = 1'000'000'000;
  std::atomic<bool> here = false, has_sent = false, over = false;
  std::optional<HeldClock> clock;
  const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
    char own = 0;
    if (rank == 1) {
      here = true;
      const auto sent = send(comm, 0, &own, 1);
      has_sent = true;
      while (!over) nap();
      return sent.ok() ? meet(comm) : sent;
    }
    while (!here) nap();
    clock.emplace();  // the first message may come late
    const auto first = receive(comm, 1, &own, 1);
    while (!has_sent) nap();
    clock.reset();
    const auto result = receive(comm, 1, &own, 1);
    over = true;
    return first.ok() ? result : first;
  });
  check_all(told, RONDO_ERROR_TIMEOUT, "receive 2 from rank 1 on rank 0 timed out");
  CHECK_THAT(told[0].message, Contains("has called rondo_send 1 times to rank 0"));
  CHECK_THAT(told[0].message, Contains("is in no operation; it has completed 0 collectives and 1 batches"));
}

TEST_CASE("messages between hosts: what a rank sent before it left is received, then its end is told", "[net]") {
  World world({0, 1});
  std::atomic<bool> left = false;
  std::optional<HeldClock> clock;
  Error told;
  const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
    int32_t values[3] = {7, 8, 9};
    if (rank == 1) {
      for (int32_t &value : values)
        if (!send(comm, 0, &value, sizeof value).ok()) return false;
      comm.close();
      left = true;
      return true;
    }
    while (!left) nap();
    clock.emplace();  // a receive waits half a second for data of an ended rank, which may take longer
    bool right = true;
    for (const int32_t value : values) {
      int32_t received = 0;
      right = right && receive(comm, 1, &received, sizeof received).ok() && received == value;
    }
    clock.reset();
    if (!right) return false;
    const auto result = receive(comm, 1, values, sizeof values[0]);
    if (!result.ok()) told = result.error();
    return true;
  });
  CHECK(wrong == std::vector<uint32_t>());
  CHECK(told.status == RONDO_ERROR_REMOTE);
  CHECK_THAT(told.message, Contains("has destroyed its communicator; rank 0 waits in receive 4 from rank 1"));
}

TEST_CASE("messages between hosts: one that nobody receives is told by finalize, on all ranks", "[net]") {
  for (const std::vector<uint32_t> &node_of : {std::vector<uint32_t>{0, 1, 0}, {0, 0, 1}, {0, 1, 2, 3, 3}}) {
    World world(node_of);
    const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
      int32_t own = 0;
      for (int each = 0; rank == 0 && each < 2; ++each) RONDO_TRY(send(comm, 1, &own, sizeof own));
      if (rank == 1) RONDO_TRY(receive(comm, 0, &own, sizeof own));
      while (rank == 1 && comm.probe(0).value() != 1) nap();  // the second message arrives soon
      return comm.finalize();
    });
    check_all(told, RONDO_ERROR_MISMATCH, "sent 2 messages to rank 1, which received 1 of them");
  }
}

TEST_CASE("messages between hosts: to a rank that calls none, finalize tells them", "[net]") {
  World world({0, 1, 2});
  const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
    int32_t own = 0;
    if (rank == 2) RONDO_TRY(send(comm, 1, &own, sizeof own));
    return comm.finalize();
  });
  check_all(told, RONDO_ERROR_MISMATCH, "sent 1 messages to rank 1, which received 0 of them");
}

TEST_CASE("messages between hosts: an abort ends what waits", "[net]") {
  World world({0, 1});
  const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
    int32_t own = 0;
    if (rank == 0) return receive(comm, 1, &own, sizeof own);
    comm.abort();
    return send(comm, 0, &own, sizeof own);
  });
  check_all(told, RONDO_ERROR_ABORTED, "has called rondo_comm_abort");
}

TEST_CASE("messages between hosts: a circle of sends without room is told, on one host and across hosts", "[net]") {
  for (const uint32_t peer_host : {0u, 1u}) {
    World world({0, peer_host, 1});
    const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
      std::vector<char> own(large);
      if (rank == 2) return meet(comm);
      RONDO_TRY(send(comm, 1 - rank, own.data(), large));
      return receive(comm, 1 - rank, own.data(), large);
    });
    check_all(told, RONDO_ERROR_MISMATCH, "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0");
  }
}

TEST_CASE("messages between hosts: a circle of small messages that fill all slots is told", "[net]") {
  World world({0, 1});
  const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
    int32_t value = 0;
    for (int each = 0; each < 1000; ++each) RONDO_TRY(send(comm, 1 - rank, &value, sizeof value));
    for (int each = 0; each < 1000; ++each) RONDO_TRY(receive(comm, 1 - rank, &value, sizeof value));
    return {};
  });
  check_all(told, RONDO_ERROR_MISMATCH, "ranks wait for each other: rank 0 waits in send ");
}

TEST_CASE("messages between hosts: a circle of receives and a collective over three hosts is told", "[net]") {
  for (const bool collective : {false, true}) {
    World world({0, 1, 2});
    const auto told = fail_on(world, [&](uint32_t rank, Communicator &comm) -> Result<void> {
      int32_t own = 0;
      if (rank == 2 && collective) return meet(comm);
      return receive(comm, (rank + 1) % 3, &own, sizeof own);
    });
    // The barrier waits for both other ranks, so the reported circle may lead through either of them.
    check_all(told, RONDO_ERROR_MISMATCH,
              collective ? "waits in receive 1 from rank 2, which waits in operation 1 (barrier) for rank "
                         : "rank 0 waits in receive 1 from rank 1, which waits in receive 1 from rank 2, which waits "
                           "in receive 1 from rank 0");
  }
}

TEST_CASE("messages between hosts: a rank that waits for one that computes is not accused", "[net]") {
  for (const std::vector<uint32_t> &hosts : {std::vector<uint32_t>{0, 0, 1}, {0, 1, 0}, {0, 1, 2}}) {
    World world(hosts);
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      std::vector<char> own(large);
      // Rank 0 waits for rank 1, and rank 1 waits for rank 2, which computes longer than several searches take.
      if (rank == 2) sleep_for_ns(600'000'000);
      if (rank != 0 && !send(comm, rank - 1, own.data(), large).ok()) return false;
      return rank == 2 || receive(comm, rank + 1, own.data(), large).ok();
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("messages between hosts: above 64 ranks they are refused at the call", "[net]") {
  std::vector<uint32_t> node_of(message_ranks_max + 1, 0);
  node_of.back() = 1;
  World world(node_of);
  const auto wrong = run_ranks(world, [](uint32_t, Communicator &comm) {
    const auto refused = comm.open_messages();
    return !refused.ok() && refused.error().status == RONDO_ERROR_UNSUPPORTED &&
           refused.error().message.find("at most 64 ranks") != std::string::npos &&
           refused.error().message.find("rondo_comm_split()") != std::string::npos && comm.finalize().ok();
  });
  CHECK(wrong == std::vector<uint32_t>());
}
