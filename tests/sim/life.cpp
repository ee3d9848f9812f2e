// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/life.h"

#include "src/base/clock.h"
#include "src/core/init.h"
#include "src/core/registry.h"
#include "src/memory/region.h"
#include "src/memory/segment_table.h"
#include "tests/sim/call_data.h"
#include "tests/sim/network.h"
#include "tests/sim/sim_transport.h"
#include "transports/shm/shm_transport.h"

namespace rondo::sim {
namespace {

constexpr uint64_t life_ns = 400 * second;  // far more than every deadline together
constexpr uint64_t switch_count_max = 3'000'000;
constexpr uint64_t idle_look_ns = 10 * ms;
constexpr uint64_t idle_patience_ns = 5 * second;

/// Returns a topology of one core. The life's plan decides whether ranks count as oversubscribed.
Topology one_core() {
  Topology topology;
  topology.pus.resize(1);
  topology.cores.resize(1);
  topology.cores[0].pus = {0};
  return topology;
}

class Life {
 public:
  Life(const LifePlan &plan, StackPool &stacks)
      : plan_(plan),
        random_(plan.seed ^ 0x6465'6174'68u),
        scheduler_(random_.next(), plan.rank_count, stacks),
        network_(scheduler_, random_.fork()),
        topology_(one_core()),
        host_{scheduler_, plan_, random_.fork(), nullptr, {}, {}, {}, {}, {}, {}},
        comms_(plan.rank_count),
        happened_(plan.faults.size()) {
    record_.ranks.resize(plan.rank_count);
    host_.transports.resize(plan.rank_count);
    host_.died_ns.resize(plan.rank_count, never_ns);
    if (plan.wired)
      host_.wire = std::make_unique<Wire>(
          scheduler_, random_.fork(), plan.rank_count, plan.defect,
          Wire::Hooks{[this](uint32_t rank) { return host_.transports[rank] != nullptr; },
                      [this](uint32_t rank) { host_.transports[rank]->links().peers().wake(rank); }});
    watch_host();
    if (plan.defect == Defect::lost_wake) scheduler_.lose_wakes();
  }

  LifeRecord run() {
    for (uint32_t rank = 0; rank < plan_.rank_count; ++rank) {
      if (const Fault *const absent = plan_.fault(FaultKind::absent, rank)) {
        happens(*absent);
        continue;
      }
      scheduler_.spawn(rank, [this, rank] { rank_life(rank); });
    }
    record_.outcome = scheduler_.run(life_ns, switch_count_max);
    record_.ended_ns = scheduler_.now_ns();
    record_.switch_count = scheduler_.switch_count();
    record_.hash = scheduler_.hash();
    for (size_t i = 0; i < happened_.size(); ++i)
      if (happened_[i]) record_.happened.push_back(static_cast<uint32_t>(i));
    const LifeRecord result = record_;  // a copy, because unwinding is no part of the life
    scheduler_.unwind();
    return result;
  }

 private:
  void watch_host() {
    host_.entered = [this](uint32_t rank, uint64_t operation) {
      auto &entered = record_.ranks[rank].entered_ns;
      entered.resize(operation, 0);
      entered.back() = scheduler_.now_ns();
      if (plan_.defect == Defect::frozen_clock) scheduler_.freeze_clock();
    };
    host_.completed = [this](uint32_t rank, uint64_t operation) { record_.ranks[rank].completed = operation; };
    host_.state_changed = [this](uint32_t rank, RankState state) {
      RankRecord &record = record_.ranks[rank];
      if (state == RankState::left) record.left_ns = std::min(record.left_ns, scheduler_.now_ns());
      if (state == RankState::finalized) record.finalized_ns = scheduler_.now_ns();
    };
    host_.raised = [this](uint32_t rank, const Error &error) {
      if (!record_.failure) record_.failure = FailureRecord{rank, scheduler_.now_ns(), error};
      scheduler_.mix(static_cast<uint64_t>(error.status) << 32 ^ static_cast<uint64_t>(error.peer));
    };
  }

  void happens(const Fault &fault) { happened_[static_cast<size_t>(&fault - plan_.faults.data())] = true; }

  void die(uint32_t rank) {
    record_.ranks[rank].died_ns = host_.died_ns[rank] = scheduler_.now_ns();
    scheduler_.kill(rank);
    network_.client_died(rank);
    if (rank == 0) network_.server_died();
  }

  /// Prepares the faults that strike the rank from outside in its call number `call`. Call 0 is the initialisation.
  void arm(uint32_t rank, uint32_t call) {
    for (const Fault &fault : plan_.faults) {
      if (fault.rank != rank || fault.call != call) continue;
      switch (fault.kind) {
        case FaultKind::kill:
        case FaultKind::stop:
        case FaultKind::pause:
        case FaultKind::aborts:
        case FaultKind::partition:
          scheduler_.after_switches(rank, fault.after, [this, &fault] { strike(fault); });
          break;
        default:
          break;
      }
    }
  }

