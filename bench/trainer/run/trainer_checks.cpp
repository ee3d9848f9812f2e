// SPDX-License-Identifier: Apache-2.0
// This file has the checks of a trainer besides its steps: the loss on samples that are not trained with, and whether
// the ranks still agree.
#include <algorithm>
#include <set>
#include <utility>

#include "bench/trainer/compute/host_view.h"
#include "bench/trainer/data/checksum.h"
#include "bench/trainer/run/lap.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {
namespace {

/// Returns the ranks whose sum is not the most common one. If several sums are equally common, the first is taken.
std::set<size_t> odd_ones(const std::vector<std::pair<size_t, uint64_t>> &sums) {
  const auto votes = [&](uint64_t value) {
    return std::count_if(sums.begin(), sums.end(), [=](const auto &sum) { return sum.second == value; });
  };
  const auto common = std::max_element(sums.begin(), sums.end(), [&](const auto &one, const auto &other) {
    return votes(one.second) < votes(other.second);
  });
  std::set<size_t> odd;
  for (const auto &[rank, sum] : sums)
    if (sum != common->second) odd.insert(rank);
  return odd;
}

}  // namespace

Outcome Trainer::validate_batch(size_t batch, double &loss) {
  const size_t context = options_.shape.context;
  for (size_t row = 0; row < options_.batch; ++row) {
    const size_t sample = (batch * options_.batch + row) % samples_.validation_count();
    if (auto failure = fill_row(corpus_, samples_.validation_offset(sample), context, row, validation_batch_))
      return failure;
  }
  if (auto failure = exchange_stages({.from_previous = true})) return failure;
  const float *const found =
      model_.forward(parameters_.get(), validation_batch_.inputs.data(), validation_batch_.targets.data());
  if (found != nullptr) loss = mean(HostView(compute_, found, model_.rows()).get(), model_.rows());
  return exchange_stages({.to_next = true});
}

Outcome Trainer::validate(double &loss) {
  const size_t wanted = std::min(options_.validation_batches, samples_.validation_count() / options_.batch);
  const size_t batches = std::max<size_t>(wanted, 1);  // a small corpus repeats its few samples
  std::vector<double> losses(batches, 0.0);
  const size_t rounds = (batches + data_.size() - 1) / data_.size();
  compute_.take_parameters(parameters_.get(), layout().count);
  for (size_t round = 0; round < rounds; ++round) {
    const size_t batch = round * data_.size() + data_.rank();
    double unused = 0;  // a rank without a batch still runs its experts for the others
    if (batch >= batches && options_.shape.experts == 0) break;
    if (auto failure = validate_batch(std::min(batch, batches - 1), batch < batches ? losses[batch] : unused))
      return failure;
  }
  if (auto failure = compute_.finish()) return failure;
  if (auto failure = joint_failure()) return failure;
  joint_ns_ = 0;
  if (auto failure = data_.sum(losses.data(), batches)) return failure;
  if (stage_.count > 1)
    if (auto failure = ranks_.joint().sum(losses.data(), batches)) return failure;
  loss = 0;
  for (const double value : losses) loss += value / static_cast<double>(batches);
  return std::nullopt;
}

/// Compares parameters. Ranks that have the same part of a model must have the same parameters. If a tensor is not
/// divided, all ranks that have it must have the same values.
Outcome Trainer::compare_ranks() {
  struct Sums {
    uint64_t all = 0, common = 0;
    bool has_common = true;
  };
  Checksum all, common;
  HostView parameters(compute_, parameters_.get(), layout().count);
  if (auto failure = compute_.finish()) return failure;
  all.add(parameters.get(), layout().count * sizeof(float));
  for (const Tensor &tensor : layout().tensors)
    if (stage_.count > 1 ? tensor.name == "token" : !tensor.split())
      common.add(parameters.get() + tensor.offset, tensor.count * sizeof(float));
  const Sums mine{all.value(), common.value(), stage_.first() || stage_.last()};
  std::vector<Sums> sums(ranks_.all().size());
  if (auto failure = ranks_.all().gather(&mine, sizeof mine, sums.data())) return failure;
  std::set<size_t> odd;
  for (size_t part = 0; part < ranks_.sharers(); ++part) {
    std::vector<std::pair<size_t, uint64_t>> same;
    for (size_t rank = part; rank < sums.size(); rank += ranks_.sharers()) same.emplace_back(rank, sums[rank].all);
    odd.merge(odd_ones(same));
  }
  std::vector<std::pair<size_t, uint64_t>> every;
  for (size_t rank = 0; rank < sums.size(); ++rank)
    if (sums[rank].has_common) every.emplace_back(rank, sums[rank].common);
  odd.merge(odd_ones(every));
  if (odd.empty()) return std::nullopt;
  std::string names;
  for (const size_t rank : odd) names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return Failure{
      Exit::diverged,
      "after step " + std::to_string(progress_.step) + " the parameters are no longer the same on all ranks: " + names +
          " differs from the others. Check the memory of that host, or start again from the last checkpoint"};
}

}  // namespace rondo::train
