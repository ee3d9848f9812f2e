// SPDX-License-Identifier: Apache-2.0
// This is Catch2's main. A program fails if no test case matches its arguments. Two variables show where a program is:
//
//     RONDO_TEST_PROGRESS      each test case is named on standard output as it begins, with the time since the start
//     RONDO_TEST_CASE_SECONDS  a case that takes longer is named, and ends the program, whatever the case waits for
#if __has_include(<catch2/catch_all.hpp>)
#include "tests/catch.h"
using CatchListener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_MAIN
#include "tests/catch.h"
using CatchListener = Catch::TestEventListenerBase;
#endif

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace {

using Clock = std::chrono::steady_clock;

/// Ends the program unless this object is destroyed in time.
class Deadline {
 public:
  Deadline(std::string name, std::chrono::duration<double> limit)
      : name_(std::move(name)), limit_(limit), thread_([this] { wait(); }) {}
  Deadline(const Deadline &) = delete;
  Deadline &operator=(const Deadline &) = delete;
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  /// Records the location of the last evaluated assertion. If the case hangs, it hangs after this location.
  void passed(const Catch::SourceLineInfo &place) {
    file_.store(place.file, std::memory_order_relaxed);  // relaxed: at worst, the line is of another file
    line_.store(place.line, std::memory_order_relaxed);
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit_, [this] { return ended_; })) return;
    std::printf("FAILED: still runs after %g s, and its last assertion was %s:%zu: %s\n", limit_.count(),
                file_.load(std::memory_order_relaxed), line_.load(std::memory_order_relaxed), name_.c_str());
    std::fflush(stdout);
    std::_Exit(1);
  }

  std::string name_;
  std::chrono::duration<double> limit_;
  std::atomic<const char *> file_{"none"};
  std::atomic<size_t> line_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;  // the last member, so that the thread begins after all other members are initialised
};

class Progress : public CatchListener {
 public:
  using CatchListener::CatchListener;

  void testCaseStarting(const Catch::TestCaseInfo &of) override {
    if (tells_) {
      const std::chrono::duration<double> since = Clock::now() - begin_;
      std::printf("%6.2f s: %s\n", since.count(), of.name.c_str());
      std::fflush(stdout);
    }
    if (seconds_ != nullptr)
      deadline_ = std::make_unique<Deadline>(of.name, std::chrono::duration<double>(std::atof(seconds_)));
  }
  void assertionStarting(const Catch::AssertionInfo &of) override {
    if (deadline_ != nullptr) deadline_->passed(of.lineInfo);
  }
  void testCaseEnded(const Catch::TestCaseStats &) override { deadline_.reset(); }
  void testRunEnded(const Catch::TestRunStats &of) override {
    if (of.totals.testCases.total() > 0) return;
    std::printf("FAILED: this program has no test case of what it was asked for\n");
    std::fflush(stdout);
    std::_Exit(1);
  }

 private:
  const bool tells_ = std::getenv("RONDO_TEST_PROGRESS") != nullptr;
  const char *const seconds_ = std::getenv("RONDO_TEST_CASE_SECONDS");
  const Clock::time_point begin_ = Clock::now();
  std::unique_ptr<Deadline> deadline_;
};

}  // namespace

CATCH_REGISTER_LISTENER(Progress)
