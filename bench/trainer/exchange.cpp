// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace rondo::train {

Exchange::Exchange(const Layout &layout, const Settings &settings, Group &group, Compute &compute)
    : layout_(layout), settings_(settings), group_(group), compute_(compute), overlap_(settings.overlap) {
  make_buckets();
}

/// A bucket ends before the tensor that would make it too large. A larger tensor has a bucket of its own.
void Exchange::make_buckets() {
  const size_t most = std::max<size_t>(settings_.bucket_bytes / sizeof(float), 1);
  for (size_t index = 0; index < layout_.tensors.size(); ++index) {
    const Tensor &tensor = layout_.tensors[index];
    if (buckets_.empty() || buckets_.back().count + tensor.count > most)
      buckets_.push_back({index, index, tensor.offset, 0});
    buckets_.back().end = index + 1;
    buckets_.back().count += tensor.count;
  }
}

Outcome Exchange::open() {
  const auto allocate = [this](auto *&target, size_t element_bytes) {
    void *memory = nullptr;
    note("rondo_mem_alloc", rondo_mem_alloc(&memory, layout_.count * element_bytes));
    target = static_cast<std::remove_reference_t<decltype(target)>>(memory);
  };
  allocate(gradients_, sizeof(float));
  if (settings_.wire != RONDO_FLOAT32) allocate(narrow_, sizeof(uint16_t));
  note("rondo_stream_create", rondo_stream_create(&stream_));
  for (Bucket &bucket : buckets_) {
    note("rondo_event_create", rondo_event_create(&bucket.began));
    note("rondo_event_create", rondo_event_create(&bucket.ended));
  }
  return failure_;
}

Exchange::~Exchange() {
  if (stream_ != nullptr) (void)rondo_stream_destroy(stream_);  // waits for what is under way
  for (const Bucket &bucket : buckets_) {
    if (bucket.began != nullptr) (void)rondo_event_destroy(bucket.began);
    if (bucket.ended != nullptr) (void)rondo_event_destroy(bucket.ended);
  }
  (void)rondo_mem_free(narrow_);
  (void)rondo_mem_free(gradients_);
}

size_t Exchange::wire_bytes() const { return layout_.count * rondo_type_size(settings_.wire); }

size_t Exchange::memory_bytes() const { return narrow_ == nullptr ? 0 : layout_.count * sizeof(uint16_t); }

void Exchange::note(const char *call, rondo_status_t status) {
  if (status != RONDO_OK && !failure_) failure_ = communication_failure(group_.comm(), call, status);
}

void Exchange::tensor_ready(size_t tensor) {
  if (overlap_ && filling_ < buckets_.size() && tensor + 1 == buckets_[filling_].end) start(buckets_[filling_++]);
}

void Exchange::start(Bucket &bucket) {
  bucket.ready_ns = now_ns();
  void *data = gradients_ + bucket.offset;
  if (narrow_ != nullptr) {
    data = narrow_ + bucket.offset;
    compute_.narrow(gradients_ + bucket.offset, data, settings_.wire, wire_scale_, bucket.count);
  }
  note("rondo_event_record", rondo_event_record(bucket.began, stream_));
  note("rondo_all_reduce",
       rondo_all_reduce(data, data, bucket.count, settings_.wire, RONDO_SUM, group_.comm(), stream_));
  note("rondo_event_record", rondo_event_record(bucket.ended, stream_));
}

void Exchange::finish_pass(double *losses, size_t count) {
  while (filling_ < buckets_.size()) start(buckets_[filling_++]);
  filling_ = 0;
  note("rondo_all_reduce",
       rondo_all_reduce(losses, losses, count, RONDO_FLOAT64, RONDO_SUM, group_.comm(), stream_));
}

uint64_t Exchange::wait(size_t index) {
  const Bucket &bucket = buckets_[index];
  const uint64_t begin_ns = now_ns();
  note("rondo_event_synchronize", rondo_event_synchronize(bucket.ended));
  const uint64_t waited_ns = now_ns() - begin_ns;
  if (narrow_ != nullptr)
    compute_.widen(narrow_ + bucket.offset, settings_.wire, gradients_ + bucket.offset, 1.0f / wire_scale_,
                   bucket.count);
  return waited_ns;
}

Outcome Exchange::finish_step(uint64_t &waited_ns) {
  const uint64_t begin_ns = now_ns();
  note("rondo_all_reduce", rondo_stream_synchronize(stream_));
  waited_ns += now_ns() - begin_ns;
  return std::exchange(failure_, std::nullopt);
}

uint64_t Exchange::collect(uint64_t step, std::vector<Span> *spans) const {
  uint64_t total_ns = 0;
  for (size_t index = 0; index < buckets_.size(); ++index) {
    Span span{Part::bucket, static_cast<uint32_t>(index), step, 0, 0, buckets_[index].ready_ns};
    if (rondo_event_timestamp_ns(buckets_[index].began, &span.begin_ns) != RONDO_OK ||
        rondo_event_timestamp_ns(buckets_[index].ended, &span.end_ns) != RONDO_OK)
      continue;
    total_ns += span.end_ns - span.begin_ns;
    if (spans != nullptr) spans->push_back(span);
  }
  return total_ns;
}

}  // namespace rondo::train
