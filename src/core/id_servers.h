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
  void remove(const std::string &group) { const Ending ending(*this, group); }

  /// Ends the server of a group that has failed, if this process has it. The ranks that must still learn of the failure
  /// have a second for that; the call does not wait for them.
  void dismiss(const std::string &group) {
    Ending ending(*this, group);
    if (ending.none()) return;
    auto thread = start_thread("the end of a store", [ending = std::move(ending)] {});
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
  using Servers = std::map<std::string, std::unique_ptr<StoreServer>>;

  /// Has the server of a group, if there is one, and counts it until its end. The destructor ends the server.
  class Ending {
   public:
    Ending(IdServers &of, const std::string &group) : of_(&of) {
      const std::lock_guard lock(of.mutex_);
      const auto found = of.servers_.find(group);
      if (found == of.servers_.end()) return;
      server_ = std::move(found->second);
      of.servers_.erase(found);
      ++of.ending_count_;
    }
    ~Ending() {
      if (none()) return;
      server_.reset();  // without the lock, because this joins a thread
      const std::lock_guard lock(of_->mutex_);
      --of_->ending_count_;
      of_->none_ends_.notify_all();
    }
    Ending(Ending &&) = default;
    Ending &operator=(Ending &&) = delete;

    [[nodiscard]] bool none() const { return server_ == nullptr; }

   private:
    IdServers *of_;
    std::unique_ptr<StoreServer> server_;
  };

  std::mutex mutex_;
  Servers servers_;
  std::condition_variable none_ends_;
  uint32_t ending_count_ = 0;
};

}  // namespace rondo
