// SPDX-License-Identifier: Apache-2.0
// This carrier lets collectives add up gradients: all-reduce, or reduce-scatter if each rank updates only a share.
#include "bench/trainer/exchange/carrier.h"

namespace rondo::train {
namespace {

size_t expert_count(const Road &road) {
  size_t count = 0;
  for (const Bucket &bucket : road.buckets)
    if (bucket.of_experts) count += bucket.count;
  return count;
}

class ReducedCarrier final : public Carrier {
 public:
  ReducedCarrier(const Road &road, rondo_type_t type, bool sharded) : road_(road), type_(type), sharded_(sharded) {
    for (const Bucket &bucket : road.buckets)
      for (size_t rank = 0; rank < road.group.size(); ++rank)
        counts_.push_back(share_of(bucket, rank, road.group.size()).count);
  }

  Outcome open() override {
    if (type_ == RONDO_FLOAT32) return std::nullopt;
    const size_t floats = (road_.layout.trained + 1) / 2;  // two 16-bit elements per float
    return road_.compute.allocate_shared(floats, narrow_);
  }
  size_t memory_bytes() const override { return narrow_ == nullptr ? 0 : wire_bytes(); }
  size_t wire_bytes() const override {
    const size_t alone = road_.same.size() > 1 ? 0 : expert_count(road_);  // floats that no other rank has
    return (road_.layout.trained - alone) * rondo_type_size(type_);
  }
  size_t received_bytes() const override {
    return all_reduced_bytes(road_, rondo_type_size(type_)) / (sharded_ ? 2 : 1);
  }
  void set_scale(float scale) override { scale_ = scale; }

  Outcome send(size_t index) override {
    const Bucket &bucket = road_.buckets[index];
    if (alone(bucket)) return std::nullopt;
    void *data = road_.gradients + bucket.offset;
    if (narrow_ != nullptr) {
      data = narrow() + bucket.offset;
      road_.compute.narrow(road_.gradients + bucket.offset, data, type_, scale_, bucket.count);
      if (auto failure = road_.lane.follow_computation()) return failure;
    }
    const rondo_comm_t comm = bucket.of_experts ? road_.same.comm() : road_.lane.comm();
    if (!sharded_)
      return road_.group.check("rondo_all_reduce",
                               rondo_all_reduce(data, data, bucket.count, type_, RONDO_SUM, comm, road_.stream));
    const size_t before = own(index).offset - bucket.offset;
    void *const mine = static_cast<char *>(data) + before * rondo_type_size(type_);
    return road_.group.check("rondo_reduce_scatter_v",
                             rondo_reduce_scatter_v(data, mine, counts_.data() + index * road_.group.size(), type_,
                                                    RONDO_SUM, comm, road_.stream));
  }

  void receive(size_t index) override {
    const Bucket &bucket = road_.buckets[index];
    if (narrow_ == nullptr || alone(bucket)) return;
    const Share share = sharded_ ? own(index) : Share{bucket.offset, bucket.count};
    road_.compute.widen(narrow() + share.offset, type_, road_.gradients + share.offset, 1.0f / scale_, share.count);
  }

 private:
  uint16_t *narrow() const { return reinterpret_cast<uint16_t *>(narrow_.get()); }
  /// Says whether no other rank has gradients of the bucket.
  bool alone(const Bucket &bucket) const { return bucket.of_experts && road_.same.size() == 1; }
  Share own(size_t index) const { return share_of(road_.buckets[index], road_.group.rank(), road_.group.size()); }

  const Road road_;
  const rondo_type_t type_;
  const bool sharded_;
  float scale_ = 1.0f;
  std::vector<size_t> counts_;  ///< floats of each rank's share of each bucket
  Buffer narrow_;               ///< the gradients in 16 bits, if they are not sent as floats
};

}  // namespace

size_t all_reduced_bytes(const Road &road, size_t element_bytes) {
  const size_t of_experts = expert_count(road);
  const auto received = [&](size_t count, size_t ranks) { return 2 * count * element_bytes * (ranks - 1) / ranks; };
  return received(road.layout.trained - of_experts, road.group.size()) + received(of_experts, road.same.size());
}

std::unique_ptr<Carrier> make_reduced_carrier(const Road &road, rondo_type_t type, bool sharded) {
  return std::make_unique<ReducedCarrier>(road, type, sharded);
}

}  // namespace rondo::train
