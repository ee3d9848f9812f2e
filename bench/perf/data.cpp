// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/perf/numbers.h"

namespace rondo::perf {
namespace {

/// Draws `ranks` integers whose absolute values add up to at most `budget`, so that all partial sums stay within it.
std::vector<int64_t> draw_summands(Random &random, const TypeFacts &facts, int ranks, uint64_t budget) {
  std::vector<int64_t> values(static_cast<size_t>(ranks), 0);
  const auto most = static_cast<int64_t>(budget / values.size());
  if (most >= 1) {
    for (int64_t &value : values) value = random.between(facts.negative ? -most : 0, most);
    return values;
  }
  // The budget does not suffice for 1 on each rank. So each draw moves one rank's value by 1, away from 0. Ranks that
  // are never drawn keep 0.
  for (uint64_t draw = 0; draw < budget; ++draw) {
    int64_t &value = values[random.below(values.size())];
    const bool down = facts.negative && (value != 0 ? value < 0 : random.below(2) == 1);
    value += down ? -1 : 1;
  }
  return values;
}

uint64_t reduce_integers(const std::vector<uint64_t> &inputs, const TypeFacts &facts, rondo_op_t op) {
  const auto less = [&](uint64_t a, uint64_t b) {
    return facts.negative ? signed_value(a, facts.bits) < signed_value(b, facts.bits) : a < b;
  };
  uint64_t result = inputs[0];
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    const uint64_t input = inputs[rank];
    switch (op) {
      case RONDO_PROD: result *= input; break;
      case RONDO_MIN: result = less(input, result) ? input : result; break;
      case RONDO_MAX: result = less(result, input) ? input : result; break;
      default: result += input; break;
    }
  }
  return wrap_bits(result, facts.bits);
}

/// Returns the exact sum divided by the number of ranks, truncated toward zero.
uint64_t mean_of_integers(const std::vector<uint64_t> &inputs, const TypeFacts &facts) {
  __extension__ using Exact = __int128;
  Exact sum = 0;
  for (const uint64_t input : inputs)
    sum += facts.negative ? Exact{signed_value(input, facts.bits)} : Exact{input};
  return wrap_bits(static_cast<uint64_t>(sum / static_cast<Exact>(inputs.size())), facts.bits);
}

/// Returns the sum of the inputs, each multiplied by the factor of its rank.
uint64_t mulsum_of_integers(std::vector<uint64_t> inputs, const TypeFacts &facts) {
  for (size_t rank = 0; rank < inputs.size(); ++rank) inputs[rank] *= factor_of(rank);
  return reduce_integers(inputs, facts, RONDO_SUM);
}

std::vector<uint64_t> make_integer_row(Random &random, const TypeFacts &facts, rondo_op_t op, int ranks) {
  std::vector<uint64_t> row;  // any numbers are allowed, because sums wrap and means do not overflow
  for (int rank = 0; rank < ranks; ++rank)  // odd factors keep products from becoming 0
    row.push_back(wrap_bits(random.bits() | (op == RONDO_PROD ? 1 : 0), facts.bits));
  row.push_back(op == RONDO_AVG ? mean_of_integers(row, facts)
                : op == mulsum  ? mulsum_of_integers(row, facts)
                                : reduce_integers(row, facts, op));
  return row;
}

/// Draws factors whose partial products are exact: signs, at most four doublings and halvings, and one full mantissa.
std::vector<double> draw_factors(Random &random, const TypeFacts &facts, int ranks) {
  constexpr int scaling_count = 4;
  std::vector<double> values;
  for (int rank = 0; rank < ranks; ++rank) values.push_back(random.below(2) == 0 ? 1 : -1);
  for (int scaling = 0; scaling < scaling_count; ++scaling)
    values[random.below(values.size())] *= random.below(2) == 0 ? 2 : 0.5;
  const double fraction = static_cast<double>(random.below(uint64_t{1} << facts.mantissa_bits));
  values[random.below(values.size())] *= 1 + std::ldexp(fraction, -static_cast<int>(facts.mantissa_bits));
  return values;
}

double reduce_floats(const std::vector<double> &inputs, const TypeFacts &facts, rondo_op_t op) {
  double result = inputs[0];
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    switch (op) {
      case RONDO_PROD: result *= inputs[rank]; break;
      case RONDO_MIN: result = std::min(result, inputs[rank]); break;
      case RONDO_MAX: result = std::max(result, inputs[rank]); break;
      default: result += inputs[rank]; break;
    }
  }
  if (op != RONDO_AVG) return result;
  const auto ranks = static_cast<double>(inputs.size());
  // The mean follows the rule of rondo_op_t. float64 divides in float64. Other types divide in float32, and the
  // quotient is rounded to the element type.
  return facts.bits == 64 ? result / ranks : static_cast<float>(result) / static_cast<float>(ranks);
}

