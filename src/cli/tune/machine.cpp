// SPDX-License-Identifier: Apache-2.0
// This file measures the costs of this machine that affect every algorithm. They are the delay until another core sees
// a word, the rates of moving and reducing bytes, and the time of a thread switch. Threads of this process measure,
// each bound to one processor. A result is the median of samples.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/cli/tune/tune.h"
#include "src/engine/reduction/reduction.h"

namespace rondo::cli::tune {
namespace {

constexpr size_t small_bytes = 256 << 10;
constexpr std::array<size_t, 3> working_sets_bytes{256 << 10, 4 << 20, 64 << 20};  // sizes of caches, and larger
constexpr uint64_t wait_ns_max = 5'000'000'000;  // a sample that takes longer is cut off, and is then less exact
constexpr std::array reduce_types{RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_FLOAT64, RONDO_INT32, RONDO_INT8};

/// Binds this thread. If the system refuses that, the thread stays where it is, and the result is less exact.
void stay_on(uint32_t os_index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(os_index % CPU_SETSIZE, &set);
  static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof set, &set));
}

/// Restores this thread's processors when it is destroyed.
class KeptAffinity {
 public:
  KeptAffinity() : known_(::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_) == 0) {}
  KeptAffinity(const KeptAffinity &) = delete;
  KeptAffinity &operator=(const KeptAffinity &) = delete;
  ~KeptAffinity() {
    if (known_) static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_));
  }

 private:
  cpu_set_t before_{};
  bool known_;
};

