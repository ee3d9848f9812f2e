// SPDX-License-Identifier: Apache-2.0
// The store servers that this process runs. Each unique id that it made has one until its group is complete. The job
// whose rank 0 it is has one for all communicators from the environment. Any thread.
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

  /// Reports to its clients which rank's process this is.
  void hosted_by(const std::string &group, uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->hosted_by(rank);
  }

  /// Ends the group for its clients if that rank, whose process has ended, has not entered it.
  void rank_ended(const std::string &group, uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->rank_ended(rank);
  }

  /// Reports to its clients why that rank is not going to be among them.
  void host_failed(const std::string &group, const Error &error) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->host_failed(error);
  }

  /// Calls StoreServer::on_rival() of the group's server.
  void on_rival(const std::string &group, std::function<void(const Error &)> report) {
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) found->second->on_rival(std::move(report));
  }

  /// Ends the server of `group`, if it is here.
  void remove(const std::string &group) {
    std::unique_ptr<StoreServer> ended;  // goes after the lock: it joins its thread
    const std::lock_guard lock(mutex_);
    if (const auto found = servers_.find(group); found != servers_.end()) {
      ended = std::move(found->second);
      servers_.erase(found);
    }
  }

  /// Ends all, each of which first sends the replies that it owes.
  void remove_all() {
    Servers ended;  // as above
    const std::lock_guard lock(mutex_);
    ended.swap(servers_);
  }

 private:
  using Servers = std::map<std::string, std::unique_ptr<StoreServer>>;

  std::mutex mutex_;
  Servers servers_;
};

}  // namespace rondo
