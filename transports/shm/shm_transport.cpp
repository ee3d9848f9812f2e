// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/shm_transport.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/fd_channel.h"
#include "src/proto/memory.h"
#include "transports/shm/shm_links.h"
#include "transports/shm/shm_ranks.h"
#include "transports/shm/recorder.h"

namespace rondo::shm {
namespace {

constexpr uint32_t default_slot_count = 4;
constexpr uint32_t default_ll_slot_bytes = 2048;
constexpr uint64_t naming_patience_ns = 1'000'000'000;
constexpr uint64_t slot_budget_bytes = 8u << 20;  // limit for all simple slots of a communicator
constexpr uint32_t slot_bytes_min = 4096;         // slots of this size may exceed slot_budget_bytes
constexpr uint32_t slot_bytes_max = 128u << 10;   // larger ones leave the L2 cache before the peer has read them
// Once budgets were halved this number of times to limit memory, slots also get fewer, and smaller than usual.
constexpr uint32_t tight_halvings = 12, tight_slot_count = 2, tight_slot_bytes_min = 1024;
constexpr uint64_t message_budget_bytes = 4u << 20;  // limit for all slots for messages together
// A line that the peer has read lately is slow to write. So slots are so large that two ranks' slots exceed the L2
// cache. More and smaller slots would make short messages slower.
constexpr uint32_t message_slot_bytes_max = 64u << 10;
constexpr uint32_t message_slot_count_max = 32;
constexpr uint64_t post_budget_bytes = 2u << 20;  // limit for all one_shot posts of a communicator together
constexpr uint32_t post_bytes_max = 64u << 10;
constexpr uint64_t area_budget_bytes = 7u << 19;  // limit for all two_shot areas together
constexpr uint32_t chunk_bytes_max = 128u << 10;
constexpr uint32_t exchange_area_bytes_min = 4096;
constexpr uint64_t area_count_max = 12;  // twice what the second-level cache holds

class ShmTransport final : public Transport {
 public:
  ShmTransport(const std::shared_ptr<Segment> &segment, std::unique_ptr<ShmPeers> peers, const ConnectRequest &request,
               std::vector<uint32_t> readable_kinds, std::vector<uint32_t> reachable_kinds)
      : peers_(std::move(peers)),
        links_(segment, *peers_, request.rank, std::move(readable_kinds), std::move(reachable_kinds)),
        ranks_(segment, *peers_, request.rank, request.host_name),
        recorder_(segment) {}
  ~ShmTransport() override { ranks_.set_state(RankState::left); }

  Links &links() override { return links_; }
  Ranks &ranks() override { return ranks_; }
  FlightRecorder &recorder() override { return recorder_; }

