// SPDX-License-Identifier: Apache-2.0
// This is the queue of requests by time, a radix heap. No new item is earlier than the last item that was taken out. An
// item's bucket is the highest bit in which its time differs from that last item's time, so items only move to lower
// buckets. An item costs a few sequential copies, while a binary heap would access scattered memory.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

namespace rondo::sim {

struct Request {
  int64_t time_ps;
  uint64_t order;   ///< order among requests with equal times; each request has an order of its own
  uint32_t target;
};

class RequestQueue {
 public:
  void push(const Request &request) {
    assert(request.time_ps >= last_ps_);
    const size_t bucket = bucket_of(request.time_ps);
    buckets_[bucket].push_back(request);
    sorted_ &= bucket != 0;
    ++size_;
  }

  /// Takes out the earliest request. If several have that time, takes the one with the least order.
  Request pop() {
    assert(size_ > 0);
    if (buckets_[0].empty()) refill();
    if (!sorted_) {
      std::sort(buckets_[0].begin(), buckets_[0].end(),
                [](const Request &a, const Request &b) { return a.order > b.order; });
      sorted_ = true;
    }
    const Request request = buckets_[0].back();
    buckets_[0].pop_back();
    --size_;
    return request;
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto &bucket : buckets_)
      for (const Request &request : bucket) visit(request);
  }

  void shift_times(int64_t by_ps) {
    std::vector<Request> all;
    for_each([&](const Request &request) { all.push_back(request); });
    for (auto &bucket : buckets_) bucket.clear();
    size_ = 0;
    last_ps_ += by_ps;
    for (Request &request : all) {
      request.time_ps += by_ps;
      push(request);
    }
  }

 private:
  [[nodiscard]] size_t bucket_of(int64_t time_ps) const {
    return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(time_ps) ^ static_cast<uint64_t>(last_ps_)));
  }

  void refill() {
    size_t first = 1;
    while (buckets_[first].empty()) ++first;
    std::vector<Request> moved = std::move(buckets_[first]);
    buckets_[first].clear();
    last_ps_ = std::min_element(moved.begin(), moved.end(), [](const Request &a, const Request &b) {
                 return a.time_ps < b.time_ps;
               })->time_ps;
    for (const Request &request : moved) buckets_[bucket_of(request.time_ps)].push_back(request);
    sorted_ = false;
  }

  std::array<std::vector<Request>, 65> buckets_;
  int64_t last_ps_ = 0;
  size_t size_ = 0;
  bool sorted_ = true;  ///< true if bucket 0 is sorted
};

}  // namespace rondo::sim
