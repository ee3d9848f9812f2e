// SPDX-License-Identifier: Apache-2.0
// This file makes two ends of any network with their links, and runs an exchange over them in an order from a seed.
#pragma once

#include <array>
#include <cstdlib>
#include <memory>
#include <random>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "tests/net/side.h"
#include "tests/net/soft_network.h"
#include "tests/net/ucx_pair.h"
#include "tests/net/verbs_pair.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "transports/tcp/tcp_network.h"

namespace rondo::net_test {

using rondo_test::seed_from_environment;

inline constexpr uint64_t rounds_max = 200'000;
inline constexpr uint64_t long_patience_ns = 60'000'000'000;

inline uint64_t from_environment(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

/// Says whether only a quarter of the seeds runs, as at the gate.
inline bool has_few_seeds() { return rondo_test::gate_quarter().has_value(); }
inline uint64_t seed_count() { return from_environment("RONDO_NETWORK_SEEDS", has_few_seeds() ? 250 : 1'000); }

/// The calls to one end's network, and the events that it returned.
struct Told {
  uint64_t arrived = 0;
  uint64_t credits = 0;
  uint64_t calls = 0;
  uint64_t calls_out_of_context = 0;  ///< calls without the device current, if the network has device memory
};

/// Returns a key for tags of frames.
inline wire::Key test_key(uint32_t number) {
  wire::Key key;
  key.fill(static_cast<std::byte>(17 + number));
  return key;
}

class CountedNetwork final : public net::Network {
 public:
  /// Makes the end. If `device` is not null, the links have slots in it.
  CountedNetwork(std::unique_ptr<net::Network> network, Told &told, std::shared_ptr<const TestRdmaMemory> device)
      : network_(std::move(network)), told_(told), device_(std::move(device)) {}
  ~CountedNetwork() override { count_call(); }

  const char *name() const override { return network_->name(); }
  bool put(uint32_t link, const net::Message &message) override { return counted().put(link, message); }
  bool credit(uint32_t link, uint64_t consumed) override { return counted().credit(link, consumed); }
  uint32_t poll(std::span<net::Event> events) override {
    const uint32_t count = counted().poll(events);
    for (const net::Event &event : events.first(count)) {
      told_.arrived += event.kind == net::Event::Kind::arrived ? 1 : 0;
      told_.credits += event.kind == net::Event::Kind::credit ? 1 : 0;
    }
    return count;
  }
  bool flushed() const override { return counted().flushed(); }
  void watch(std::vector<pollfd> &descriptors) const override { counted().watch(descriptors); }
  Error why_lost(uint32_t peer) const override { return counted().why_lost(peer); }
  Result<void> takes_device_memory() const override { return network_->takes_device_memory(); }

 private:
  void count_call() const {
    ++told_.calls;
    told_.calls_out_of_context += device_ != nullptr && !device_->is_current() ? 1 : 0;
  }
  [[nodiscard]] net::Network &counted() const {
    count_call();
    return *network_;
  }

  const std::unique_ptr<net::Network> network_;
  Told &told_;
  const std::shared_ptr<const TestRdmaMemory> device_;
};

struct Pair {
  explicit Pair(uint64_t first_counter = 0) : sides{Side(0, first_counter), Side(1, first_counter)} {}

  std::unique_ptr<Wire> wire;  ///< of the network in software; outlives its ends
  std::array<Told, 2> told;    ///< outlives the networks, which count in it
  Side sides[2];
  uint64_t patience_ns = 0;  ///< least duration of loops besides their rounds: devices and kernels need real time

  void serve(Side &side, std::unique_ptr<net::Network> network) {
    side.progress = std::make_unique<net::Progress>(
        side.memory.links, std::make_unique<CountedNetwork>(std::move(network), told[side.number], side.device),
        side.device);
  }

  static void connect_soft(Pair &pair, const WirePlan &plan) {
    pair.wire = std::make_unique<Wire>(plan, std::array{pair.sides[0].memory.links, pair.sides[1].memory.links});
    for (Side &side : pair.sides) pair.serve(side, pair.wire->end(side.number));
  }

  static void take(Pair &pair, NetworkPair made) {
    pair.patience_ns = long_patience_ns;
    for (Side &side : pair.sides) pair.serve(side, std::move(made.networks[side.number]));
  }

  /// Returns what each side passes to its network.
  [[nodiscard]] std::array<NetworkEnd, 2> ends() const {
    return {NetworkEnd{sides[0].memory.links, sides[0].device.get()},
            NetworkEnd{sides[1].memory.links, sides[1].device.get()}};
  }

  static void connect_ucx(Pair &pair, const char *rendezvous_bytes) {
    take(pair, connect_ucx_pair(pair.ends(), rendezvous_bytes));
  }

  static void connect_verbs(Pair &pair, uint32_t pairs_per_rail) {
    take(pair, connect_verbs_pair(pair.ends(), pairs_per_rail));
  }

  enum class Tags { off, on };
  static void connect_tcp(Pair &pair, uint32_t socket_count, Tags tags = Tags::off) {
    pair.patience_ns = long_patience_ns;
    std::array<std::vector<tcp::PeerSocket>, 2> sockets;
    for (uint32_t index = 0; index < socket_count; ++index) {
      auto ends = connected_sockets();
      const std::array keys{test_key(2 * index), test_key(2 * index + 1)};  // by sender
      for (uint32_t side = 0; side < 2; ++side) {
        sockets[side].push_back({1 - side, std::move(ends[side]), "the other side", index});
        if (tags == Tags::on) sockets[side].back().frame_keys = {keys[side], keys[1 - side]};
      }
    }
    for (Side &side : pair.sides) {
      auto network = tcp::make_network(side.memory.links, std::move(sockets[side.number]));
      REQUIRE(network.ok());
      pair.serve(side, std::move(network).value());
    }
  }
};

/// Limits the rounds of a loop.
class Rounds {
 public:
  explicit Rounds(uint64_t for_ns) : deadline_ns_(now_ns() + for_ns) {}
  explicit Rounds(const Pair &pair) : Rounds(pair.patience_ns) {}
  bool next() { return ++round_ <= rounds_max || now_ns() < deadline_ns_; }

 private:
  uint64_t round_ = 0;
  uint64_t deadline_ns_;
};

enum class Outcome { right, wrong, stuck, lost };

/// Makes both sides post `slots` slots on each link and receive the same number, in an order from the seed.
inline Outcome exchange(Pair &pair, uint64_t slots, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Rounds rounds(pair); rounds.next();) {
    bool all = true;
    for (Side &side : pair.sides) {
      for (uint32_t link = 0; link < channel_count; ++link) {
        if (random() % 2 == 0) side.post(link, slots);
        if (random() % 2 == 0) side.receive(link);
        all &= side.posted[link] == slots && side.received[link] == slots;
      }
      if (random() % 3 != 0) side.progress->step();
      if (side.wrong || pair.told[side.number].calls_out_of_context != 0) return Outcome::wrong;
    }
    if (all) return Outcome::right;
  }
  return Outcome::stuck;
}

}  // namespace rondo::net_test
