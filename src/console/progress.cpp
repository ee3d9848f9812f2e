// SPDX-License-Identifier: Apache-2.0
#include "src/console/progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace rondo::console {
namespace {

constexpr uint64_t silent_ns = 2'000'000'000, interval_ns = 200'000'000;
constexpr double part_min = 0.005;  // an estimate from less work would be too inexact

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

std::string time_text(double seconds) {
  if (seconds < 90) return std::to_string(std::lround(std::max(seconds, 1.0))) + " s";
  if (seconds < 90 * 60) return std::to_string(std::lround(seconds / 60)) + " min";
  return std::to_string(std::lround(seconds / 3600)) + " h";
}

}  // namespace

std::string progress_text(double part, double elapsed_s) {
  part = std::clamp(part, 0.0, 1.0);
  std::string text = std::to_string(static_cast<int>(part * 100 + 1e-6)) + " %";
  if (part < part_min) return text + ", " + time_text(elapsed_s) + " so far";
  return text + ", " + left_text(elapsed_s / part * (1 - part));
}

std::string left_text(double seconds) { return "about " + time_text(seconds) + " left"; }

Progress::Progress(std::string what)
    : what_(std::move(what)), watched_(::isatty(STDERR_FILENO) == 1), begin_ns_(now_ns()),
      next_ns_(begin_ns_ + silent_ns) {}

void Progress::reach(double part) {
  if (!watched_) return;
  const uint64_t now = now_ns();
  if (now < next_ns_) return;
  next_ns_ = now + interval_ns;
  shown_ = true;
  const std::string text = progress_text(part, static_cast<double>(now - begin_ns_) * 1e-9);
  std::fprintf(stderr, "\r%s: %s\x1b[K", what_.c_str(), text.c_str());
  std::fflush(stderr);
}

void Progress::wipe() {
  if (!shown_) return;
  shown_ = false;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace rondo::console
