// SPDX-License-Identifier: Apache-2.0
// The store servers of the unique ids that this process made, until their groups are complete. Any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "src/bootstrap/store.h"

namespace rondo {

class IdServers {
 public:
  void add(const std::string &group, std::unique_ptr<StoreServer> server) {
    const std::lock_guard lock(mutex_);
    servers_[group] = std::move(server);
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

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<StoreServer>> servers_;
};

}  // namespace rondo
