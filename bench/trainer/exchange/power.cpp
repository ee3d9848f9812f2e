// SPDX-License-Identifier: Apache-2.0
// PowerSGD approximates the sum over ranks of a matrix M, with m rows and n columns, as P * Q^T with thin P and Q. It
// makes one step of power iteration, beginning with the previous Q.
//
//     first round   P = the sum of M * Q over ranks            m x r floats on the wire
//     between       the columns of P are made orthonormal
//     second round  Q = the sum of M^T * P over ranks          n x r
//         then          P * Q^T is nearly the sum of M; what it lacks of this rank's M joins the next gradients
//
// A tensor that is no matrix, or does not become smaller, is all-reduced unchanged, together with the P of the first
// round. All ranks compute the same from the same sums, so P, Q and gradients have equal bits on all ranks.
#include <algorithm>
#include <cmath>

#include "bench/trainer/exchange/carrier.h"
#include "bench/trainer/model/random.h"

namespace rondo::train {
namespace {

/// Makes the columns of a matrix orthonormal (Gram-Schmidt). A column that depends on earlier ones becomes 0.
void orthonormalise(float *matrix, size_t rows, size_t columns) {
  constexpr double least = 1e-30;
  const auto product = [&](size_t one, size_t other) {
    double sum = 0;
    for (size_t row = 0; row < rows; ++row)
      sum += static_cast<double>(matrix[row * columns + one]) * static_cast<double>(matrix[row * columns + other]);
    return sum;
  };
  for (size_t column = 0; column < columns; ++column) {
    const double before = product(column, column);
    for (size_t earlier = 0; earlier < column; ++earlier) {
      const auto part = static_cast<float>(product(earlier, column));
      for (size_t row = 0; row < rows; ++row) matrix[row * columns + column] -= part * matrix[row * columns + earlier];
    }
    const double square = product(column, column);
    const bool usable = !(square <= least || square <= before * 1e-12);  // a NaN stays NaN
    const auto factor = static_cast<float>(usable ? 1.0 / std::sqrt(square) : 0.0);
    for (size_t row = 0; row < rows; ++row) matrix[row * columns + column] *= factor;
  }
}

/// A tensor of a bucket, with the offsets of its thin matrices, or of the tensor itself if it is sent unchanged.
struct Thin {
  size_t offset = 0, count = 0;  ///< place of its gradients in the layout, in floats
  size_t rows = 0, columns = 0;
  size_t first = 0, second = 0;  ///< offsets in the buffers of the rounds, in floats
  bool whole = false;
};

struct Rounds {
  std::vector<Thin> tensors;
  size_t first = 0, first_count = 0, second = 0, second_count = 0;  ///< offsets and counts in the buffers, in floats
};

class PowerCarrier final : public Carrier {
 public:
  PowerCarrier(const Road &road, size_t thin_rank, uint64_t seed) : road_(road), thin_(thin_rank), random_(seed) {
    for (const Bucket &bucket : road.buckets) {
      Rounds rounds;
      rounds.first = first_count_;
      rounds.second = second_count_;
      for (size_t index = bucket.first; index < bucket.end; ++index) place(road.layout.tensors[index], rounds);
      rounds.first_count = first_count_ - rounds.first;
      rounds.second_count = second_count_ - rounds.second;
      buckets_.push_back(std::move(rounds));
    }
  }

  Outcome open() override {
    left_out_ = road_.compute.allocate(road_.layout.count);
    if (left_out_ == nullptr) return Failure{Exit::usage, "there is no memory left for what compression leaves out"};
    if (auto failure = allocate_shared(std::max<size_t>(first_count_, 1), first_)) return failure;
    return allocate_shared(std::max<size_t>(second_count_, 1), second_);
  }
  size_t memory_bytes() const override { return wire_bytes() + road_.layout.count * sizeof(float); }
  size_t wire_bytes() const override { return (first_count_ + second_count_) * sizeof(float); }
  size_t received_bytes() const override {
    const size_t ranks = road_.group.size();
    return 2 * wire_bytes() * (ranks - 1) / ranks;
  }
  std::vector<std::span<float>> state() const override {
    return {{left_out_.get(), road_.layout.count}, {second_.get(), second_count_}};
  }
  bool two_rounds() const override { return true; }

