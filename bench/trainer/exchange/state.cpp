// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange/state.h"

#include <algorithm>

#include "bench/trainer/compute/host_view.h"

namespace rondo::train {
namespace {

/// Visits each run of the whole tensor's floats that a slice contains. Copies to the slice and back use this function.
template <class Visit>
void each_run_of(const Tensor &slice, const Visit &visit) {
  for (size_t block = 0; block < slice.blocks; ++block)
    visit(block * slice.length(), block * slice.stride + slice.begin, slice.length());
}

/// Returns the slice of another rank that corresponds to `mine`.
Tensor slice_of(const Tensor &mine, size_t index) {
  Tensor other = mine;
  if (mine.split()) other.begin = index * mine.length();
  return other;
}

/// Copies an optimizer's moments to their offsets in the whole array, or back.
template <class Copy>
void each_piece(const Optimizer &optimizer, const Copy &copy) {
  size_t moment = 0;
  for (size_t part = 0; part < optimizer.part_count(); ++part) {
    for (const Piece &piece : optimizer.part(part)) {
      copy(moment, piece.offset, piece.count);
      moment += piece.count;
    }
  }
}

}  // namespace

size_t State::own_state_count() const {
  size_t count = 0;
  for (const auto &array : exchange_.carrier().state()) count += array.size();
  return count;
}

size_t State::whole_count() const { return 3 * whole_.count + ranks_.all().size() * own_state_count(); }

Outcome State::write(const Sink &sink) {
  if (auto failure = write_array(HostView(compute_, parameters_.get(), layout_.count).get(), sink)) return failure;
  for (const float *const moments : {optimizer_.first_moments(), optimizer_.second_moments()}) {
    HostView view(compute_, moments, optimizer_.count());
    if (auto failure = write_moments(view.get(), sink)) return failure;
  }
  return write_carrier_state(sink);
}

Outcome State::write_array(const float *values, const Sink &sink) {
  const bool writes = ranks_.all().rank() == 0;
  if (ranks_.sharers() == 1) {
    if (writes) sink(values, layout_.count);
    return std::nullopt;
  }
  if (ranks_.stage().count > 1) return write_stages(values, sink);
  std::vector<float> slices, whole;
  for (const Tensor &tensor : layout_.tensors) {
    slices.resize(tensor.count * ranks_.sharers());
    if (auto failure = ranks_.joint().gather(values + tensor.offset, tensor.count * sizeof(float), slices.data()))
      return failure;
    whole.resize(tensor.whole_count());
    for (size_t index = 0; index < ranks_.sharers(); ++index)
      each_run_of(slice_of(tensor, index), [&](size_t from, size_t to, size_t count) {
        std::copy_n(slices.data() + index * tensor.count + from, count, whole.data() + to);
      });
    if (writes) sink(whole.data(), whole.size());
  }
  return std::nullopt;
}

/// Writes the tensors of all stages. If two stages have a tensor, the first one's values are written.
Outcome State::write_stages(const float *values, const Sink &sink) {
  Group &joint = ranks_.joint();
  const size_t count = whole_.tensors.size();
  std::vector<size_t> mine(count, no_tensor), places(count * joint.size());
  for (size_t index = 0; index < layout_.tensors.size(); ++index) mine[layout_.tensors[index].number] = index;
  if (auto failure = joint.gather(mine.data(), count * sizeof(size_t), places.data())) return failure;
  std::vector<float> tensor;
  for (size_t number = 0; number < count; ++number) {
    size_t owner = 0;
    while (owner + 1 < joint.size() && places[owner * count + number] == no_tensor) ++owner;
    tensor.resize(whole_.tensors[number].count);
    if (owner == joint.rank()) std::copy_n(layout_.in(values, mine[number]), tensor.size(), tensor.data());
    if (auto failure = joint.broadcast(tensor.data(), tensor.size() * sizeof(float), owner)) return failure;
    if (ranks_.all().rank() == 0) sink(tensor.data(), tensor.size());
  }
  return std::nullopt;
}

Outcome State::write_moments(const float *moments, const Sink &sink) {
  if (!exchange_.sharded()) return write_array(moments, sink);
  std::vector<float> all(layout_.count);
  each_piece(optimizer_, [&](size_t from, size_t to, size_t count) {
    std::copy_n(moments + from, count, all.data() + to);
  });
  if (auto failure = exchange_.gather_shares(all.data())) return failure;
  return write_array(all.data(), sink);
}

Outcome State::write_carrier_state(const Sink &sink) {
  Group &all = ranks_.all();
  std::vector<float> others;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto &array : exchange_.carrier().state()) {
      others.assign(array.begin(), array.end());
      if (auto failure = all.broadcast(others.data(), others.size() * sizeof(float), rank)) return failure;
      if (all.rank() == 0) sink(others.data(), others.size());
    }
  }
  return std::nullopt;
}

