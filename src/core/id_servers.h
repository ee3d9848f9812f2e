// SPDX-License-Identifier: Apache-2.0
// This class holds the store servers that run in this process. A unique id that was made here has a server until its
// group is complete. If this process has rank 0 of a job, it has another server, for all communicators made from the
// environment. Any thread may call it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

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
  void host_failed(const std::string &group, const Error &error) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->host_failed(error);
  }

  /// Calls StoreServer::on_rival() of the group's server, if this process runs it.
  void on_rival(const std::string &group, std::function<void(const Error &)> report) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->on_rival(std::move(report));
  }

  /// Ends the server of `group`, if this process has it.
  void remove(const std::string &group) {
    std::unique_ptr<StoreServer> ended;  // destroyed after the unlock, because its destructor joins a thread
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) {
      ended = std::move(found->second);
      servers_.erase(found);
    }
  }

  /// Ends all servers. Each server first sends the replies that it owes.
  void remove_all() {
    Servers ended;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    ended.swap(servers_);
  }

 private:
  using Servers = std::map<std::string, std::unique_ptr<StoreServer>>;

  std::mutex mutex_;
  Servers servers_;
};

}  // namespace rondo
