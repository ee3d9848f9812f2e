// SPDX-License-Identifier: Apache-2.0
#include "tests/net/soft_network.h"

#include <algorithm>
#include <cstring>

namespace rondo::net_test {
namespace {

constexpr uint32_t piece_bytes = 64;
constexpr size_t flights_max = 3;  // per link, so that its send queue is often full
constexpr uint32_t early_percent = 30;
constexpr uint64_t silence_rounds_max = 1'000;

}  // namespace

class SoftNetwork final : public net::Network {
 public:
  SoftNetwork(Wire &wire, uint32_t own) : wire_(wire), own_(own) {}
  ~SoftNetwork() override {
    for (auto &flights : out().flights) flights.clear();  // its payloads are no longer read
    wire_.closed_[own_] = true;
  }

  const char *name() const override { return "software"; }

  bool put(uint32_t link, const net::Message &message) override {
    auto &flights = out().flights[link];
    if (flights.size() >= flights_max) return false;
    Wire::Flight flight{link, message, {}};
    for (uint32_t offset = 0; offset < message.bytes; offset += piece_bytes) flight.pieces.push_back(offset);
    std::shuffle(flight.pieces.begin(), flight.pieces.end(), wire_.random_);
    flights.push_back(std::move(flight));
    wire_.ring(1 - own_);
    return true;
  }

  bool credit(uint32_t link, uint64_t consumed) override {
    if (wire_.chance(10)) {  // the queue counts as full
      wire_.bells_[own_] = true;
      return false;
    }
    if (wire_.plan_.defect == Defect::lost_credit && wire_.chance(13)) return true;
    out().credits[link] = std::max(out().credits[link], consumed);
    wire_.ring(1 - own_);
    return true;
  }

  uint32_t poll(std::span<net::Event> events) override {
    uint32_t count = 0;
    ++wire_.rounds_;
    wire_.bells_[own_] = false;
    if (wire_.is_to_tell_loss(own_)) {
      if (wire_.plan_.defect != Defect::deaf_to_loss) events[count++] = {net::Event::Kind::lost, 0};
      wire_.told_lost_[own_] = true;
    }
    if (wire_.told_lost_[own_] || wire_.passes_nothing(own_)) return count;
    for (uint32_t link = 0; link < in().flights.size() && count + 2 <= events.size(); ++link) {
      take_credit(link, events, count);
      take_slot(link, events, count);
      wire_.bells_[own_] |= !in().flights[link].empty() || in().credits[link] != 0;
    }
    return count;
  }

  bool flushed() const override {
    const Wire::Direction &direction = wire_.towards_[1 - own_];
    return std::all_of(direction.flights.begin(), direction.flights.end(), [](const auto &all) { return all.empty(); });
  }
  void watch(std::vector<pollfd> &) const override {}
  Error why_lost(uint32_t) const override { return {RONDO_ERROR_REMOTE, "the wire was cut"}; }

 private:
  Wire::Direction &in() { return wire_.towards_[own_]; }
  Wire::Direction &out() { return wire_.towards_[1 - own_]; }

  void take_credit(uint32_t link, std::span<net::Event> events, uint32_t &count) {
    if (wire_.plan_.defect == Defect::early_credit && wire_.chance(early_percent)) {
      events[count++] = {net::Event::Kind::credit, link, ++early_credit_};
      return;
    }
    const auto &unread = out().flights[link];
    if (wire_.plan_.defect == Defect::reuse_before_sent && !unread.empty() && wire_.chance(early_percent)) {
      events[count++] = {net::Event::Kind::credit, link, unread.front().message.counter + 1};
      return;
    }
    uint64_t &credit = in().credits[link];
    if (credit == 0 || wire_.chance(50)) return;
    events[count++] = {net::Event::Kind::credit, link, credit};
    credit = 0;
  }

  void take_slot(uint32_t link, std::span<net::Event> events, uint32_t &count) {
    auto &flights = in().flights[link];
    if (flights.empty()) return;
    // Pieces of all slots in flight arrive in any order. Completions of one link arrive in order.
    for (int pieces = static_cast<int>(wire_.random_() % 6); pieces > 0; --pieces)
      wire_.deliver_piece(own_, flights[wire_.random_() % flights.size()]);
    const bool early = wire_.plan_.defect == Defect::early_arrival && wire_.chance(early_percent);
    Wire::Flight &first = flights.front();
    if (!first.pieces.empty() && !early) return;
    events[count++] = {net::Event::Kind::arrived, link, first.message.counter, first.message.signature,
                       first.message.bytes};
    if (first.message.consumed != 0) in().credits[link] = std::max(in().credits[link], first.message.consumed);
    flights.erase(flights.begin());
    wire_.ring(1 - own_);  // there is room
  }

  Wire &wire_;
  uint32_t own_;
  uint64_t early_credit_ = 0;
};

Wire::Wire(const WirePlan &plan, std::array<std::vector<net::NearLink>, 2> links)
    : plan_(plan), random_(plan.seed), links_(std::move(links)) {
  for (Direction &direction : towards_) {
    direction.flights.resize(links_[0].size());
    direction.credits.resize(links_[0].size());
  }
  for (uint64_t &rounds : silence_rounds_) rounds = random_() % silence_rounds_max;
}

bool Wire::rings(uint32_t end) {
  ++rounds_;
  return bells_[end] || is_to_tell_loss(end);
}

bool Wire::passes_nothing(uint32_t to) const {
  if (!faulty()) return false;
  return plan_.fault == Fault::cut || plan_.fault == Fault::host_1_dies ||
         plan_.fault == (to == 0 ? Fault::cut_towards_0 : Fault::cut_towards_1);
}

bool Wire::is_to_tell_loss(uint32_t end) const {
  const bool silent = faulty() && rounds_ > plan_.fault_after_rounds + silence_rounds_[end];
  return !told_lost_[end] && (silent || closed_[1 - end]);
}

std::unique_ptr<net::Network> Wire::end(uint32_t which) { return std::make_unique<SoftNetwork>(*this, which); }

void Wire::deliver_piece(uint32_t to, Flight &flight) {
  if (flight.pieces.empty()) return;
  const uint32_t offset = flight.pieces.back();
  flight.pieces.pop_back();
  const uint32_t bytes = std::min(piece_bytes, flight.message.bytes - offset);
  std::memcpy(links_[to][flight.link].incoming.payload(flight.message.counter) + offset,
              flight.message.payload + offset, bytes);
}

}  // namespace rondo::net_test