Outcome State::deal_out(bool resumed) {
  if (!resumed) return deal_first_parameters();
  HostView parameters = HostView::to_fill(compute_, parameters_.get(), layout_.count);
  if (auto failure = deal_array(0, parameters.get())) return failure;
  parameters.write_back();
  size_t array = 1;
  for (float *const moments : {optimizer_.first_moments(), optimizer_.second_moments()}) {
    HostView view = HostView::to_fill(compute_, moments, optimizer_.count());
    if (auto failure = deal_moments(array++, view.get())) return failure;
    view.write_back();
  }
  if (auto failure = deal_carrier_state()) return failure;
  filled_ = {};
  return compute_.finish();
}

/// Sends rank 0's first parameters to all ranks. Each rank has drawn them from the seed, but mathematical libraries may
/// differ in a bit.
Outcome State::deal_first_parameters() {
  HostView view(compute_, parameters_.get(), layout_.count);
  float *const parameters = view.get();
  if (auto failure = ranks_.same().broadcast(parameters, layout_.count * sizeof(float))) return failure;
  if (ranks_.stage().count > 1) {
    if (auto failure = deal_tokens(parameters)) return failure;
  } else if (ranks_.sharers() > 1) {
    for (const Tensor &tensor : layout_.tensors)
      if (!tensor.split())
        if (auto failure = ranks_.joint().broadcast(parameters + tensor.offset, tensor.count * sizeof(float)))
          return failure;
  }
  view.write_back();
  return compute_.finish();
}

/// Copies the first stage's token embedding to the last stage.
Outcome State::deal_tokens(float *parameters) {
  const Stage stage{ranks_.stage().index, ranks_.stage().count};
  if (!stage.first() && !stage.last()) return std::nullopt;
  float *const tokens = layout_.in(parameters, layout_.token);
  const size_t count = layout_.tensors[layout_.token].count;
  if (stage.first()) return ranks_.joint().send(tokens, count, stage.count - 1);
  return ranks_.joint().receive(tokens, count, 0);
}

Outcome State::deal_array(size_t array, float *values) {
  std::vector<float> whole;
  size_t index = 0;  // index of this rank's next tensor
  for (const Tensor &each : whole_.tensors) {
    whole.resize(each.count);
    if (!filled_.empty())
      std::copy_n(filled_.data() + array * whole_.count + each.offset, whole.size(), whole.data());
    if (auto failure = ranks_.all().broadcast(whole.data(), whole.size() * sizeof(float))) return failure;
    if (index == layout_.tensors.size() || layout_.tensors[index].number != each.number) continue;
    const Tensor &tensor = layout_.tensors[index++];
    if (array > 0 && tensor.offset >= layout_.trained) continue;  // such a tensor has no moments here
    each_run_of(tensor, [&](size_t to, size_t from, size_t count) {
      std::copy_n(whole.data() + from, count, values + tensor.offset + to);
    });
  }
  return std::nullopt;
}

Outcome State::deal_moments(size_t array, float *moments) {
  if (!exchange_.sharded()) return deal_array(array, moments);
  std::vector<float> all(layout_.count);
  if (auto failure = deal_array(array, all.data())) return failure;
  each_piece(optimizer_, [&](size_t to, size_t from, size_t count) {
    std::copy_n(all.data() + from, count, moments + to);
  });
  return std::nullopt;
}

Outcome State::deal_carrier_state() {
  Group &all = ranks_.all();
  size_t from = 3 * whole_.count;
  std::vector<float> others;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const auto &array : exchange_.carrier().state()) {
      others.resize(array.size());
      if (!filled_.empty()) std::copy_n(filled_.data() + from, others.size(), others.data());
      from += others.size();
      if (auto failure = all.broadcast(others.data(), others.size() * sizeof(float))) return failure;
      if (rank == all.rank()) std::copy(others.begin(), others.end(), array.begin());
    }
  }
  return std::nullopt;
}

}  // namespace rondo::train
