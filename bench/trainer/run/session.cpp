// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/session.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "bench/trainer/run/async.h"
#include "bench/trainer/run/measure.h"
#include "src/console/progress.h"

namespace rondo::train {
namespace {

constexpr uint64_t timeline_steps = 4;  ///< number of last steps that the timeline has
constexpr uint64_t progress_lines = 10;
constexpr size_t pending_max = 64;  ///< most steps whose times one exchange settles

/// Says whether the output is a terminal. If so, all steps are shown on one line, which each step overwrites.
bool watched(const Options &options) { return ::isatty(::fileno(options.lines())) != 0; }

/// Returns the text with which a line begins: on a terminal, it erases the previous one.
const char *beginning(bool live) { return live ? "\r\033[K" : ""; }

/// @param step_ns  time of one step; no part of a round takes longer
void show_measuring(const Options &options, uint64_t step_ns) {
  if (options.measure_rounds == 0) return;
  const double seconds = static_cast<double>(options.measure_rounds * steps_of_round(options) * step_ns) * 1e-9;
  std::fprintf(options.lines(), "measuring overlap: rounds: %u, %s\n", options.measure_rounds,
               console::left_text(seconds).c_str());
  std::fflush(options.lines());
}

}  // namespace

void show_progress(const Options &options, const StepRecord &record, size_t ranks) {
  const bool live = watched(options), last = record.step == options.steps;
  const uint64_t every = std::max<uint64_t>(options.steps / progress_lines, 1);
  if (!live && !last && record.step != 1 && record.step % every != 0) return;
  const StepTimes &times = record.times;
  const auto samples = static_cast<double>(options.samples_a_step(ranks));
  const auto ms = [](uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  const double left_s = static_cast<double>((options.steps - record.step) * times.step_ns) * 1e-9;
  const std::string left = last ? "" : ", " + console::left_text(left_s);
  std::fprintf(options.lines(),
               "%sstep %llu/%llu: %.3f bits a byte, %.1f samples/s, step %.1f ms, waiting for communication "
               "%.1f ms%s%s",
               beginning(live), static_cast<unsigned long long>(record.step),
               static_cast<unsigned long long>(options.steps), bits_per_byte(record.loss),
               samples * 1e9 / static_cast<double>(times.step_ns), ms(times.step_ns), ms(times.waiting_ns),
               left.c_str(), live && !last ? "" : "\n");
  std::fflush(options.lines());
}

Outcome Session::run(Run &result) {
  if (options_.mode == Mode::async_ps) {
    if (auto failure = train_async(options_, ranks_, trainer_, result)) return failure;
    if (auto failure = trainer_.compare_ranks()) return failure;
  }
  while (trainer_.progress().step < options_.steps)
    if (auto failure = step(result)) return failure;
  if (result.validations.empty() || result.validations.back().step != options_.steps)
    if (auto failure = validate(result)) return failure;
  if (auto failure = measure_memory(result)) return failure;
  if (!options_.reports()) return std::nullopt;
  if (auto failure = settle_pending(result)) return failure;
  if (options_.parts.stages > 1)
    if (auto failure = gather_idle_shares(result)) return failure;
  if (options_.mode != Mode::async_ps)  // in that mode, ranks do different things
    if (auto failure = gather_spans(result)) return failure;
  if (group_.rank() == 0 && !result.steps.empty()) show_measuring(options_, result.steps.back().times.step_ns);
  return measure_rounds(trainer_, options_, ranks_, result.rounds, result.product_rows);
}

Outcome Session::step(Run &result) {
  const bool drawn = trainer_.progress().step + timeline_steps >= options_.steps;
  StepRecord record;
  if (auto failure = trainer_.step(record, drawn ? &spans_ : nullptr)) return failure;
  result.steps.push_back(record);
  if (options_.reports()) pending_.push_back(trainer_.traffic());
  if (trainer_.agreed()) {  // now the losses of all ranks are known
    const std::vector<double> &losses = trainer_.round_losses();
    for (size_t at = 0; at < losses.size(); ++at)
      result.steps[result.steps.size() - losses.size() + at].loss = losses[at];
  }
  if (group_.rank() == 0) show_progress(options_, result.steps.back(), group_.size());
  if (trainer_.agreed() && pending_.size() >= pending_max)
    if (auto failure = settle_pending(result)) return failure;
  return trainer_.agreed() ? after_step(record.step, result) : std::nullopt;
}

/// Does the work that is due between steps. If ranks take the mean only after several steps, the work is done only
/// after a step with a mean.
Outcome Session::after_step(uint64_t step, Run &result) {
  const uint64_t round = options_.mode == Mode::local_sgd ? options_.local_steps : 1;
  const uint64_t before = (step - 1) / round * round;
  const auto due = [&](uint64_t every) { return every != 0 && step / every != before / every; };
  const bool last = step == options_.steps;
  if (due(options_.check_every) || last)
    if (auto failure = trainer_.compare_ranks()) return failure;
  if (due(options_.validate_every))
    if (auto failure = validate(result)) return failure;
  if (!options_.checkpoint.empty() && (due(options_.checkpoint_every) || last)) return checkpoint_.save(result);
  return std::nullopt;
}

Outcome Session::validate(Run &result) {
  Validation point{trainer_.progress().step, 0};
  if (auto failure = trainer_.validate(point.loss)) return failure;
  result.validations.push_back(point);
  if (group_.rank() != 0) return std::nullopt;
  std::fprintf(options_.lines(), "%svalidation after step %llu: %.3f bits a byte\n",
               beginning(watched(options_)), static_cast<unsigned long long>(point.step), bits_per_byte(point.loss));
  std::fflush(options_.lines());
  return std::nullopt;
}

Outcome Session::gather_idle_shares(Run &result) {
  std::vector<StageTimes> mine, all(result.steps.size() * group_.size()), of_step(group_.size());
  for (const StepRecord &step : result.steps)
    mine.push_back({step.times.passes_ns, step.times.forward_ns + step.times.backward_ns});
  if (auto failure = group_.gather(mine.data(), mine.size() * sizeof(StageTimes), all.data())) return failure;
  for (size_t step = 0; step < mine.size(); ++step) {
    for (size_t rank = 0; rank < group_.size(); ++rank) of_step[rank] = all[rank * mine.size() + step];
    result.idle_shares.push_back(idle_share(of_step));
  }
  return std::nullopt;
}

Outcome Session::settle_pending(Run &result) {
  const auto records = std::span(result.steps).last(pending_.size());
  if (auto failure = settle_steps(ranks_.data(), pending_, records)) return failure;
  pending_.clear();
  return std::nullopt;
}

/// Measures memory while all ranks still exist, because they share pages.
Outcome Session::measure_memory(Run &result) {
  if (auto failure = group_.barrier()) return failure;
  result.memory = trainer_.memory();
  ::malloc_trim(0);  // the allocator may keep freed memory, which is not in use
  const size_t now = process_memory_bytes();
  if (trainer_.on_host()) result.memory.measured = now - std::min(now, result.memory_before);
  return group_.barrier();
}

/// Gathers the spans of all ranks. Ranks may have different numbers of spans, as stages of a pipeline do.
Outcome Session::gather_spans(Run &result) {
  const size_t mine = spans_.size();
  std::vector<size_t> counts(group_.size());
  if (auto failure = group_.gather(&mine, sizeof mine, counts.data())) return failure;
  const size_t most = *std::max_element(counts.begin(), counts.end());
  std::vector<Span> all(most * group_.size());
  spans_.resize(most);
  if (auto failure = group_.gather(spans_.data(), most * sizeof(Span), all.data())) return failure;
  for (size_t rank = 0; rank < group_.size(); ++rank) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(rank * most);
    result.spans.emplace_back(begin, begin + static_cast<ptrdiff_t>(counts[rank]));
  }
  return std::nullopt;
}

}  // namespace rondo::train
