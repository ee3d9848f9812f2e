// SPDX-License-Identifier: Apache-2.0
// This file implements a StoreCore that a mutex protects.
#include "src/bootstrap/store/store.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "src/base/clock.h"
#include "src/bootstrap/messages.h"
#include "src/bootstrap/store/core.h"

namespace rondo {
namespace {

constexpr uint64_t wait_max_ns = 3'600'000'000'000;  // a longer wait is repeated; this keeps far deadlines in range

struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  StoreCore core;                                 // the mutex guards this and the following members
  std::unordered_map<uint64_t, Reply> replies;  // by client, until fetched
};

class LocalStore final : public RequestStore {
 public:
  LocalStore(std::shared_ptr<Shared> shared, uint64_t client) : shared_(std::move(shared)), client_(client) {}

  std::function<void()> set_idle_work(std::function<void()> work) override {
    return std::exchange(idle_work_, std::move(work));
  }

 private:
  Result<Reply> carry(Request request, uint64_t deadline_ns) override {
    request.id = ++last_id_;
    Request cancel;
    cancel.kind = Request::Kind::cancel;
    cancel.id = request.id;
    std::unique_lock lock(shared_->mutex);
    handle(std::move(request));
    while (!shared_->replies.contains(client_)) {  // ends: the core answers a cancel at once
      const uint64_t now = now_ns();
      if (now >= deadline_ns) {
        handle(cancel);
        continue;
      }
      if (idle_work_) {
        lock.unlock();
        idle_work_();
        lock.lock();
        if (shared_->replies.contains(client_)) break;
      }
      const uint64_t wait_ns = idle_work_ ? IdleWork::interval_ns : wait_max_ns;
      shared_->changed.wait_for(lock, std::chrono::nanoseconds(std::min(deadline_ns - now, wait_ns)));
    }
    const auto found = shared_->replies.find(client_);
    Reply reply = std::move(found->second);
    shared_->replies.erase(found);
    return reply;
  }

  Result<std::optional<Reply>> ask(Request request) override {
    RONDO_TRY_ASSIGN(Reply reply, carry(std::move(request), 0));  // the core answers it at once
    return std::optional<Reply>(std::move(reply));
  }

  void post(Request request) override {
    const std::unique_lock lock(shared_->mutex);
    request.id = ++last_id_;
    handle(std::move(request));
    shared_->replies.erase(client_);
  }

  void handle(Request request) {
    std::vector<Delivery> deliveries;
    shared_->core.handle(client_, std::move(request), deliveries);
    for (Delivery &delivery : deliveries) shared_->replies[delivery.client] = std::move(delivery.reply);
    if (!deliveries.empty()) shared_->changed.notify_all();
  }

  std::shared_ptr<Shared> shared_;
  uint64_t client_;
  uint64_t last_id_ = 0;
  std::function<void()> idle_work_;
};

}  // namespace

std::vector<std::unique_ptr<Store>> make_local_stores(uint32_t count) {
  const auto shared = std::make_shared<Shared>();
  std::vector<std::unique_ptr<Store>> stores;
  for (uint32_t at = 0; at < count; ++at) stores.push_back(std::make_unique<LocalStore>(shared, at));
  return stores;
}

}  // namespace rondo
