// SPDX-License-Identifier: Apache-2.0
#include "transports/net/news.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/proto/memory.h"

namespace rondo::net {
namespace {

constexpr uint64_t sweep_ns = 2'000'000'000;
constexpr uint64_t hidden_ns = 4'000'000'000;  // within this time, live hosts report a cut and pass it on
constexpr uint64_t standstill_ns = 3 * heartbeat_ns;  // without a heartbeat: this rank was stopped, or its machine
constexpr auto left_state = static_cast<uint32_t>(RankState::left);  // ended_state is greater
static_assert(ended_state > left_state);

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

/// Returns the neighbours that get the rank's numbers at the next heartbeat.
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
  // The counter changes before the state that it counts, as in mark_due(). So paths may be searched once too often, but
  // they are never searched too seldom.
  if (news.state >= left_state && known.told < left_state) ++header().gone_ranks;
  known.told = news.state;
}

/// Marks the update as due before the caller stores the state. If this process ends in between, the update is still
/// sent.
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

bool News::told_down(uint32_t host, uint32_t neighbour) const {
  return memory_.host(host).down[*overlay_.place(host, neighbour)] != 0;
}

bool News::is_down(uint32_t host, uint32_t neighbour) const {
  return told_down(host, neighbour) || told_down(neighbour, host);
}

/// Says for each host whether all its ranks have left, or ended before their host did. Such a host passes nothing on.
std::vector<bool> News::gone_hosts() const {
  std::vector<bool> gone(overlay_.host_count(), true);
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank)
    if (host_of_[rank] == host_ || memory_.rank(rank).told < left_state) gone[host_of_[rank]] = false;
  return gone;
}

/// Says for each host whether it is gone, or all its ranks are lost.
std::vector<bool> News::ended_hosts() const {
  std::vector<bool> ended(overlay_.host_count(), true);
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank) {
    const RemoteRank &known = memory_.rank(rank);
    if (host_of_[rank] == host_ || (known.told < left_state && known.ended == 0)) ended[host_of_[rank]] = false;
  }
  return ended;
}

/// Marks the neighbour as lost. If this process ends midway, the next serving rank can repeat the steps, because of
/// their order.
void News::lose(uint32_t neighbour, int error) {
  const uint64_t reason = static_cast<uint64_t>(error) + 1;
  if (overlay_.is_mesh()) {
    std::vector<bool> lost(overlay_.host_count());
    lost[neighbour] = true;
    mark_lost(lost, reason);
  } else if (!gone_hosts()[neighbour]) {
    add_down(host_, *overlay_.place(host_, neighbour), reason);
  }
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
    if (!place || reason == 0) continue;
    add_down(host, *place, reason);
    if (other != host_) continue;
    // The host has given up its connection with this host. This host reports its own end as down, too. Otherwise other
    // hosts might declare this host lost (is_cut_off()).
    add_down(host_, *overlay_.place(host_, host), reason);
    memory_.host(host).lost = 1;
  }
}

/// Finds the remaining paths and the lost hosts, if another connection went down or another rank left since the last
/// search.
void News::find_lost() {
  const auto seen = std::pair(header().downs, header().gone_ranks);
  if (overlay_.is_mesh() || found_ == seen) return;
  found_ = seen;
  const std::vector<bool> gone = gone_hosts();
  const auto is_shut = [&](uint32_t host, uint32_t other) {
    return gone[host] || gone[other] || is_down(host, other);
  };
  first_hops_ = overlay_.first_hops(host_, is_shut);
  if (header().downs == 0) return;
  std::vector<bool> lost(overlay_.host_count()), looked_at = gone;
  for (uint32_t host = 0; host < overlay_.host_count(); ++host) {
    if (host == host_ || looked_at[host] || first_hops_[host] != Overlay::no_way) continue;
    // The hosts of `part` reach each other, but this host reaches none of them.
    const std::vector<uint32_t> ways = overlay_.first_hops(host, is_shut);
    std::vector<uint32_t> part{host};
    for (uint32_t other = 0; other < overlay_.host_count(); ++other)
      if (ways[other] != Overlay::no_way) part.push_back(other);
    std::vector<bool> in_part(overlay_.host_count());
    for (const uint32_t each : part) looked_at[each] = in_part[each] = true;
    if (std::ranges::any_of(part, [&](uint32_t each) { return is_cut_off(each, in_part); }))
      for (const uint32_t each : part) lost[each] = true;
  }
  mark_lost(lost, header().down_reason);
}

