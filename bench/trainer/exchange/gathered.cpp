// SPDX-License-Identifier: Apache-2.0
// This carrier is for gradients in a form that no collective can add up. Each rank gets the gradients of all ranks and
// adds them up in the order of ranks, so all ranks get the same bits. The form leaves out a part of a rank's gradients;
// the rank adds this part to its next gradients (error feedback). So all values arrive, some of them late.
#include "bench/trainer/exchange/carrier.h"
#include "bench/trainer/exchange/packing.h"

namespace rondo::train {
namespace {

class GatheredCarrier final : public Carrier {
 public:
  GatheredCarrier(const Road &road, const Compression &compression) : road_(road), packing_(make_packing(compression)) {
    for (const Bucket &bucket : road.buckets) {
      begins_.push_back(wire_bytes_ * road.group.size());
      wire_bytes_ += packing_->packed_bytes(bucket.count);
    }
  }

  Outcome open() override {
    left_out_ = road_.compute.allocate(road_.layout.count);
    if (left_out_ == nullptr) return Failure{Exit::usage, "there is no memory left for what compression leaves out"};
    return allocate_shared(road_.group.size() * wire_bytes_ / sizeof(float), packed_);
  }
  size_t memory_bytes() const override {
    return road_.group.size() * wire_bytes_ + road_.layout.count * sizeof(float);
  }
  size_t wire_bytes() const override { return wire_bytes_; }
  size_t received_bytes() const override { return (road_.group.size() - 1) * wire_bytes_; }
  std::vector<std::span<float>> state() const override { return {{left_out_.get(), road_.layout.count}}; }

  Outcome send(size_t index) override {
    const Bucket &bucket = road_.buckets[index];
    float *const values = left_out_.get() + bucket.offset;
    road_.compute.add(road_.gradients + bucket.offset, values, bucket.count);
    packing_->pack(values, bucket.count, of_rank(index, road_.group.rank()));
    return road_.group.check("rondo_all_gather",
                             rondo_all_gather(of_rank(index, road_.group.rank()), of_rank(index, 0),
                                              packing_->packed_bytes(bucket.count), RONDO_UINT8, road_.group.comm(),
                                              road_.stream));
  }

  void receive(size_t index) override {
    const Bucket &bucket = road_.buckets[index];
    road_.compute.zero(road_.gradients + bucket.offset, bucket.count);
    for (size_t rank = 0; rank < road_.group.size(); ++rank)
      packing_->add(of_rank(index, rank), bucket.count, road_.gradients + bucket.offset);
  }

 private:
  std::byte *of_rank(size_t index, size_t rank) const {
    return reinterpret_cast<std::byte *>(packed_.get()) + begins_[index] +
           rank * packing_->packed_bytes(road_.buckets[index].count);
  }

  const Road road_;
  const std::unique_ptr<Packing> packing_;
  std::vector<size_t> begins_;  ///< offset of each bucket in the packed bytes of all ranks
  size_t wire_bytes_ = 0;
  Buffer packed_, left_out_;
};

}  // namespace

std::unique_ptr<Carrier> make_gathered_carrier(const Road &road, const Compression &compression) {
  return std::make_unique<GatheredCarrier>(road, compression);
}

}  // namespace rondo::train
