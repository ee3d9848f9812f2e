// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/async.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "bench/trainer/run/session.h"

namespace rondo::train {
namespace {

constexpr size_t server = 0, worker = 1;  // ranks of a pair's communicator

/// The server, on rank 0. It has a thread for each worker. Only one thread at a time updates the parameters.
class Server {
 public:
  Server(const Options &options, Trainer &trainer, std::vector<std::unique_ptr<Group>> &pairs)
      : options_(options), trainer_(trainer), pairs_(pairs), clocks_(pairs.size(), 0), read_(pairs.size(), 0),
        count_(trainer.layout().count) {}

  /// Serves until all workers have made their steps.
  Outcome run(Staleness &staleness) {
    std::vector<std::thread> threads;
    try {
      for (size_t index = 0; index < pairs_.size(); ++index) threads.emplace_back([this, index] { serve(index); });
    } catch (const std::system_error &error) {
      fail(Failure{Exit::usage, std::string("cannot start a thread for each worker: ") + error.what()});
    }
    for (std::thread &thread : threads) thread.join();
    staleness = staleness_;
    return failure_;
  }

 private:
  void serve(size_t index) {
    Buffer gradients, reply;
    auto failure = allocate_shared(trainer_.layout().count, gradients);
    if (!failure) failure = allocate_shared(trainer_.layout().count, reply);
    for (uint64_t step = 0; step < options_.steps && !failure; ++step) {
      failure = pairs_[index]->receive(gradients.get(), count_, worker);
      if (!failure) failure = update(index, gradients.get(), reply.get());
      if (!failure) failure = pairs_[index]->send(reply.get(), count_, worker);
    }
    if (!failure) failure = pairs_[index]->finish();
    if (failure) fail(*failure);
  }

  /// Updates the parameters with a worker's gradients. Copies them to `reply` once the worker may continue.
  Outcome update(size_t index, const float *gradients, float *reply) {
    std::unique_lock lock(mutex_);
    const uint64_t stale = trainer_.progress().updates - read_[index];
    staleness_.updates += 1;
    staleness_.sum += stale;
    staleness_.max = std::max(staleness_.max, stale);
    if (!trainer_.apply(gradients))
      return Failure{Exit::diverged, "step " + std::to_string(clocks_[index] + 1) + " of rank " +
                                         std::to_string(index + 1) +
                                         ": the gradients are not finite any more; choose a smaller --learning-rate"};
    ++clocks_[index];
    moved_.notify_all();
    const auto lead = [&] { return clocks_[index] - *std::min_element(clocks_.begin(), clocks_.end()); };
    const auto deadline = std::chrono::milliseconds(options_.config.timeout_ms == 0 ? 300'000
                                                                                   : options_.config.timeout_ms);
    const bool moved = moved_.wait_for(lock, deadline, [&] { return failure_ || lead() <= options_.staleness; });
    if (failure_) return failure_;
    if (!moved)
      return Failure{Exit::communication,
                     "rank " + std::to_string(index + 1) + " is --staleness steps ahead and has " +
                         "waited too long for the slowest worker; check whether that worker still runs"};
    staleness_.lead_max = std::max(staleness_.lead_max, lead());
    std::copy_n(trainer_.parameters(), count_, reply);
    read_[index] = trainer_.progress().updates;
    return std::nullopt;
  }

  /// Keeps the first failure, and ends the other threads, which wait for their workers or for each other.
  void fail(const Failure &failure) {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    for (const auto &pair : pairs_) (void)rondo_comm_abort(pair->comm());
    moved_.notify_all();
  }

  const Options &options_;
  Trainer &trainer_;
  std::vector<std::unique_ptr<Group>> &pairs_;
  std::mutex mutex_;  ///< protects the following members and the trainer
  std::condition_variable moved_;
  std::vector<uint64_t> clocks_;  ///< number of steps of each worker
  std::vector<uint64_t> read_;    ///< how many updates the parameters of each worker include
  Staleness staleness_;
  Outcome failure_;
  const size_t count_;  ///< number of gradients, and of parameters
};

Outcome work(const Options &options, size_t ranks, bool shown, Trainer &trainer, Group &pair,
             std::vector<StepRecord> &records) {
  const size_t count = trainer.layout().count;
  for (uint64_t step = 0; step < options.steps; ++step) {
    StepRecord record;
    if (auto failure = trainer.find_gradients(record)) return failure;
    const uint64_t begin_ns = now_ns();
    if (auto failure = pair.send(trainer.exchange().gradients(), count, server)) return failure;
    if (auto failure = pair.receive(trainer.parameters(), count, server)) return failure;
    StepTimes &times = record.times;
    times.waiting_ns = times.in_flight_ns = times.communication_ns = times.exposed_ns = now_ns() - begin_ns;
    times.step_ns += times.waiting_ns;
    records.push_back(record);
    if (shown) show_progress(options, record, ranks);
  }
  return pair.finish();
}

/// Sends all ranks the first worker's records, with the mean losses of all workers.
Outcome share_records(const Options &options, Group &all, std::vector<StepRecord> &records) {
  std::vector<double> losses(options.steps, 0.0);
  for (size_t step = 0; step < records.size(); ++step)
    losses[step] = records[step].loss / static_cast<double>(all.size() - 1);
  if (auto failure = all.sum(losses.data(), losses.size())) return failure;
  records.resize(options.steps);
  if (auto failure = all.broadcast(records.data(), records.size() * sizeof(StepRecord), 1)) return failure;
  for (size_t step = 0; step < records.size(); ++step) records[step].loss = losses[step];
  return std::nullopt;
}

}  // namespace

Outcome train_async(const Options &options, Ranks &ranks, Trainer &trainer, Run &result) {
  Group &all = ranks.all();
  std::vector<std::unique_ptr<Group>> pairs;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    pairs.push_back(std::make_unique<Group>());
    const bool member = all.rank() == 0 || all.rank() == rank;
    if (auto failure = pairs.back()->join_part(all, member ? 0 : RONDO_NO_COLOR)) return failure;
  }
  Outcome failure;
  if (all.rank() == 0) {
    failure = Server(options, trainer, pairs).run(result.staleness);
  } else {
    failure = work(options, all.size(), all.rank() == 1, trainer, *pairs[all.rank() - 1], result.steps);
  }
  if (failure) return failure;
  trainer.progress().step = options.steps;
  if (auto lost = share_records(options, all, result.steps)) return lost;
  return trainer.spread_parameters();
}

}  // namespace rondo::train
