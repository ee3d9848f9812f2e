// SPDX-License-Identifier: Apache-2.0
// This class holds the store servers that run in this process. A unique id that was made here has a server until its
// group is complete. If this process has rank 0 of a job, it has another server, for all communicators made from the
// environment. Any thread may call it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/start_thread.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

class IdServers {
 public:
  void add(const std::string &group, std::unique_ptr<StoreServer> server) {
    const std::lock_guard lock(mutex_);
    servers_[group] = std::move(server);
  }

  [[nodiscard]] bool contains(const std::string &group) {
    const std::lock_guard lock(mutex_);
    return servers_.contains(group);
  }

  /// Reports to the server's clients that this process has rank `rank`.
  void hosted_by(const std::string &group, uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->hosted_by(rank);
  }

  /// Reports that the process of `rank` has ended. The group fails if the rank had not entered it.
  void rank_ended(const std::string &group, uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->rank_ended(rank);
  }

  /// Reports to the server's clients that `rank` will not join, and why.
  void host_failed(const std::string &group, const Error &error, uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->host_failed(error, rank);
  }

  /// Calls StoreServer::on_rival() of the group's server, if this process runs it.
  void on_rival(const std::string &group, std::function<void(const Error &)> report) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->on_rival(std::move(report));
  }

  /// Ends the server of `group`, if this process has it.
  void remove(const std::string &group) { (void)take(group); }

  /// Ends the server of a group that has failed, if this process has it. The ranks that must still learn of the failure
  /// have a second for that; the call does not wait for them.
  void dismiss(const std::string &group) {
    std::shared_ptr<StoreServer> ended = take(group);
    if (ended == nullptr) return;
    const auto counted = std::make_shared<Ending>(*this);
    auto thread = start_thread("the end of a store", [ended = std::move(ended), counted]() mutable { ended.reset(); });
    if (thread.ok()) thread.value().detach();
  }

  /// Ends all servers. Each server first sends the replies that it owes.
  void remove_all() {
    Servers ended;  // destroyed after the lock is released
    std::unique_lock lock(mutex_);
    ended.swap(servers_);
    none_ends_.wait(lock, [this] { return ending_count_ == 0; });  // bounded, as StoreServer's destructor is
  }

 private:
  using Servers = std::map<std::string, std::shared_ptr<StoreServer>>;

  /// Counts a server that ends on a thread of its own.
  class Ending {
   public:
    explicit Ending(IdServers &of) : of_(of) {
      const std::lock_guard lock(of_.mutex_);
      ++of_.ending_count_;
    }
    ~Ending() {
      const std::lock_guard lock(of_.mutex_);
      --of_.ending_count_;
      of_.none_ends_.notify_all();
    }
    Ending(const Ending &) = delete;
    Ending &operator=(const Ending &) = delete;

   private:
    IdServers &of_;
  };

  /// Returns the server of `group`, or null. The caller destroys it without the lock, because its destructor joins a
  /// thread.
  std::shared_ptr<StoreServer> take(const std::string &group) {
    const std::lock_guard lock(mutex_);
    const auto found = servers_.find(group);
    if (found == servers_.end()) return nullptr;
    std::shared_ptr<StoreServer> taken = std::move(found->second);
    servers_.erase(found);
    return taken;
  }

  std::mutex mutex_;
  Servers servers_;
  std::condition_variable none_ends_;
  uint32_t ending_count_ = 0;
};

}  // namespace rondo
