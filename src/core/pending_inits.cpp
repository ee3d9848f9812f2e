// SPDX-License-Identifier: Apache-2.0
#include "src/core/pending_inits.h"

#include <exception>
#include <utility>

#include "src/base/start_thread.h"
#include "src/core/communicator.h"

namespace rondo {

Result<void *> PendingInits::start(Initialisation initialisation) {
  RONDO_TRY_ASSIGN(auto cancel, Cancel::make());
  void *const handle = communicators_.reserve();
  if (handle == nullptr) return no_more_handles(HandleKind::communicator);
  const std::lock_guard lock(mutex_);  // its thread ends after this
  auto &entry = entries_[handle] = std::make_unique<Entry>();
  entry->cancel = std::move(cancel);
  auto thread = start_thread("the initialisation of a communicator",
                             [this, handle, &here = *entry, initialisation = std::move(initialisation)] {
                               run(handle, here, initialisation);
                             });
  if (thread.ok()) {
    entry->thread = std::move(thread).value();
    return handle;
  }
  entries_.erase(handle);
  communicators_.release(handle);
  return std::move(thread).error();
}

void PendingInits::run(const void *handle, Entry &entry, const Initialisation &initialisation) {
  Result<std::shared_ptr<Communicator>> made = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory or threads"};
  try {
    made = initialisation.run(entry.cancel.get());
  } catch (const std::exception &) {  // as it stands
  }
  const std::lock_guard lock(mutex_);
  entry.done = true;
  if (!made.ok()) {
    entry.failure = std::move(made).error();
    return;
  }
  if (entry.cancel->requested()) made.value()->abort();  // it came too late to be noticed
  communicators_.fill(handle, std::move(made).value());
}

std::optional<Error> PendingInits::why_not(const void *handle) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return std::nullopt;
  if (found->second->done) return found->second->failure;
  return Error{RONDO_NOT_READY,
               "the communicator is still being made; rondo_comm_get_async_error() tells when it is ready"};
}

bool PendingInits::cancel(const void *handle) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return false;
  found->second->cancel->request();
  return !found->second->done || found->second->failure.has_value();
}

bool PendingInits::finish(const void *handle) {
  std::unique_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(handle);
    if (found == entries_.end()) return false;
    entry = std::move(found->second);
    entries_.erase(found);
  }
  entry->cancel->request();
  entry->thread.join();
  if (!entry->failure) return false;
  communicators_.release(handle);
  return true;
}

void PendingInits::finish_all() {
  std::map<const void *, std::unique_ptr<Entry>> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.swap(entries_);
  }
  for (const auto &[handle, entry] : entries) entry->cancel->request();
  for (const auto &[handle, entry] : entries) entry->thread.join();
}

}  // namespace rondo
