// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/report/trainer_report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/console/output.h"

namespace rondo::train {
namespace {

using nlohmann::json;

constexpr size_t warmup_steps = 3;  ///< left out of medians and means, if there are more than twice as many steps
constexpr double ns_per_us = 1e3;

double us(uint64_t ns) { return static_cast<double>(ns) / ns_per_us; }

json times_of(const StepTimes &times) {
  return {{"forward", us(times.forward_ns)},
          {"backward", us(times.backward_ns)},
          {"optimizer", us(times.optimizer_ns)},
          {"data_wait", us(times.data_wait_ns)},
          {"waiting", us(times.waiting_ns)},
          {"in_flight", us(times.in_flight_ns)},
          {"skew", us(times.skew_ns())},
          {"communication", us(times.communication_ns)},
          {"exposed", us(times.exposed_ns)},
          {"joint", us(times.joint_ns)},
          {"stage_wait", us(times.stage_wait_ns)},
          {"step", us(times.step_ns)}};
}

template <class Get>
std::vector<double> of_steps(const Run &run, const Get &get) {
  const size_t skipped = run.steps.size() > 2 * warmup_steps ? warmup_steps : 0;
  std::vector<double> values;
  for (size_t at = skipped; at < run.steps.size(); ++at) values.push_back(get(run.steps[at].times));
  return values;
}

template <class Get>
double median_of_steps(const Run &run, const Get &get) {
  return median(of_steps(run, get));
}

/// Returns the mean over steps. It suits steps that differ because only some of them communicate.
template <class Get>
double mean_of_steps(const Run &run, const Get &get) {
  const std::vector<double> values = of_steps(run, get);
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

json median_times(const Run &run) {
  const auto of = [&](uint64_t StepTimes::*part) {
    return median_of_steps(run, [&](const StepTimes &times) { return us(times.*part); });
  };
  return {{"forward", of(&StepTimes::forward_ns)},
          {"backward", of(&StepTimes::backward_ns)},
          {"optimizer", of(&StepTimes::optimizer_ns)},
          {"data_wait", of(&StepTimes::data_wait_ns)},
          {"waiting", of(&StepTimes::waiting_ns)},
          {"in_flight", of(&StepTimes::in_flight_ns)},
          {"skew", median_of_steps(run, [](const StepTimes &times) { return us(times.skew_ns()); })},
          {"communication", of(&StepTimes::communication_ns)},
          {"exposed", of(&StepTimes::exposed_ns)},
          {"joint", of(&StepTimes::joint_ns)},
          {"stage_wait", of(&StepTimes::stage_wait_ns)},
          {"step", of(&StepTimes::step_ns)}};
}

/// Returns the library's figures for each step. They exist only in mode sync, because in other modes some steps do not
/// communicate.
json library_of(const Options &options, const Run &run) {
  if (options.mode != Mode::sync) return nullptr;
  const auto of = [&](uint64_t LibraryCounts::*part) {
    return median_of_steps(run, [&](const StepTimes &times) { return static_cast<double>(times.library.*part); });
  };
  return {{"operations", static_cast<uint64_t>(of(&LibraryCounts::operations))},
          {"bytes", static_cast<uint64_t>(of(&LibraryCounts::bytes))},
          {"in_flight_us", of(&LibraryCounts::in_flight_ns) / ns_per_us},
          {"exposed_us", of(&LibraryCounts::exposed_ns) / ns_per_us}};
}

template <class Get>
std::vector<double> of_rounds(const Run &run, const Get &get) {
  std::vector<double> values;
  for (const Round &round : run.rounds) values.push_back(get(round));
  return values;
}

json spread(const std::vector<double> &values) {
  if (values.empty() || *std::max_element(values.begin(), values.end()) == 0) return nullptr;  // was not measured
  return {{"median", median(values)},
          {"min", *std::min_element(values.begin(), values.end())},
          {"max", *std::max_element(values.begin(), values.end())}};
}

json measurement(const Run &run) {
  const auto part = [&](uint64_t Round::*member) {
    return spread(of_rounds(run, [&](const Round &round) { return us(round.*member); }));
  };
  return {{"computation_us", part(&Round::computation_ns)},
          {"backward_us", part(&Round::backward_ns)},
          {"communication_us", part(&Round::communication_ns)},
          {"gradients_us", part(&Round::gradients_ns)},
          {"step_overlap_us", part(&Round::overlapped_ns)},
          {"step_no_overlap_us", part(&Round::plain_ns)},
          {"one_rank_alone_us", part(&Round::alone_ns)},
          {"product_us", part(&Round::product_ns)}};
}

json estimate_of(const Estimate &value) {
  return {{"median", value.median}, {"low", value.low}, {"high", value.high}};
}

/// Returns the figures as JSON. The words are from headline() and efficiency_text(), so the page shows the same text as
/// the output.
json overlap_json(const OverlapFigures &figures) {
  using State = OverlapFigures::State;
  if (figures.state == State::not_measured) return nullptr;
  json overlap{{"headline", headline(figures)},
               {"step_us", figures.state == State::off ? json() : estimate_of(figures.step_us)},
               {"step_no_overlap_us", estimate_of(figures.plain_us)},
               {"less_percent", nullptr},
               {"hidden_us", nullptr},
               {"hideable_us", nullptr},
               {"efficiency", nullptr},
               {"efficiency_text", nullptr},
               {"slowdown", nullptr},
               {"slowdown_text", nullptr}};
  if (figures.state != State::measured) return overlap;
  const auto &[share, least, most] = figures.less;
  if (figures.less_told) overlap["less_percent"] = estimate_of({100 * share, 100 * least, 100 * most});
  overlap["hidden_us"] = estimate_of(figures.hidden_us);
  overlap["hideable_us"] = estimate_of(figures.hideable_us);
  if (figures.efficiency) overlap["efficiency"] = estimate_of(*figures.efficiency);
  overlap["efficiency_text"] = efficiency_text(figures);
  if (figures.slowdown) overlap["slowdown"] = estimate_of(*figures.slowdown);
  overlap["slowdown_text"] = slowdown_text(figures);
  return overlap;
}

json rate_json(const RateFigures &figures) {
  if (figures.operations == 0) return nullptr;
  json share;
  if (figures.share)
    share = estimate_of({100 * figures.share->median, 100 * figures.share->low, 100 * figures.share->high});
  return {{"headline", rate_text(figures)},
          {"step_operations", figures.operations},
          {"tflops", estimate_of(figures.rate)},
          {"product_rows", figures.product_rows},
          {"product_tflops", estimate_of(figures.product_rate)},
          {"share_percent", std::move(share)},
          {"share_text", share_text(figures)}};
}

json memory_of(const MemoryBytes &memory) {
  return {{"parameters", memory.parameters},       {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},         {"activations", memory.activations},
          {"communication", memory.communication}, {"computation", memory.computation},
          {"accounted", memory.accounted()},       {"measured", memory.measured},
          {"process_peak", process_status_bytes("VmHWM:")}};
}

/// Returns the staleness: how many updates happened between a worker's reading of the parameters and its own update.
json staleness_of(const Options &options, const Run &run) {
  if (options.mode != Mode::async_ps) return nullptr;
  const double updates = static_cast<double>(std::max<uint64_t>(run.staleness.updates, 1));
  return {{"bound", options.staleness},
          {"mean", static_cast<double>(run.staleness.sum) / updates},
          {"max", run.staleness.max},
          {"lead_max", run.staleness.lead_max}};
}

json pipeline_of(const Options &options, const Run &run) {
  if (options.parts.stages == 1) return nullptr;
  const PipelineFigures figures = pipeline_of_run(options, run);
  return {{"headline", pipeline_text(figures)},
          {"ideal_idle_share", figures.ideal},
          {"idle_share", figures.told ? estimate_of(figures.idle) : json()}};
}

/// Returns the figures of the experts. The bytes are a median over all steps, because each step routes tokens anew.
json experts_of(const Options &options, const Run &run) {
  if (options.shape.experts == 0) return nullptr;
  std::vector<double> bytes;
  for (const StepRecord &step : run.steps) bytes.push_back(static_cast<double>(step.expert_bytes));
  return {{"count", options.shape.experts},
          {"ranks", std::gcd(options.shape.experts, run.ranks)},
          {"bytes_sent", bytes.empty() ? 0 : static_cast<uint64_t>(median(bytes))}};
}

json settings_of(const Options &options, size_t ranks) {
  return {{"batch", options.batch},
          {"accumulate", options.accumulate},
          {"width", options.shape.width},
          {"layers", options.shape.layers},
          {"heads", options.shape.heads},
          {"context", options.shape.context},
          {"seed", options.seed},
          {"device", options.on_device ? "cuda" : "host"},
          {"precision", name_of(options.precision)},
          {"overlap", options.overlap},
          {"bucket_mb", options.bucket_mb},
          {"compress", name_of(options.compression)},
          {"zero", options.sharded ? 1 : 0},
          {"recompute", options.recompute},
          {"tensor_parallel", options.parts.slices},
          {"pipeline_parallel", options.parts.stages},
          {"experts", options.shape.experts},
          {"local_steps", options.mode == Mode::local_sgd ? options.local_steps : 1},
          {"samples_a_step", options.samples_a_step(ranks)},
          {"learning_rate", options.learning_rate},
          {"weight_decay", options.weight_decay},
          {"clip", options.clip},
          {"warmup", options.warmup}};
}

/// Returns the speed of the run divided by that of a single rank, or null if the single rank was not measured.
json speedup_of(const Options &options, const Run &run) {
  if (run.rounds.empty() || options.ranks_a_model() > 1 || options.shape.experts > 0) return nullptr;
  if (options.mode != Mode::sync) {
    const double alone_us = median(of_rounds(run, [](const Round &round) { return us(round.alone_ns); }));
    return samples_per_second(options, run) * alone_us / 1e6 / static_cast<double>(options.batch * options.accumulate);
  }
  const double alone = median(of_rounds(run, [](const Round &round) { return us(round.alone_ns); }));
  const double step = median(of_rounds(
      run, [&](const Round &round) { return us(options.overlap ? round.overlapped_ns : round.plain_ns); }));
  return static_cast<double>(run.ranks) * alone / step;
}

Outcome write_file(const std::string &path, const std::string &text) {
  if (auto complaint = console::write_output(path, text)) return Failure{Exit::usage, std::move(*complaint)};
  return std::nullopt;
}

}  // namespace

PipelineFigures pipeline_of_run(const Options &options, const Run &run) {
  const size_t skipped = run.idle_shares.size() > 2 * warmup_steps ? warmup_steps : 0;
  return pipeline_figures(options.parts.stages, options.accumulate,
                          {run.idle_shares.begin() + static_cast<ptrdiff_t>(skipped), run.idle_shares.end()});
}

OverlapFigures overlap_of(const Options &options, const Run &run) {
  return overlap_figures(run.rounds, options.overlap, run.ranks / options.ranks_a_model());
}

RateFigures rate_of(const Options &options, const Run &run) {
  const double samples = static_cast<double>(options.samples_a_step(run.ranks)) / static_cast<double>(run.ranks);
  return rate_figures(run.rounds, options.overlap, samples * sample_operations(options.shape), run.product_rows);
}

double samples_per_second(const Options &options, const Run &run) {
  const auto step = [](const StepTimes &times) { return us(times.step_ns); };
  const double step_us = options.mode == Mode::sync ? median_of_steps(run, step) : mean_of_steps(run, step);
  return step_us > 0 ? static_cast<double>(options.samples_a_step(run.ranks)) / step_us * 1e6 : 0;
}

json to_json(const Options &options, const Run &run) {
  json steps = json::array(), train = json::array(), validation = json::array();
  for (const auto &[step, loss] : run.earlier_losses) train.push_back({step, loss});
  for (const StepRecord &record : run.steps) {
    json step{{"step", record.step}, {"loss", record.loss}, {"gradient_norm", record.norm},
              {"learning_rate", record.rate}, {"time_us", times_of(record.times)}};
    if (record.skipped) step["skipped"] = true;
    train.push_back(json::array({record.step, record.loss}));
    steps.push_back(std::move(step));
  }
  for (const Validation &point : run.validations)
    validation.push_back({{"step", point.step}, {"loss", point.loss}, {"bits_per_byte", bits_per_byte(point.loss)}});
  return {{"model", options.shape.name},
          {"parameters", run.parameters},
          {"ranks", run.ranks},
          {"mode", name_of(options.mode)},
          {"settings", settings_of(options, run.ranks)},
          {"corpus", {{"bytes", run.corpus_bytes}, {"files", run.corpus_files}}},
          {"loss", {{"train", std::move(train)}, {"validation", std::move(validation)}}},
          {"samples_per_second", samples_per_second(options, run)},
          {"speedup", speedup_of(options, run)},
          {"time_us", median_times(run)},
          {"overlap", overlap_json(overlap_of(options, run))},
          {"rate", rate_json(rate_of(options, run))},
          {"measurement", measurement(run)},
          {"library", library_of(options, run)},
          {"bytes_on_wire", run.wire_bytes},
          {"bytes_received", run.received_bytes},
          {"bytes_saved", static_cast<int64_t>(run.plain_bytes) - static_cast<int64_t>(run.received_bytes)},
          {"buckets", run.bucket_count},
          {"staleness", staleness_of(options, run)},
          {"pipeline", pipeline_of(options, run)},
          {"experts", experts_of(options, run)},
          {"memory_bytes", memory_of(run.memory)},
          {"steps", std::move(steps)}};
}

std::string to_timeline(const Run &run) {
  json events = json::array();
  for (size_t rank = 0; rank < run.spans.size(); ++rank) {
    const auto name = [&](int lane, const char *kind, const std::string &text) {
      events.push_back({{"ph", "M"}, {"pid", rank}, {"tid", lane}, {"name", kind}, {"args", {{"name", text}}}});
    };
    name(0, "process_name", "rank " + std::to_string(rank));
    name(0, "thread_name", "computation");
    name(1, "thread_name", "communication");
    for (const Span &span : run.spans[rank]) {
      const bool bucket = is_communication(span.part);
      std::string text = part_name(span.part);
      if (bucket) text += " " + std::to_string(span.index);
      json about{{"step", span.step}};
      if (bucket) about["ready"] = us(span.ready_ns);
      events.push_back({{"ph", "X"}, {"pid", rank}, {"tid", bucket ? 1 : 0}, {"name", text}, {"ts", us(span.begin_ns)},
                        {"dur", us(span.end_ns - span.begin_ns)}, {"args", std::move(about)}});
    }
  }
  return json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump();
}

Outcome make_report_folder(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Failure{Exit::usage, "cannot make the folder " + folder + ": " + error.message() +
                                             "; give another --report folder"};
  return write_file(folder + "/report.json", "");  // checks before the run that it can be written
}

Outcome write_report(const std::string &folder, const Options &options, const Run &run) {
  const json report = to_json(options, run);
  if (auto failure = write_file(folder + "/report.json", report.dump(1) + "\n")) return failure;
  if (auto failure = write_file(folder + "/timeline.json", to_timeline(run))) return failure;
  return write_file(folder + "/report.html", to_page(report, run));
}

Outcome write_json(const std::string &path, const Options &options, const Run &run) {
  return write_file(path, to_json(options, run).dump(1) + "\n");
}

}  // namespace rondo::train