/// Says whether a connection from `host` to a host outside `part` was reported down by the other end only. A host that
/// has ended reports nothing. In a cut-off part, the report of the last end to go down cannot get out. If both ends
/// reported it, the host lived on after that cut, so that cut did not end it.
bool News::is_cut_off(uint32_t host, const std::vector<bool> &part) const {
  return std::ranges::any_of(overlay_.neighbours(host), [&](uint32_t other) {
    return !part[other] && told_down(other, host) && !told_down(host, other);
  });
}

/// Finds a host that ended while one of its neighbours is stopped. Paths over that neighbour still seem to lead to it.
/// A live host would report a connection that is down, just as the other end does. So the host has ended, or is cut off
/// from all running hosts, if two conditions hold. Most of its connections are reported down by the other ends only,
/// and no further report arrives for hidden_ns. If this rank stood still, the wait starts again, because reports may be
/// on their way.
void News::find_hidden(uint64_t now_ns) {
  const auto seen = std::pair(header().downs, header().gone_ranks);
  if (overlay_.is_mesh() || header().downs == 0) return;
  const bool stood_still = now_ns - std::exchange(hidden_beat_ns_, now_ns) > standstill_ns;
  if (seen != watched_ || (stood_still && hidden_look_ns_ != UINT64_MAX)) {
    watched_ = seen;
    hidden_look_ns_ = now_ns + hidden_ns;
  }
  if (now_ns < hidden_look_ns_) return;
  hidden_look_ns_ = UINT64_MAX;
  std::vector<bool> hidden(overlay_.host_count()), ended = ended_hosts();
  for (bool found = true; found;) {  // one host per round, because an ended host no longer connects others
    found = false;
    for (uint32_t host = 0; host < overlay_.host_count(); ++host)
      if (host != host_ && !ended[host] && is_hidden(host, ended)) found = hidden[host] = ended[host] = true;
  }
  mark_lost(hidden, header().down_reason);
}

/// Says whether more of its connections with live hosts are reported down by these hosts only than are up.
bool News::is_hidden(uint32_t host, const std::vector<bool> &ended) const {
  uint32_t told_alone = 0, up = 0;
  for (const uint32_t other : overlay_.neighbours(host)) {
    if (ended[other]) continue;
    told_alone += told_down(other, host) && !told_down(host, other) ? 1 : 0;
    up += is_down(host, other) ? 0 : 1;
  }
  return told_alone > up;
}

void News::mark_lost(const std::vector<bool> &hosts, uint64_t reason) {
  for (uint32_t rank = 0; rank < host_of_.size(); ++rank)
    if (hosts[host_of_[rank]] && memory_.rank(rank).ended == 0)
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

void News::tell(const ControlLines &lines, uint64_t limit) {
  if (header().downs != 0) find_lost();
  if (header().due == 0) return;
  for (const uint32_t neighbour : overlay_.neighbours(host_)) {
    const uint64_t mark = mark_of(neighbour);
    if ((header().due & mark) == 0) continue;
    const bool ended = memory_.host(neighbour).lost != 0;
    if (ended || (tell_downs(lines, neighbour, limit) && tell_ranks(lines, neighbour, limit))) header().due &= ~mark;
  }
}

/// Sends all connection ends that are down. Returns false if the connection takes no more.
bool News::tell_downs(const ControlLines &lines, uint32_t neighbour, uint64_t limit) {
  const uint64_t mark = mark_of(neighbour);
  for (uint32_t host = 0; host < overlay_.host_count(); ++host) {
    RemoteHost &known = memory_.host(host);
    if ((known.down_due & mark) == 0) continue;
    const std::vector<uint32_t> &ends = overlay_.neighbours(host);
    Cell cell(CellKind::down);
    const auto count = std::ranges::count_if(known.down, [](uint64_t each) { return each != 0; });
    cell.put(host).put(static_cast<uint32_t>(count));
    for (size_t place = 0; place < ends.size(); ++place)
      if (known.down[place] != 0) cell.put(ends[place]).put(static_cast<uint32_t>(known.down[place]));
    if (!lines.send(neighbour, cell, limit)) return false;
    known.down_due &= ~mark;
  }
  return true;
}

bool News::tell_ranks(const ControlLines &lines, uint32_t neighbour, uint64_t limit) {
  const uint64_t mark = mark_of(neighbour);
  std::array<RankNews, statuses_max> due;
  size_t count = 0;
  const auto send = [&] {
    if (count == 0) return true;
    if (!lines.send(neighbour, status_cell(std::span(due).first(count)), limit)) return false;
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