  void strike(const Fault &fault) {
    const uint32_t rank = fault.rank;
    if (record_.ranks[rank].closed || record_.ranks[rank].init_error) return;  // the rank has ended already
    happens(fault);
    switch (fault.kind) {
      case FaultKind::kill:
        return die(rank);
      case FaultKind::stop:
        record_.ranks[rank].stopped_ns = scheduler_.now_ns();
        return scheduler_.stop(rank, never_ns);
      case FaultKind::pause:
        return scheduler_.stop(rank, scheduler_.now_ns() + fault.duration_ns);
      case FaultKind::aborts:
        return scheduler_.spawn(rank, [this, rank] {
          const auto comm = comms_[rank].lock();
          if (comm == nullptr) return;
          record_.ranks[rank].aborted_ns = scheduler_.now_ns();
          comm->abort();
        });
      case FaultKind::partition: {
        std::set<uint32_t> ranks{rank};
        for (uint32_t other = 1; other < plan_.rank_count; ++other)
          if ((fault.variant >> other & 1) != 0) ranks.insert(other);
        record_.cut = true;
        const bool for_good = fault.duration_ns == never_ns;
        return network_.cut(std::move(ranks), for_good ? never_ns : scheduler_.now_ns() + fault.duration_ns);
      }
      default:
        return;
    }
  }

  Result<std::shared_ptr<Communicator>> init(uint32_t rank) {
    if (rank == 0) scheduler_.spawn(0, [this] { network_.serve(); });
    Settings settings = plan_.settings;
    if (const Fault *const other = plan_.fault(FaultKind::other_settings, rank)) {
      happens(*other);
      settings.slot_count = settings.slot_count == 16 ? 32 : 16;
    }
    const uint64_t deadline_ns = now_ns() + settings.init_timeout_ns;
    RONDO_TRY_ASSIGN(const auto store, network_.connect(rank, plan_.rank_count, deadline_ns));
    record_.ranks[rank].entered_init_ns = now_ns();
    auto made = assemble(rank, *store, settings, deadline_ns);
    store->leave(made.ok() ? Result<void>() : made.error());
    return made;
  }

  /// Assembles the group like src/core/init.cpp, which runs after src/bootstrap/launch/rendezvous.cpp.
  Result<std::shared_ptr<Communicator>> assemble(uint32_t rank, Store &store, const Settings &settings,
                                                 uint64_t deadline_ns) {
    RONDO_TRY(store.gather("life/join", rank, plan_.rank_count, {}, deadline_ns));
    RONDO_TRY_ASSIGN(GroupInfo group,
                     exchange_peer_info(store, "life", rank, plan_.rank_count, settings, topology_, deadline_ns));
    group.oversubscribed = plan_.oversubscribed;
    shm::ConnectRequest request;
    request.rank = rank;
    request.rank_count = plan_.rank_count;
    request.channel_count = std::max(settings.channels, 2u);
    request.slot_count = settings.slot_count;
    request.slot_bytes = static_cast<uint32_t>(settings.slot_bytes);
    request.key_prefix = "life";
    request.host_name = "sim";
    request.deadline_ns = deadline_ns;
    RONDO_TRY_ASSIGN(auto real, shm::connect(request, store, segments_));
    auto transport = make_sim_transport(std::move(real), host_, rank);
    RONDO_TRY(wait_for_all(transport->ranks(), plan_.rank_count, store, deadline_ns));
    auto executor = make_host_executor(settings, group, rank, transport->links());
    return std::make_shared<Communicator>(Communicator::Parts{rank, plan_.rank_count, settings, group,
                                                              std::move(transport), std::move(executor), &regions_});
  }

  void rank_life(uint32_t rank) {
    RankRecord &record = record_.ranks[rank];
    record.came = true;
    record.init_called_ns = scheduler_.now_ns();
    const uint64_t lost_ns = scheduler_.lost_ns(rank);
    arm(rank, 0);
    auto made = init(rank);
    record.init_returned_ns = scheduler_.now_ns();
    record.init_lost_ns = scheduler_.lost_ns(rank) - lost_ns;
    if (rank == 0) network_.stop_server();
    if (!made.ok()) {
      record.init_error = made.error();
      return;
    }
    auto comm = std::move(made).value();
    comms_[rank] = comm;
    if (call_all(rank, *comm) && plan_.finalizes) finalize(rank, *comm);
    comm->close();
    comm.reset();
    record.closed = true;
  }