/// Returns the time of one call in seconds. It is the median over samples that take `seconds` together.
double time_of(double seconds, const std::function<void()> &call) {
  call();
  std::vector<double> samples;
  const uint64_t end_ns = now_ns() + static_cast<uint64_t>(seconds * 1e9);
  do {
    uint32_t count = 0;
    const uint64_t begin_ns = now_ns();
    uint64_t passed_ns = 0;
    do {
      call();
      ++count;
      passed_ns = now_ns() - begin_ns;
    } while (passed_ns < 100'000);  // far above the clock's own cost
    samples.push_back(1e-9 * static_cast<double>(passed_ns) / count);
  } while (now_ns() < end_ns);
  return median(samples);
}

/// A ball that two threads pass to each other. `word` counts the passes. One thread makes the even passes, and the
/// other one makes the odd passes.
class Ball {
 public:
  enum class Wait { spin, yield, sleep };
  Ball(uint32_t pass_count, Wait wait) : pass_count_(pass_count), wait_(wait) {}

  /// Returns the time of a pass between these processors, in microseconds.
  double play(uint32_t first, uint32_t second) {
    const KeptAffinity kept;
    std::thread partner([&] { run(1, second); });
    const uint64_t duration_ns = run(0, first);
    partner.join();
    return 1e-3 * static_cast<double>(duration_ns) / pass_count_;
  }

 private:
  uint64_t run(uint32_t parity, uint32_t os_index) {
    stay_on(os_index);
    std::atomic_ref<uint32_t> ready(ready_), word(word_);
    ready.fetch_add(1, std::memory_order_acq_rel);  // pairs with the same of the other thread
    const uint64_t end_ns = now_ns() + wait_ns_max;
    while (ready.load(std::memory_order_acquire) < 2 && now_ns() < end_ns) yield_core();
    const uint64_t begin_ns = now_ns();
    for (uint32_t pass = parity; pass < pass_count_; pass += 2) {
      uint32_t looks = 0;
      for (uint32_t seen = word.load(std::memory_order_acquire); seen != pass;
           seen = word.load(std::memory_order_acquire)) {  // pairs with the store below
        const bool looks_up = wait_ == Wait::sleep || ++looks % 1024 == 0;
        if (seen > pass || (looks_up && now_ns() > end_ns)) return now_ns() - begin_ns;
        if (wait_ == Wait::yield) yield_core();
        if (wait_ == Wait::sleep) wait_for_word(word_, seen, wait_ns_max);
      }
      word.store(pass + 1, std::memory_order_release);
      if (wait_ == Wait::sleep) wake_word(word_);
    }
    return now_ns() - begin_ns;
  }

  const uint32_t pass_count_;
  const Wait wait_;
  alignas(64) uint32_t word_ = 0;
  alignas(64) uint32_t ready_ = 0;
};

double pass_us(Ball::Wait wait, uint32_t pass_count, uint32_t first, uint32_t second) {
  std::vector<double> samples;
  for (int sample = 0; sample < 7; ++sample) samples.push_back(Ball(pass_count, wait).play(first, second));
  return median(samples);
}

/// Returns the rate at which a second core reads bytes that are in the first core's cache.
double bandwidth_GBps(uint32_t first, uint32_t second) {
  std::vector<std::byte> from(small_bytes), to(small_bytes, std::byte{1});
  std::vector<double> samples;
  const KeptAffinity kept;
  for (int sample = 0; sample < 25; ++sample) {
    stay_on(first);
    std::memset(from.data(), sample + 1, from.size());
    stay_on(second);
    std::memset(to.data(), 0, to.size());
    const uint64_t begin_ns = now_ns();
    std::memcpy(to.data(), from.data(), from.size());
    const uint64_t passed_ns = std::max<uint64_t>(now_ns() - begin_ns, 1);
    samples.push_back(static_cast<double>(small_bytes) / static_cast<double>(passed_ns));
  }
  return median(samples);
}

/// Makes the call that each thread repeats, with its own memory.
using MakeCall = std::function<std::function<void()>()>;

/// Returns the time of a call on this thread, in seconds, while `others` threads do the same.
double time_among(uint32_t others, double seconds, const MakeCall &make_call) {
  std::vector<std::jthread> threads;  // destroying the list ends the threads and waits for them
  for (uint32_t i = 0; i < others; ++i)
    threads.emplace_back([&make_call](const std::stop_token &stop) {
      const auto call = make_call();
      while (!stop.stop_requested()) call();
    });
  return time_of(seconds, make_call());
}

struct Operands {
  explicit Operands(size_t bytes) : left(bytes, std::byte{1}), right(bytes, std::byte{1}) {}
  std::vector<std::byte> left, right;
};

MakeCall copying(size_t bytes) {
  return [bytes]() -> std::function<void()> {
    return [operands = std::make_shared<Operands>(bytes)] {
      std::memcpy(operands->left.data(), operands->right.data(), operands->left.size());
      asm volatile("" : : "r"(operands->left.data()) : "memory");  // keeps the copy, although nothing reads it
    };
  };
}

MakeCall reducing(rondo_type_t type, size_t bytes) {
  return [type, bytes]() -> std::function<void()> {
    return [reduce = reduce_function(type, RONDO_SUM), count = bytes / rondo_type_size(type),
            operands = std::make_shared<Operands>(bytes)] {
      ReductionArgs args{};
      args.inputs[0] = operands->left.data();
      args.inputs[1] = operands->right.data();
      args.outputs[0] = operands->left.data();
      args.input_count = 2;
      args.output_count = 1;
      args.count = count;
      reduce(args);
    };
  };
}

Rates measure_rates(size_t working_set_bytes, uint32_t others, double seconds) {
  Rates rates;
  rates.working_set_bytes = working_set_bytes;
  const size_t bytes = working_set_bytes / 2;
  const double gigabytes = 1e-9 * static_cast<double>(bytes);
  rates.copy_GBps = gigabytes / time_among(others, seconds, copying(bytes));
  for (const rondo_type_t type : reduce_types)
    rates.reduce_GBps.emplace_back(type, gigabytes / time_among(others, seconds, reducing(type, bytes)));
  return rates;
}

}  // namespace

Costs measure_costs(const Topology &topology, double seconds) {
  Costs costs;
  const std::vector<uint32_t> processors = allowed_os_indices(topology);
  uint32_t other = processors.front();  // a processor of another core than the first one's
  for (const Pu &pu : topology.pus)
    for (const Pu &first : topology.pus)
      if (pu.allowed && first.os_index == processors.front() && pu.core != first.core) other = pu.os_index;
  constexpr uint32_t far_passes = 20'000, near_passes = 4'000;
  try {
    if (other != processors.front())
      costs.latency_us = pass_us(Ball::Wait::spin, far_passes, processors.front(), other);
    costs.handover_us = pass_us(Ball::Wait::yield, near_passes, processors.front(), processors.front());
    costs.wake_us = pass_us(Ball::Wait::sleep, near_passes, processors.front(), processors.front());
    const uint32_t others = usable_core_count(topology) - 1;
    for (const size_t bytes : working_sets_bytes) costs.rates.push_back(measure_rates(bytes, others, seconds));
  } catch (const std::system_error &error) {  // no thread can be started: these costs stay 0
    log::warning(log::Subsystem::config, std::string("rondo tune cannot start a thread: ") + error.what());
  }
  if (other != processors.front()) costs.bandwidth_GBps = bandwidth_GBps(processors.front(), other);
  return costs;
}

}  // namespace rondo::cli::tune