 private:
  const std::unique_ptr<ShmPeers> peers_;
  ShmLinks links_;
  ShmRanks ranks_;
  SegmentRecorder recorder_;
};

/// The notice by which the first rank hands the segment to the others.
struct SegmentNotice {
  SegmentId id;
  FdTicket ticket;
  SegmentShape shape;
};
static_assert(std::is_trivially_copyable_v<SegmentNotice>);

template <class T>
std::span<const std::byte> bytes_of(const T &value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Collects one T from every rank.
template <class T>
Result<std::vector<T>> gather_all(Store &store, const ConnectRequest &request, const char *key, const T &own) {
  RONDO_TRY_ASSIGN(const auto parts, store.gather(request.key_prefix + key, request.rank, request.rank_count,
                                                  bytes_of(own), request.deadline_ns));
  return structs_of<T>(parts);
}

std::string mapped_key(const ConnectRequest &request, uint64_t process) {
  return request.key_prefix + "/mapped/" + std::to_string(process);
}

/// Adds the missing ranks to `error`. Rank 0 calls it if not all processes have fetched the segment.
Error name_missing(Error error, const ConnectRequest &request, Store &store, const std::vector<uint64_t> &processes) {
  const uint64_t deadline_ns = now_ns() + naming_patience_ns;  // a rank that has the segment has reported that at once
  std::string missing;
  for (uint32_t rank = 1; rank < processes.size(); ++rank) {
    if (processes[rank] == processes[0] || store.get(mapped_key(request, processes[rank]), deadline_ns).ok()) continue;
    if (missing.empty()) error.peer = static_cast<int32_t>(rank);
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!missing.empty()) error.message += "; missing: ranks " + missing;
  return error;
}

/// Returns the segment. Rank 0 makes it. In each other process one rank fetches the segment, and the other ranks find
/// it in the process's table.
Result<std::shared_ptr<Segment>> obtain_segment(const ConnectRequest &request, Store &store, SegmentTable &segments) {
  RONDO_TRY_ASSIGN(const auto processes, gather_all(store, request, "/process", uint64_t(::getpid())));
  const uint64_t own = processes[request.rank];
  const std::string notice_key = request.key_prefix + "/segment";
  if (request.rank == 0) {
    SegmentNotice notice;
    randombytes_buf(&notice.id, sizeof notice.id);
    notice.shape =
        choose_segment_shape(request.rank_count, request.channel_count, request.slot_count, request.slot_bytes,
                             request.halvings);
    notice.shape.group_rank_count = request.group_rank_count;
    if (request.message_slot_bytes != 0) notice.shape.message_slot_bytes = request.message_slot_bytes;
    RONDO_TRY_ASSIGN(auto server, FdServer::listen());
    notice.ticket = server.ticket();
    RONDO_TRY_ASSIGN(auto segment, Segment::create(notice.id, notice.shape));
    segments.add(notice.id, segment);
    RONDO_TRY(store.put(notice_key, bytes_of(notice), request.deadline_ns));
    std::vector<uint64_t> takers = processes;
    std::sort(takers.begin(), takers.end());
    takers.erase(std::unique(takers.begin(), takers.end()), takers.end());
    std::erase(takers, own);
    if (takers.empty()) return segment;
    auto served =
        server.serve({segment->descriptor()}, takers, request.deadline_ns, [&store] { return store.check(); });
    if (served.ok()) return segment;
    Error error = std::move(served).error();
    return error.status == RONDO_ERROR_TIMEOUT ? name_missing(std::move(error), request, store, processes) : error;
  }
  RONDO_TRY_ASSIGN(const auto bytes, store.get(notice_key, request.deadline_ns));
  SegmentNotice notice;
  if (bytes.size() != sizeof notice) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
  std::memcpy(&notice, bytes.data(), sizeof notice);
  const auto first = static_cast<uint32_t>(std::find(processes.begin(), processes.end(), own) - processes.begin());
  if (first == request.rank) {
    auto taken = take_descriptor(notice.ticket, request.deadline_ns, [&store] { return store.check(); });
    if (!taken.ok()) return StoreWatch(store).about_owner(std::move(taken).error(), 0);
    FileDescriptor descriptor = std::move(taken).value();
    RONDO_TRY_ASSIGN(auto segment, Segment::attach(std::move(descriptor), notice.id, notice.shape));
    segments.add(notice.id, segment);
    RONDO_TRY(store.put(mapped_key(request, own), bytes_of(own), request.deadline_ns));
    return segment;
  }
  if (own != processes[0]) RONDO_TRY(store.get(mapped_key(request, own), request.deadline_ns));
  auto segment = segments.find(notice.id);
  if (segment != nullptr) return segment;
  // The thread of this process that had mapped the segment has failed meanwhile. The store knows the reason.
  RONDO_TRY(StoreWatch(store).hear_why());
  return Error{RONDO_ERROR_INTERNAL, "another thread of this process did not map the segment"};
}

void fill_board(RankBoard &board, const Segment &segment) {
  uint64_t probe = 0;
  randombytes_buf(&probe, sizeof probe);
  memory::store_release(board.process_namespace, process_namespace());
  memory::store_release(board.process, static_cast<uint64_t>(::getpid()));
  memory::store_release(board.segment_descriptor, static_cast<uint64_t>(segment.descriptor()));
  memory::store_release(board.probe, probe);
  memory::store_release(board.probe_address, reinterpret_cast<uint64_t>(&board.probe));
}

/// Returns the size of an area: the largest power of two within its share of `budget_bytes` and its size limits.
uint32_t area_bytes(uint64_t budget_bytes, uint64_t area_count, uint32_t bytes_max) {
  return static_cast<uint32_t>(
      std::bit_floor(std::clamp<uint64_t>(budget_bytes / area_count, exchange_area_bytes_min, bytes_max)));
}

ExchangeGeometry choose_exchange(uint32_t rank_count, uint32_t halvings) {
  if (rank_count < 2 || rank_count > exchange_rank_count_max) return {};
  ExchangeGeometry exchange;
  exchange.rank_count = rank_count;
  exchange.post_bytes = area_bytes(post_budget_bytes >> halvings, 2 * uint64_t{rank_count}, post_bytes_max);
  const uint64_t fewest = uint64_t{exchange_area_count_min} * (rank_count + 1);  // contributions and results of 1/n
  exchange.chunk_bytes = area_bytes(area_budget_bytes >> halvings, fewest, chunk_bytes_max);
  const uint64_t area_bytes_here = rank_count * (exchange.chunk_bytes + exchange.result_bytes());
  const uint64_t fitting = (area_budget_bytes >> halvings) / area_bytes_here;
  exchange.area_count = static_cast<uint32_t>(std::clamp<uint64_t>(fitting, exchange_area_count_min, area_count_max));
  return exchange;
}

}  // namespace

SegmentShape choose_segment_shape(uint32_t rank_count, uint32_t channel_count, uint32_t slot_count,
                                  uint32_t slot_bytes, uint32_t halvings) {
  SegmentShape shape;
  shape.rank_count = rank_count;
  shape.channel_count = channel_count;
  const uint32_t usual_count = halvings < tight_halvings ? default_slot_count : tight_slot_count;
  const uint32_t bytes_min = halvings < tight_halvings ? slot_bytes_min : tight_slot_bytes_min;
  shape.geometry.slot_count = slot_count != 0 ? slot_count : usual_count;
  shape.geometry.ll_slot_bytes = default_ll_slot_bytes;
  const uint64_t pair_count = std::max<uint64_t>(uint64_t{rank_count} * (rank_count - 1), 1);
  const auto power_in = [](uint64_t wanted, uint64_t least, uint64_t most) {
    return static_cast<uint32_t>(std::bit_floor(std::clamp(wanted, least, most)));
  };
  const auto fitting = [&](uint64_t budget_bytes, uint64_t connection_count, uint64_t most) {
    return power_in((budget_bytes >> halvings) / (connection_count * shape.geometry.slot_count), bytes_min, most);
  };
  shape.geometry.slot_bytes =
      slot_bytes != 0 ? slot_bytes : fitting(slot_budget_bytes, pair_count * channel_count, slot_bytes_max);
  shape.message_slot_bytes =
      slot_bytes != 0 ? slot_bytes : fitting(message_budget_bytes, pair_count, message_slot_bytes_max);
  shape.message_slot_count =
      slot_count != 0 ? slot_count
                      : power_in((message_budget_bytes >> halvings) / (pair_count * shape.message_slot_bytes),
                                 usual_count, message_slot_count_max);
  // If slots were a power of two apart, they would fall into one set of a cache.
  if (slot_bytes == 0) shape.message_slot_bytes += cache_line_bytes;
  shape.exchange = choose_exchange(rank_count, halvings);
  return shape;
}

uint64_t host_memory_bytes(uint32_t rank_count, uint32_t channel_count, const MemoryChoice &choice) {
  const SegmentShape shape = choose_segment_shape(rank_count, channel_count, choice.slot_count,
                                                  static_cast<uint32_t>(choice.slot_bytes), choice.halvings);
  return shape.bytes() + shape.message_bytes();
}

Result<MemoryChoice> choose_host_memory(uint32_t rank_count, uint32_t channel_count, const Config &config) {
  return choose_memory(config, "of a host's memory", [&](const MemoryChoice &choice) {
    return host_memory_bytes(rank_count, channel_count, choice);
  });
}

Result<std::unique_ptr<Transport>> connect(const ConnectRequest &request, Store &store, SegmentTable &segments) {
  RONDO_TRY_ASSIGN(auto segment, obtain_segment(request, store, segments));
  fill_board(segment->board(request.rank), *segment);
  RONDO_TRY(gather_all(store, request, "/board", request.rank));
  RONDO_TRY_ASSIGN(auto peers, ShmPeers::create(segment, request.rank));

  // readable[p] says what this rank can read from rank p. The answer of p says what p can read from this rank.
  Bytes readable(request.rank_count);
  for (uint32_t peer = 0; peer < request.rank_count; ++peer)
    readable[peer] = static_cast<std::byte>(peers->readable_kinds(peer, request.mapping, request.cross_memory));
  RONDO_TRY_ASSIGN(const auto answers, store.gather(request.key_prefix + "/readable", request.rank, request.rank_count,
                                                    readable, request.deadline_ns));
  std::vector<uint32_t> accepted(request.rank_count, 0), reachable(request.rank_count, 0);
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    if (answers[peer].size() != request.rank_count)
      return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    accepted[peer] = static_cast<uint32_t>(answers[peer][request.rank]);
    reachable[peer] = static_cast<uint32_t>(readable[peer]);
  }
  auto transport =
      std::make_unique<ShmTransport>(segment, std::move(peers), request, std::move(accepted), std::move(reachable));
  transport->ranks().set_state(RankState::alive);
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace rondo::shm
