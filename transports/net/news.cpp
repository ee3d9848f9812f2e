// SPDX-License-Identifier: Apache-2.0
#include "transports/net/news.h"

#include <algorithm>
#include <array>

#include "src/proto/memory.h"

namespace rondo::net {
namespace {

constexpr uint64_t sweep_ns = 2'000'000'000;

}  // namespace

Cell status_cell(std::span<const RankNews> statuses) {
  Cell cell(CellKind::status);
  cell.put(static_cast<uint32_t>(statuses.size()));
  for (const RankNews &each : statuses) cell.put(each.rank).put(each.state).put(each.entered).put(each.completed);
  return cell;
}

News::News(const ControlMemory &memory, const Overlay &overlay, const std::vector<uint32_t> &host_of, uint32_t host)
    : memory_(memory), overlay_(overlay), host_of_(host_of), host_(host) {
  if (overlay_.is_mesh()) return;
  children_.resize(overlay_.host_count());
  for (const uint32_t neighbour : overlay_.neighbours(host_)) {
    all_ |= mark_of(neighbour);
    for (uint32_t origin = 0; origin < overlay_.host_count(); ++origin)
      if (neighbour != origin && overlay_.parent(origin, neighbour) == host_) children_[origin] |= mark_of(neighbour);
  }
}

/// Those that hear of the rank's numbers next.
uint64_t News::next_of(uint32_t rank) const { return header().downs != 0 ? all_ : children_[host_of_[rank]]; }

void News::take(uint32_t neighbour, const RankNews &news) {
  const uint32_t origin = news.rank < host_of_.size() ? host_of_[news.rank] : host_;
  if (origin == host_ || news.state > ended_state || (overlay_.is_mesh() && origin != neighbour)) return;
  RemoteRank &known = memory_.rank(news.rank);
  const bool changed = news.state > known.told;
  if (!overlay_.is_mesh()) mark_due(neighbour, news, known);
  memory::store_release(known.completed, std::max(known.completed, news.completed));  // these pair with status()
  memory::store_release(known.entered, std::max(known.entered, news.entered));
  if (!changed) return;
  if (news.state != ended_state)
    memory::store_release(known.state, news.state);
  else if (known.ended == 0)
    memory::store_release(known.ended, 1);
  known.told = news.state;
}

/// Before it is known: what a process that ends meanwhile has marked is sent all the same.
void News::mark_due(uint32_t neighbour, const RankNews &news, RemoteRank &known) {
  const bool changed = news.state > known.told;
  const bool far = news.entered / entered_step > known.entered / entered_step;
  if (changed || news.entered > known.entered || news.completed > known.completed) {
    const uint64_t now = changed ? all_ : far ? next_of(news.rank) : 0;
    known.due_now |= now;
    known.due_later |= all_ & ~now;
    header().due |= now;
  }
  if (news.state >= known.told && news.entered >= known.entered && news.completed >= known.completed) {
    known.due_now &= ~mark_of(neighbour);
    known.due_later &= ~mark_of(neighbour);
  }
}

bool News::is_down(uint32_t host, uint32_t neighbour) const {
  return memory_.host(host).down[*overlay_.place(host, neighbour)] != 0 ||
         memory_.host(neighbour).down[*overlay_.place(neighbour, host)] != 0;
}

/// Every rank of it has left, or has ended before its host did.
bool News::all_gone(uint32_t host) const {
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank)
    if (host_of_[rank] == host && memory_.rank(rank).told < static_cast<uint32_t>(RankState::left)) return false;
  return true;
}

/// Its steps are in an order in which the next rank that serves can repeat them, where a process ends in between.
void News::lose(uint32_t neighbour, int error) {
  const uint64_t reason = static_cast<uint64_t>(error) + 1;
  if (overlay_.is_mesh())
    mark_lost(neighbour, reason);
  else if (!all_gone(neighbour))
    add_down(host_, *overlay_.place(host_, neighbour), reason);
  find_lost();
  memory_.host(neighbour).lost = 1;
}

void News::add_down(uint32_t host, uint32_t place, uint64_t reason) {
  RemoteHost &known = memory_.host(host);
  if (known.down[place] != 0) return;
  known.down_due = all_;
  header().due = all_;
  header().down_reason = reason;
  ++header().downs;
  known.down[place] = reason;
}