std::vector<uint64_t> make_float_row(Random &random, const TypeFacts &facts, rondo_op_t op, int ranks) {
  std::vector<double> values;
  if (op == RONDO_PROD) {
    values = draw_factors(random, facts, ranks);
  } else {
    const double scale = std::ldexp(1, static_cast<int>(random.between(-2, 2)));
    const auto most = static_cast<int64_t>(facts.exact_max);
    if (op == RONDO_MIN || op == RONDO_MAX) {
      for (int rank = 0; rank < ranks; ++rank)
        values.push_back(static_cast<double>(random.between(-most, most)) * scale);
    } else {
      for (const int64_t value : draw_summands(random, facts, ranks, facts.exact_max))
        values.push_back(static_cast<double>(value) * scale);
    }
    for (double &value : values) value += 0.0;  // no -0: a sum's zero is +0 in any order only if no summand is -0
  }
  std::vector<uint64_t> row;
  for (size_t rank = 0; rank < values.size(); ++rank)  // the halves are exact, too
    row.push_back(float_bits(facts, op == mulsum ? values[rank] / factor_of(rank) : values[rank]));
  row.push_back(float_bits(facts, reduce_floats(values, facts, op)));
  return row;
}

}  // namespace

std::vector<uint64_t> make_row(rondo_type_t type, rondo_op_t op, int ranks, uint64_t seed) {
  const TypeFacts facts = facts_of(type);
  Random random(seed);
  return facts.integer ? make_integer_row(random, facts, op, ranks) : make_float_row(random, facts, op, ranks);
}

uint64_t make_factor(rondo_type_t type, int rank) {
  const TypeFacts facts = facts_of(type);
  const uint32_t factor = factor_of(static_cast<size_t>(rank));
  return facts.integer ? factor : float_bits(facts, factor);
}

Sequence::Sequence(size_t element_bytes, uint64_t seed) : element_bytes_(element_bytes), seed_(seed) {
  Random random(seed);
  Pattern pattern(pattern_elements * element_bytes);
  for (std::byte &value : pattern) value = static_cast<std::byte>(random.bits() & 0xff);
  pattern_ = std::make_shared<const Pattern>(std::move(pattern));
}

Sequence::Sequence(size_t element_bytes, uint64_t seed, const Column &column)
    : element_bytes_(element_bytes), seed_(seed) {
  Random random(seed);
  Pattern pattern(pattern_elements * element_bytes);
  for (auto at = pattern.begin(); at != pattern.end(); at += static_cast<std::ptrdiff_t>(element_bytes))
    std::memcpy(&*at, &column[random.below(row_count)], element_bytes);  // x86-64, AArch64: the low bytes come first
  pattern_ = std::make_shared<const Pattern>(std::move(pattern));
}

Sequence Sequence::inverted() const {
  Pattern pattern = *pattern_;
  for (std::byte &value : pattern) value = ~value;
  Sequence other = *this;
  other.pattern_ = std::make_shared<const Pattern>(std::move(pattern));
  return other;
}

Sequence Sequence::with_seed(uint64_t seed) const {
  Sequence other = *this;
  other.seed_ = mix(seed);
  return other;
}

template <class Visit>
void Sequence::each_piece(Part part, const Visit &visit) const {
  const uint64_t end = part.first + part.count;
  for (uint64_t at = part.first; at < end;) {
    const uint64_t turn = mix(seed_ + at / pattern_elements * 0x9e3779b97f4a7c15u);
    const uint64_t from = (at + turn) % pattern_elements;
    const uint64_t count = std::min(end - at, pattern_elements - std::max<uint64_t>(from, at % pattern_elements));
    visit(pattern_->data() + from * element_bytes_, count * element_bytes_);
    at += count;
  }
}

void Sequence::write(std::byte *to, Part part) const {
  each_piece(part, [&](const std::byte *piece, size_t bytes) {
    std::memcpy(to, piece, bytes);
    to += bytes;
  });
}

uint64_t Sequence::count_wrong(const std::byte *at, Part part) const {
  uint64_t wrong = 0;
  each_piece(part, [&](const std::byte *piece, size_t bytes) {
    if (std::memcmp(at, piece, bytes) != 0) {
      for (size_t i = 0; i < bytes; i += element_bytes_)
        wrong += std::memcmp(at + i, piece + i, element_bytes_) != 0 ? 1 : 0;
    }
    at += bytes;
  });
  return wrong;
}

Data make_data(const Case &what, int rank, uint64_t seed) {
  const size_t element_bytes = rondo_type_size(what.type);
  if (what.collective == sendrecv) {  // each sender has other bytes, which reveals a message from another rank
    const auto sent_by = [&](int sender) { return Sequence(element_bytes, mix(seed) + static_cast<uint64_t>(sender)); };
    return {sent_by(rank), sent_by((rank + what.ranks - 1) % what.ranks)};
  }
  if (only_moves(like(what.collective))) {
    const Sequence copied(element_bytes, seed);
    // In a broadcast or scatter the send buffer of a rank other than root must not matter, so it has other content.
    return {reads_send(what, rank) ? copied : copied.inverted(), copied};
  }
  Column input{}, output{};
  for (size_t row = 0; row < row_count; ++row) {
    const auto values = make_row(what.type, what.op, what.ranks, mix(seed) + row);
    input[row] = values[static_cast<size_t>(rank)];
    output[row] = values.back();
  }
  return {Sequence(element_bytes, seed, input), Sequence(element_bytes, seed, output)};
}

}  // namespace rondo::perf