  Outcome send(size_t index) override {
    const Bucket &bucket = road_.buckets[index];
    road_.compute.add(road_.gradients + bucket.offset, left_out_.get() + bucket.offset, bucket.count);
    for (const Thin &tensor : buckets_[index].tensors) {
      float *const values = left_out_.get() + tensor.offset, *const target = first_.get() + tensor.first;
      if (tensor.whole) {
        std::copy_n(values, tensor.count, target);
        std::fill_n(values, tensor.count, 0.0f);
        continue;
      }
      float *const q = second_.get() + tensor.second;
      renew(q, tensor.columns);
      road_.compute.multiply({false, false, tensor.rows, thin_, tensor.columns, values, tensor.columns, q, thin_,
                              target, thin_});
    }
    return all_reduce(first_.get() + buckets_[index].first, buckets_[index].first_count);
  }

  Outcome send_again(size_t index) override {
    for (const Thin &tensor : buckets_[index].tensors) {
      if (tensor.whole) continue;
      float *const p = first_.get() + tensor.first;
      orthonormalise(p, tensor.rows, thin_);
      road_.compute.multiply({true, false, tensor.columns, thin_, tensor.rows, left_out_.get() + tensor.offset,
                              tensor.columns, p, thin_, second_.get() + tensor.second, thin_});
    }
    return all_reduce(second_.get() + buckets_[index].second, buckets_[index].second_count);
  }

  void receive(size_t index) override {
    const float share = 1.0f / static_cast<float>(road_.group.size());
    for (const Thin &tensor : buckets_[index].tensors) {
      float *const sums = road_.gradients + tensor.offset, *const values = left_out_.get() + tensor.offset;
      if (tensor.whole) {
        std::copy_n(first_.get() + tensor.first, tensor.count, sums);
        continue;
      }
      road_.compute.multiply({false, true, tensor.rows, tensor.columns, thin_, first_.get() + tensor.first, thin_,
                              second_.get() + tensor.second, thin_, sums, tensor.columns});
      for (size_t at = 0; at < tensor.count; ++at) values[at] -= share * sums[at];
    }
  }

 private:
  void place(const Tensor &tensor, Rounds &rounds) {
    Thin thin{tensor.offset, tensor.count, tensor.count / tensor.columns, tensor.columns, first_count_, second_count_};
    thin.whole = tensor.columns == 1 || (thin.rows + thin.columns) * thin_ >= tensor.count;
    first_count_ += thin.whole ? tensor.count : thin.rows * thin_;
    second_count_ += thin.whole ? 0 : thin.columns * thin_;
    rounds.tensors.push_back(thin);
  }

  /// Replaces each column of Q that is 0 by random numbers, which are equal on all ranks. All columns are 0 at first,
  /// and the iteration would keep them 0.
  void renew(float *q, size_t rows) {
    for (size_t column = 0; column < thin_; ++column) {
      bool zero = true;
      for (size_t row = 0; row < rows && zero; ++row) zero = q[row * thin_ + column] == 0.0f;
      for (size_t row = 0; row < rows && zero; ++row)
        q[row * thin_ + column] = static_cast<float>(random_.normal());
    }
  }

  Outcome all_reduce(float *values, size_t count) {
    return road_.group.check("rondo_all_reduce", rondo_all_reduce(values, values, count, RONDO_FLOAT32, RONDO_SUM,
                                                                  road_.group.comm(), road_.stream));
  }

  const Road road_;
  const size_t thin_;
  Random random_;
  std::vector<Rounds> buckets_;
  size_t first_count_ = 0, second_count_ = 0;
  Buffer left_out_, first_, second_;
};

}  // namespace

std::unique_ptr<Carrier> make_power_carrier(const Road &road, size_t thin_rank, uint64_t seed) {
  return std::make_unique<PowerCarrier>(road, thin_rank, seed);
}

}  // namespace rondo::train
