// SPDX-License-Identifier: Apache-2.0
#include "transports/net/progress.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/proto/memory.h"

namespace rondo::net {

Progress::Progress(const std::vector<NearLink> &links, std::unique_ptr<Network> network,
                   std::shared_ptr<const RdmaMemory> device, FarWindows *windows)
    : windows_(windows), device_(std::move(device)), network_(std::move(network)) {
  for (const NearLink &ends : links) {
    const uint64_t out = first_counter(ends.outgoing), in = first_counter(ends.incoming);
    links_.push_back({ends, out, out, in, in, SimpleSender(ends.incoming, in)});
    if (ends.use == LinkUse::collectives) served_count_ = links_.size();
    if (ends.use <= LinkUse::blocks) block_end_ = links_.size();
    if (ends.use <= LinkUse::messages) message_end_ = links_.size();
  }
  lost_.reserve(links_.size());
}

template <class Work>
void Progress::in_context(const Work &work) const {
  if (device_ == nullptr) return work();
  device_->run(std::cref(work));  // a reference: std::function would allocate memory for a larger object
}

Progress::~Progress() {
  in_context([&] { network_.reset(); });
}

void Progress::open(size_t served_count) {
  if (served_count <= served_count_) return;
  served_count_ = served_count;
  in_context([&] { network_->serve_all(); });
}

bool Progress::step() {
  bool moved = false;
  in_context([&] { moved = step_links(); });
  return moved;
}

void Progress::watch(std::vector<pollfd> &descriptors) const {
  in_context([&] { network_->watch(descriptors); });
}

bool Progress::step_links() {
  bool moved = false;
  for (uint32_t index = 0; index < served_count_; ++index) {
    moved |= send_posted(index);
    moved |= tell_consumed(index, links_[index].untold_max());
  }
  const uint32_t count = network_->poll(events_);
  const std::span<const Event> events = std::span(events_).first(count);
  make_readable(events);
  for (const Event &event : events) take(event);
  if (moved || count != 0) return true;
  // Nothing moved, so report even a single free slot to a sender that waits: in a ring, each rank may wait for exactly
  // that slot. While something moves, several slots are reported together.
  for (uint32_t index = 0; index < served_count_; ++index)
    if (links_[index].sender_waits()) moved |= tell_consumed(index, 0);
  return moved;
}

/// Flushes the device once for all payloads that the network wrote to its memory.
void Progress::make_readable(std::span<const Event> events) {
  const auto is_in_device = [](const Event &event) { return event.in_device; };
  if (std::none_of(events.begin(), events.end(), is_in_device)) return;
  const Result<void> flushed = device_->flush();
  if (flushed.ok()) return;
  if (!failure_) failure_ = flushed.error();
  for (const Event &event : events)
    if (event.in_device) links_[event.link].broken = true;
}

Error Progress::why_lost(uint32_t peer) const {
  Error why;
  in_context([&] { why = network_->why_lost(peer); });
  return why;
}

bool Progress::send_posted(uint32_t index) {
  Link &link = links_[index];
  bool moved = false;
  for (;;) {  // at most all slots: a sent slot is not posted again before its credit arrives
    const SlotHeader &header = link.ends.outgoing.header(link.sent);
    if (memory::load_sync(header.sequence) != link.sent + 1) return moved;  // T1
    const uint64_t consumed = memory::load_sync(link.ends.incoming.simple_head());  // T4
    const Message message{link.sent, header.signature, static_cast<uint32_t>(header.bytes),
                          link.ends.outgoing_payload(link.sent), consumed};
    if (!network_->put(index, message)) return moved;
    link.told = consumed;
    ++link.sent;
    moved = true;
  }
}

bool Progress::tell_consumed(uint32_t index, uint64_t untold_max) {
  Link &link = links_[index];
  const uint64_t consumed = memory::load_sync(link.ends.incoming.simple_head());  // T4
  if (consumed - link.told <= untold_max || !network_->credit(index, consumed)) return false;
  link.told = consumed;
  return true;
}

void Progress::take(const Event &event) {
  Link &link = links_[event.link];
  switch (event.kind) {
    case Event::Kind::arrived: {
      if (link.ends.use == LinkUse::puts) return take_put(link, event);
      if (link.broken) return;
      SlotHeader fields;
      fields.signature = event.signature;
      fields.bytes = event.bytes;
      if (event.in_device) {
        fields.kind = static_cast<uint32_t>(PayloadKind::address);
        fields.address = reinterpret_cast<uint64_t>(link.ends.device_slot(event.counter));
      }
      link.publisher.post(fields, true);  // T3
      ++link.arrived;
      return;
    }
    case Event::Kind::credit:
      if (event.counter <= link.credited || event.counter > link.sent) return;
      link.credited = event.counter;
      memory::store_sync(link.ends.outgoing.simple_head(), link.credited);  // T2
      return;
    case Event::Kind::lost:
      lost_.push_back(link.ends.peer);
      return;
  }
}

/// Lets the window take the slot, and frees the slot. The near FIFO's header stays unused, because no lane reads it.
void Progress::take_put(Link &link, const Event &event) {
  if (!windows_->take(link.ends.peer, {link.ends.incoming.payload(event.counter), event.bytes})) return;
  ++link.arrived;
  memory::store_sync(link.ends.incoming.simple_head(), event.counter + 1);  // for the network's own check, and T4
}

bool Progress::flushed() const {
  const bool all_sent = std::ranges::all_of(served(), [](const Link &link) {
    if (memory::load_sync(link.ends.outgoing.header(link.sent).sequence) == link.sent + 1) return false;  // T1
    const uint64_t untold = memory::load_sync(link.ends.incoming.simple_head()) - link.told;              // T4
    return untold <= (link.sender_waits() ? 0 : link.untold_max());
  });
  if (!all_sent) return false;
  bool flushed = false;
  in_context([&] { flushed = network_->flushed(); });
  return flushed;
}

bool Progress::delivered() const {
  bool delivered = false;
  in_context([&] { delivered = network_->delivered(); });
  return delivered && flushed();
}

}  // namespace rondo::net
