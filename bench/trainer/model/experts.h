// SPDX-License-Identifier: Apache-2.0
// This is a mixture of experts in the place of a layer's MLP. For each token, a router chooses one MLP (top-1), whose
// output is multiplied by the probability that the router gave it.
//
// Ranks divide the experts. They first exchange how many tokens they send, so no expert has a fixed capacity and no
// token is left out. Tokens travel to the rank of their expert, and results travel back. In the backward pass, their
// gradients travel in the same way. The results are equal to those that a single rank would compute.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// The communication of ranks that divide the experts. The blocks for the ranks are in the order of ranks.
struct ExpertRoads {
  Slice slice;  ///< this rank's part of the experts
  std::function<Buffer(size_t count)> allocate;  ///< memory for what is sent
  /// Sends each rank its block of `each` numbers, and receives the blocks of all ranks.
  std::function<void(const uint64_t *mine, uint64_t *theirs, size_t each)> exchange_counts;
  /// Sends each rank its block of floats, and receives the blocks of all ranks. The counts are in floats.
  std::function<void(const float *send, const size_t *send_counts, float *recv, const size_t *recv_counts)>
      exchange_floats;
};

/// The parameters of a layer's router and experts, or their gradients. Only this rank's experts are here, one after
/// another.
template <class Float>
struct ExpertFloats {
  Float *router, *up_weight, *up_bias, *down_weight, *down_bias;
};

class Experts {
 public:
  /// @param rows  tokens of a pass on this rank.
  Experts(const Shape &shape, size_t rows, Compute &compute, ExpertRoads roads);

  /// Returns false if memory ran out. What passes computed is meaningless then.
  [[nodiscard]] bool allocated() const { return allocated_; }
  [[nodiscard]] size_t float_count() const { return float_count_; }
  /// Returns the bytes of tokens, results and gradients that this rank has sent to others so far.
  [[nodiscard]] uint64_t sent_bytes() const { return sent_bytes_; }

  /// Writes out = base + the output that the experts of `layer` compute from x, row by row.
  void forward(size_t layer, const ExpertFloats<const float> &parameters, const float *x, const float *base,
               float *out);
  /// Writes the gradients of the parameters, and of x into x_gradients.
  void backward(size_t layer, const ExpertFloats<const float> &parameters, const float *x, const float *out_gradients,
                const ExpertFloats<float> &gradients, float *x_gradients);

 private:
  struct Growing {
    Buffer memory;
    size_t count = 0;
    [[nodiscard]] float *get() const { return memory.get(); }
  };
  /// The results of a layer's forward pass that its backward pass needs.
  struct Kept {
    Buffer chances;                 ///< rows * experts: the probabilities of the router
    Buffer results;                 ///< results for this rank's tokens, in the order of `places`
    std::vector<uint32_t> chosen;   ///< expert of each row
    std::vector<size_t> places;     ///< position of each row after the rows are sorted by expert
    std::vector<uint64_t> counts;   ///< number of this rank's rows for each expert
    std::vector<uint64_t> arrived;  ///< number of rows that came, for each rank and own expert
    Growing tokens, up, bent;       ///< arrays for all rows that came
  };

  [[nodiscard]] size_t own_count() const { return shape_.experts / roads_.slice.count; }
  [[nodiscard]] bool divided() const { return roads_.slice.count > 1; }
  [[nodiscard]] Buffer take(size_t count, bool travels);
  void grow(Growing &memory, size_t count, bool travels);
  void route(const float *x, const float *router, Kept &kept);
  void exchange_counts(Kept &kept);
  /// Moves rows to the ranks of their experts, or back.
  void move(const Kept &kept, const float *from, float *to, bool back);
  /// Calls visit(own expert, first row, rows) for the rows that each rank has sent to each expert of this rank.
  template <class Visit>
  void each_part(const Kept &kept, const Visit &visit) const;
  void expert_backward(Kept &kept, const ExpertFloats<const float> &parameters, const ExpertFloats<float> &gradients);

  const Shape shape_;
  const size_t rows_;
  Compute &compute_;
  const ExpertRoads roads_;
  bool allocated_ = true;
  size_t float_count_ = 0;
  uint64_t sent_bytes_ = 0;
  std::vector<Kept> layers_;
  Buffer outgoing_;          ///< rows in the order of experts, on their way to the experts
  Buffer chance_gradients_;  ///< gradients of the router's products
  Buffer bias_sums_;
  Growing incoming_;         ///< results or gradients of the rows that came
  Growing wide_;             ///< gradients inside the experts
};

}  // namespace rondo::train
