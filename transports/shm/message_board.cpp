// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/message_board.h"

#include <algorithm>
#include <bit>

#include "src/proto/memory.h"
#include "transports/shm/segment.h"

namespace rondo::shm {
namespace {

constexpr uint64_t send_bit = 1 << 8;
constexpr uint64_t place_bits = 3;  ///< bits of DevicePlace::kind

constexpr uint64_t pack_ends(const MessageInfo &message) {
  return uint64_t{message.type & 0xFF} | (message.sends ? send_bit : 0) | uint64_t{message.peer} << 32;
}

/// Increments one of the rank's own words. The load is relaxed, because the rank is the only writer.
void increment(uint64_t &word) { memory::store_release(word, memory::load_relaxed(word) + 1); }

/// Returns the block that the board's rank sends to `with`, if the board still has its size.
std::optional<MessageInfo> find_block(const MessageBoard &board, uint32_t with, uint64_t number) {
  const uint64_t operation = number ^ block_number(0);
  if (with >= message_ranks_max || operation == 0) return std::nullopt;
  const DeviceBoard::BlockSize &size = board.device.blocks[operation % kept_block_operations][with];
  if (memory::load_acquire(size.operation) != operation) return std::nullopt;  // first look
  const MessageInfo block{with, true, 0, memory::load_acquire(size.bytes), number};
  if (memory::load_acquire(size.operation) != operation) return std::nullopt;  // second look: it changed
  return block;
}

}  // namespace

ShmMessages::ShmMessages(std::shared_ptr<Segment> segment, uint32_t rank)
    : segment_(std::move(segment)),
      rank_(rank),
      tick_source_(static_cast<TickSource>(segment_->header().tick_source)),
      own_(segment_->message_board(rank)),
      own_board_(segment_->board(rank)) {}

Result<void> ShmMessages::open() { return segment_->open_messages(); }

PairBoard &ShmMessages::own_pair(uint32_t peer) {
  if (own_pairs_ == nullptr) own_pairs_ = &segment_->pair_board(rank_, 0);
  return own_pairs_[peer];
}

void ShmMessages::announce(uint32_t peer, bool sends, uint64_t last) {
  memory::store_release(own_pair(peer).entered[sends ? 1 : 0], last);  // pairs with pair()
}

void ShmMessages::enter_batch() {
  increment(own_.batches_entered);  // pairs with batches()
  latest_ticks_ = read_ticks(tick_source_);
}

void ShmMessages::complete_batch() { increment(own_.batches_completed); }  // pairs with batches()

uint64_t ShmMessages::begin(const MessageInfo &message) {
  const uint64_t number = memory::load_relaxed(own_.records) + 1;  // relaxed: this rank's own word
  MessageRecord &record = own_.ring[number % recorded_message_count];
  memory::store_release(record.record, 0);  // pairs with the second look in timed_message()
  memory::store_release(record.ends, pack_ends(message));
  memory::store_release(record.bytes, message.bytes);
  memory::store_release(record.message, message.message);
  memory::store_release(record.begun_ticks, latest_ticks_);
  memory::store_release(record.end, 0);
  memory::store_release(record.batch, memory::load_relaxed(own_.batches_entered));  // relaxed: this rank's own word
  memory::store_release(record.record, number);  // pairs with the first look in timed_message()
  memory::store_release(own_.records, number);   // pairs with find()
  return number;
}

void ShmMessages::end(uint64_t record, OperationState state, uint64_t ticks) {
  MessageRecord &own = own_.ring[record % recorded_message_count];
  if (memory::load_relaxed(own.record) != record) return;                      // relaxed: this rank's own word
  memory::store_release(own.end, ticks << 2 | static_cast<uint64_t>(state));  // pairs with timed_message()
}

void ShmMessages::complete(uint64_t record, const MessageInfo &message, MessageRun run) {
  const uint64_t now = latest_ticks_ = read_ticks(tick_source_);
  const MessageRecord &own = own_.ring[record % recorded_message_count];
  // Relaxed: this rank's own words.
  const bool kept = memory::load_relaxed(own.record) == record;
  const uint64_t begun = kept ? memory::load_relaxed(own.begun_ticks) : now;
  end(record, OperationState::completed, now);
  if (run != MessageRun::captured)
    count_message(own_board_, message.sends, message.bytes, now > begun ? now - begun : 0, run == MessageRun::in_call);
  memory::store_release(own_pair(message.peer).completed[message.sends ? 1 : 0], message.message);  // pairs with pair()
}

void ShmMessages::fail(uint64_t record) { end(record, OperationState::failed, read_ticks(tick_source_)); }

void ShmMessages::block(uint32_t peer, const BlockedSend &send) {
  PairBoard &pair = segment_->pair_board(rank_, peer);
  // Relaxed: this rank's own words.
  if (memory::load_relaxed(pair.blocked_message) == send.message &&
      memory::load_relaxed(pair.blocked_needed) == send.needed)
    return;
  memory::store_release(pair.blocked_message, 0);  // pairs with the second look in blocked()
  memory::store_release(pair.blocked_needed, send.needed);
  memory::store_release(pair.blocked_message, send.message);  // pairs with the first look in blocked()
}

void ShmMessages::publish_block(uint32_t peer, uint64_t operation, uint64_t bytes) {
  if (peer >= message_ranks_max) return;
  DeviceBoard::BlockSize &size = own_.device.blocks[operation % kept_block_operations][peer];
  memory::store_release(size.operation, 0);  // pairs with the second look in find_block()
  memory::store_release(size.bytes, bytes);
  memory::store_release(size.operation, operation);  // pairs with the first look in find_block()
}

void ShmMessages::publish_place(const DevicePlace &place) {
  // Pairs with device_place().
  memory::store_release(own_.device.place, place.number << place_bits | static_cast<uint64_t>(place.kind));
}

void ShmMessages::publish_captured() { memory::store_release(own_.device.captured, 1); }  // pairs with doing()

void ShmMessages::publish_waits(const WaitReport *report) {
  DeviceBoard &device = own_.device;
  const uint64_t version = memory::load_relaxed(device.waits_version);  // relaxed: this rank's own word
  if (report == nullptr) return memory::store_release(device.waits_version, 0);  // pairs with device_waits()
  const auto words = std::bit_cast<DeviceBoard::WaitWords>(*report);
  memory::store_release(device.waits_version, version + 1);  // pairs with the second look in device_waits()
  for (size_t word = 0; word < words.size(); ++word) memory::store_release(device.waits[word], words[word]);
  memory::store_release(device.waits_version, version + 2);  // pairs with the first look in device_waits()
}

/// Reads the report as a whole. If it stays half rewritten, because its writer does not run, the report is empty: the
/// rank waits for nobody. A result of false would make the caller use the rank's calls and see waits that do not exist.
bool ShmMessages::device_waits(uint32_t of, WaitReport &report) const {
  constexpr int looks_max = 16;
  const DeviceBoard &device = segment_->message_board(of).device;
  for (int look = 0; look < looks_max; ++look) {
    const uint64_t version = memory::load_acquire(device.waits_version);  // first look
    if (version == 0) return false;
    if (version % 2 == 1) continue;
    DeviceBoard::WaitWords words;
    for (size_t word = 0; word < words.size(); ++word) words[word] = memory::load_acquire(device.waits[word]);
    if (memory::load_acquire(device.waits_version) != version) continue;  // second look: it changed
    report = std::bit_cast<WaitReport>(words);
    return true;
  }
  report = {};
  return true;
}

BatchCounts ShmMessages::batches(uint32_t of) const {
  const MessageBoard &board = segment_->message_board(of);
  BatchCounts counts;
  counts.completed = memory::load_acquire(board.batches_completed);  // read before `entered`, so never ahead
  counts.entered = memory::load_acquire(board.batches_entered);      // pairs with enter_batch(), after announce()
  return counts;
}

RankDoing ShmMessages::doing(uint32_t of) const {
  const MessageBoard &board = segment_->message_board(of);
  RankDoing now{batches(of), device_place(board), memory::load_acquire(board.device.captured) != 0, std::nullopt};
  if (now.batches.entered <= now.batches.completed) return now;
  const auto take = [&](uint64_t record) {
    const auto timed = timed_message(board, record);
    if (timed && timed->state == OperationState::running) now.message = timed->info;
    return timed && timed->state == OperationState::running;
  };
  if (now.device.kind == DevicePlace::Kind::messages && take(now.device.number)) return now;
  const uint64_t latest = memory::load_acquire(board.records);  // pairs with begin()
  for (uint64_t back = 0; back < std::min(latest, recorded_message_count); ++back) take(latest - back);
  return now;
}

PairCounts ShmMessages::pair(uint32_t of, uint32_t with, bool sends) const {
  const PairBoard &pair = segment_->pair_board(of, with);
  PairCounts counts;
  counts.completed = memory::load_acquire(pair.completed[sends ? 1 : 0]);  // read before `entered`, so never ahead
  counts.entered = memory::load_acquire(pair.entered[sends ? 1 : 0]);      // pairs with announce()
  return counts;
}

BlockedSend ShmMessages::blocked(uint32_t of, uint32_t to) const {
  const PairBoard &pair = segment_->pair_board(of, to);
  BlockedSend send;
  send.message = memory::load_acquire(pair.blocked_message);  // first look
  send.needed = memory::load_acquire(pair.blocked_needed);
  if (memory::load_acquire(pair.blocked_message) != send.message) return {};  // second look: it moved on
  return send;
}

std::optional<MessageInfo> ShmMessages::find(uint32_t of, uint32_t with, bool sends, uint64_t message) const {
  const MessageBoard &board = segment_->message_board(of);
  if (is_block_number(message)) return find_block(board, with, message);
  const uint64_t latest = memory::load_acquire(board.records);  // pairs with begin()
  for (uint64_t back = 0; back < std::min(latest, recorded_message_count); ++back) {
    const auto timed = timed_message(board, latest - back);
    if (timed && timed->info.peer == with && timed->info.sends == sends && timed->info.message == message)
      return timed->info;
  }
  return std::nullopt;
}

std::optional<TimedMessage> timed_message(const MessageBoard &board, uint64_t number) {
  const MessageRecord &record = board.ring[number % recorded_message_count];
  if (number == 0 || memory::load_acquire(record.record) != number) return std::nullopt;  // first look
  TimedMessage timed;
  const uint64_t ends = memory::load_acquire(record.ends);
  timed.info.type = static_cast<uint32_t>(ends & 0xFF);
  timed.info.sends = (ends & send_bit) != 0;
  timed.info.peer = static_cast<uint32_t>(ends >> 32);
  timed.info.bytes = memory::load_acquire(record.bytes);
  timed.info.message = memory::load_acquire(record.message);
  timed.begun_ticks = memory::load_acquire(record.begun_ticks);
  timed.batch = memory::load_acquire(record.batch);
  const uint64_t end = memory::load_acquire(record.end);
  if (memory::load_acquire(record.record) != number) return std::nullopt;  // second look: it moved on
  timed.ended_ticks = end >> 2;
  timed.state = static_cast<OperationState>(end & 3);
  return timed;
}

DevicePlace device_place(const MessageBoard &board) {
  const uint64_t word = memory::load_acquire(board.device.place);  // pairs with publish_place()
  const uint64_t kind = word & ((1 << place_bits) - 1);
  if (kind > static_cast<uint64_t>(DevicePlace::Kind::messages)) return {};
  return {static_cast<DevicePlace::Kind>(kind), word >> place_bits};
}

}  // namespace rondo::shm
