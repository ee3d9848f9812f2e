// SPDX-License-Identifier: Apache-2.0
#include "src/core/pending_inits.h"

#include <exception>
#include <new>
#include <utility>

#include "src/base/start_thread.h"
#include "src/core/communicator.h"

namespace rondo {

Result<void *> PendingInits::start(Initialisation initialisation) {
  auto entry = std::make_unique<Entry>();
  auto cancel = Cancel::make();
  if (cancel.ok()) entry->cancel = std::move(cancel).value();
  void *const handle = communicators_.reserve();
  if (handle == nullptr) return no_more_handles(HandleKind::communicator);
  Entry &here = *entry;
  try {
    const std::lock_guard lock(mutex_);  // the new thread takes it, too, so the thread ends after the entry is complete
    entries_.emplace(handle, std::move(entry));
    if (here.cancel != nullptr) {
      auto thread = start_thread("the initialisation of a communicator",
                                 [this, handle, &here, initialisation] { run(handle, here, initialisation); });
      if (thread.ok()) {
        here.thread = std::move(thread).value();
        return handle;
      }
    }
  } catch (const std::bad_alloc &) {
    const std::lock_guard lock(mutex_);
    entries_.erase(handle);
    communicators_.release(handle);
    throw;
  }
  run(handle, here, initialisation);  // no thread or descriptor is left, so this thread does the work
  return handle;
}

void PendingInits::run(const void *handle, Entry &entry, const Initialisation &initialisation) {
  Result<std::shared_ptr<Communicator>> made = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory or threads"};
  try {
    made = initialisation.run(entry.cancel.get());
  } catch (const std::exception &) {  // `made` keeps its error
  }
  const std::lock_guard lock(mutex_);
  if (!made.ok()) {
    entry.failure = std::move(made).error();
    return;
  }
  if (entry.cancel != nullptr && entry.cancel->requested()) made.value()->abort();  // cancelled after it was made
  communicators_.fill(handle, std::move(made).value());
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return;  // finish() has taken the entry, and waits for this thread
  if (entry.thread.joinable()) entry.thread.detach();
  entries_.erase(found);
}

std::optional<Error> PendingInits::why_not(const void *handle) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return std::nullopt;
  if (found->second->failure) return found->second->failure;
  return Error{RONDO_NOT_READY,
               "the communicator is still being made; rondo_comm_get_async_error() reports when it is ready"};
}

bool PendingInits::cancel(const void *handle) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return false;
  if (found->second->cancel != nullptr) found->second->cancel->request();
  return true;
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
  end(*entry);
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
  for (const auto &[handle, entry] : entries)
    if (entry->cancel != nullptr) entry->cancel->request();
  for (const auto &[handle, entry] : entries) end(*entry);
}

void PendingInits::end(Entry &entry) {
  if (entry.cancel != nullptr) entry.cancel->request();
  if (entry.thread.joinable()) entry.thread.join();
}

}  // namespace rondo