void News::take_down(ByteReader body) {
  const auto host = body.number<uint32_t>();
  const auto count = body.number<uint32_t>();
  if (overlay_.is_mesh() || host >= overlay_.host_count() || host == host_ || count > ring_neighbours_max) return;
  for (uint32_t each = 0; each < count; ++each) {
    const auto other = body.number<uint32_t>();
    const auto reason = body.number<uint32_t>();
    const auto place = overlay_.place(host, other);
    if (place && reason != 0) add_down(host, *place, reason);
  }
  find_lost();
}

/// Where more is down than this rank knows: the ways that are left, and the hosts to which there is none.
void News::find_lost() {
  if (overlay_.is_mesh() || found_downs_ == header().downs) return;
  first_hops_ = overlay_.first_hops(host_, [this](uint32_t host, uint32_t other) { return is_down(host, other); });
  found_downs_ = header().downs;
  for (uint32_t host = 0; host < overlay_.host_count(); ++host)
    if (host != host_ && first_hops_[host] == Overlay::no_way) mark_lost(host, header().down_reason);
}

void News::mark_lost(uint32_t host, uint64_t reason) {
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank)
    if (host_of_[rank] == host && memory_.rank(rank).ended == 0)
      memory::store_release(memory_.rank(rank).ended, reason);  // pairs with Control::why_dead()
}

uint32_t News::first_hop(uint32_t host) {
  if (overlay_.is_mesh()) return host;
  find_lost();
  return first_hops_[host];
}

void News::call_due(uint64_t now_ns) {
  if (overlay_.is_mesh()) return;
  const bool all = now_ns >= header().next_sweep_ns;
  if (all) header().next_sweep_ns = now_ns + sweep_ns;
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank) {
    RemoteRank &known = memory_.rank(rank);
    const uint64_t now = known.due_later & (all ? all_ : next_of(rank));
    known.due_now |= now;
    known.due_later &= ~now;
    header().due |= now;
  }
}

void News::tell(const ControlLines &lines) {
  find_lost();  // what a process that has ended had no time to find
  if (header().due == 0) return;
  for (const uint32_t neighbour : overlay_.neighbours(host_)) {
    const uint64_t mark = mark_of(neighbour);
    if ((header().due & mark) == 0) continue;
    const bool ended = memory_.host(neighbour).lost != 0;
    if (ended || (tell_downs(lines, neighbour, mark) && tell_ranks(lines, neighbour, mark))) header().due &= ~mark;
  }
}

/// False: the connection takes no more.
bool News::tell_downs(const ControlLines &lines, uint32_t neighbour, uint64_t mark) {
  for (uint32_t host = 0; host < overlay_.host_count(); ++host) {
    RemoteHost &known = memory_.host(host);
    if ((known.down_due & mark) == 0) continue;
    const std::vector<uint32_t> &ends = overlay_.neighbours(host);
    Cell cell(CellKind::down);
    const auto count = std::ranges::count_if(known.down, [](uint64_t each) { return each != 0; });
    cell.put(host).put(static_cast<uint32_t>(count));
    for (size_t place = 0; place < ends.size(); ++place)
      if (known.down[place] != 0) cell.put(ends[place]).put(static_cast<uint32_t>(known.down[place]));
    if (!lines.send(neighbour, cell)) return false;
    known.down_due &= ~mark;
  }
  return true;
}

bool News::tell_ranks(const ControlLines &lines, uint32_t neighbour, uint64_t mark) {
  std::array<RankNews, statuses_max> due;
  size_t count = 0;
  const auto send = [&] {
    if (count == 0) return true;
    if (!lines.send(neighbour, status_cell(std::span(due).first(count)))) return false;
    for (const RankNews &each : std::span(due).first(count)) {
      memory_.rank(each.rank).due_now &= ~mark;
      memory_.rank(each.rank).due_later &= ~mark;
    }
    count = 0;
    return true;
  };
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank) {
    const RemoteRank &known = memory_.rank(rank);
    if ((known.due_now & mark) == 0) continue;
    due[count++] = {rank, static_cast<uint32_t>(known.told), known.entered, known.completed};
    if (count == due.size() && !send()) return false;
  }
  return send();
}

}  // namespace rondo::net
