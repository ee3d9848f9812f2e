// SPDX-License-Identifier: Apache-2.0
// This file times another library beside Rondo, in the same run, on the same memory and streams. The library has the
// binary interface of nccl.h, of which this file declares only the functions that it calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/failure.h"
#include "bench/perf/cases.h"
#include "bench/perf/group.h"
#include "bench/perf/verify.h"
#include "src/base/runtime_library.h"

namespace rondo::perf {

struct OtherFunctions;

/// The other library. It stays open until the process ends.
class OtherLibrary {
 public:
  OtherLibrary();
  ~OtherLibrary();
  /// Opens the library. Exit::usage: it cannot be opened, or lacks a function.
  [[nodiscard]] Outcome open(const std::string &path);
  [[nodiscard]] const OtherFunctions &functions() const { return *functions_; }
  [[nodiscard]] const std::string &path() const { return library_.path(); }
  [[nodiscard]] std::string version() const;  ///< "2.21.5"

 private:
  RuntimeLibrary library_;
  std::unique_ptr<OtherFunctions> functions_;
};

/// One rank's communicator of the other library. Only this rank's thread uses it, while its device is current.
class OtherComm {
 public:
  explicit OtherComm(const OtherLibrary &library) : library_(library) {}
  OtherComm(const OtherComm &) = delete;
  OtherComm &operator=(const OtherComm &) = delete;
  ~OtherComm();

  /// Makes the communicator. Every rank calls it.
  [[nodiscard]] Outcome init(Group &group);
  /// Enqueues the call.
  [[nodiscard]] Outcome call(const Case &what, const Shape &shape, Pointers at, void *stream);
  /// Returns an error that occurred after a call, if there is one.
  [[nodiscard]] Outcome check() const;
  /// Aborts the communicator and everything that it has enqueued.
  void abort();

 private:
  [[nodiscard]] Outcome failed(const char *what, int result) const;

  const OtherLibrary &library_;
  void *comm_ = nullptr;
};

}  // namespace rondo::perf