  /// Makes all calls of the plan. Returns false if one failed, or if the rank no longer takes part.
  bool call_all(uint32_t rank, Communicator &comm) {
    for (uint32_t number = 1; number <= plan_.calls.size(); ++number) {
      arm(rank, number);
      PlannedCall planned = plan_.calls[number - 1];
      for (const Fault &fault : plan_.faults) {
        if (!strikes(fault, rank) || fault.call != number) continue;
        if (fault.kind == FaultKind::disagrees) planned = altered(planned, fault.variant, plan_.rank_count);
        if (fault.kind == FaultKind::disagrees || fault.kind == FaultKind::exit ||
            fault.kind == FaultKind::never_calls || fault.kind == FaultKind::leaves ||
            fault.kind == FaultKind::finalizes)
          happens(fault);
        if (fault.kind == FaultKind::exit) {
          die(rank);
          scheduler_.pause(0);  // for ever
        }
        if (fault.kind == FaultKind::never_calls) return idle(rank, comm);
        if (fault.kind == FaultKind::leaves) return false;
        if (fault.kind == FaultKind::finalizes) {
          finalize(rank, comm);
          return false;
        }
      }
      if (!call_once(rank, comm, planned, number)) return false;
      if (random_.chance(10)) scheduler_.pause(random_.spread(3 * ms));
    }
    return true;
  }

  /// Makes no more calls, but polls for failures.
  bool idle(uint32_t rank, Communicator &comm) {
    RankRecord &record = record_.ranks[rank];
    record.idle_ns = scheduler_.now_ns();
    const uint64_t until_ns = scheduler_.now_ns() + idle_patience_ns;
    while (!record.noticed && scheduler_.now_ns() < until_ns) {
      record.noticed = comm.failure().has_value();
      scheduler_.pause(idle_look_ns);
    }
    return false;
  }

  bool call_once(uint32_t rank, Communicator &comm, const PlannedCall &planned, uint64_t number) {
    CallData data(planned, rank, plan_.rank_count, number + plan_.seed % 1000);
    std::vector<const Registration *> registrations;
    if (plan_.registers)
      for (auto *const buffer : {&data.first(), &data.second()})
        if (!buffer->empty()) {
          const auto added = comm.registration_cache().add(buffer->data(), buffer->size(), false);
          if (added.ok()) registrations.push_back(added.value().get());
        }
    const bool ok = timed(rank, planned.signature, [&] { return comm.submit(data.call(), {}); });
    CallRecord &record = record_.ranks[rank].calls.back();
    if (ok) record.wrong = data.wrong();
    for (const Registration *const registration : registrations)
      static_cast<void>(comm.registration_cache().remove(registration));
    if (!ok) check_failed(rank, comm, data);
    return ok;
  }

  void finalize(uint32_t rank, Communicator &comm) {
    static_cast<void>(timed(rank, finalize_signature, [&] { return comm.finalize(); }));
  }

  template <class Body>
  bool timed(uint32_t rank, const Signature &signature, const Body &body) {
    auto &calls = record_.ranks[rank].calls;
    calls.emplace_back();
    calls.back().signature = signature;
    calls.back().called_ns = scheduler_.now_ns();
    const uint64_t lost_ns = scheduler_.lost_ns(rank);
    const Result<void> result = body();
    CallRecord &record = calls.back();
    record.returned_ns = scheduler_.now_ns();
    record.lost_ns = scheduler_.lost_ns(rank) - lost_ns;
    record.ok = result.ok();
    if (!result.ok()) record.error = result.error();
    scheduler_.mix(record.returned_ns ^ static_cast<uint64_t>(record.ok ? RONDO_OK : record.error.status));
    return record.ok;
  }

  /// Checks that every call of a failed communicator reports its first failure.
  void check_failed(uint32_t rank, Communicator &comm, const CallData &data) {
    std::string &wrong = record_.ranks[rank].after_failure;
    const auto again = comm.submit(data.call(), {});
    if (again.ok() || again.error().status != RONDO_ERROR_COMM_FAILED) wrong = "a call after the failure was taken";
    const auto failure = comm.failure();
    const Error &first = record_.ranks[rank].calls.back().error;
    if (!failure || failure->status != first.status || failure->message != first.message)
      wrong = "the failure is not the first one any more";
  }

  const LifePlan &plan_;
  Random random_;
  LifeRecord record_;
  Scheduler scheduler_;
  Network network_;
  Topology topology_;
  SimHost host_;
  RegionTable regions_;
  SegmentTable segments_;
  std::vector<std::weak_ptr<Communicator>> comms_;
  std::vector<bool> happened_;
};

}  // namespace

LifeRecord live(const LifePlan &plan, StackPool &stacks) { return Life(plan, stacks).run(); }

}  // namespace rondo::sim
