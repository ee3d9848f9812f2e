// SPDX-License-Identifier: Apache-2.0
// `rondo train` from its arguments to its exit status.
#include "bench/trainer/train.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <variant>

#include "bench/trainer/checkpoint.h"
#include "bench/trainer/measure.h"
#include "bench/trainer/options.h"
#include "bench/trainer/report.h"
#include "bench/trainer/trainer.h"

namespace rondo {
namespace {

using namespace train;

constexpr uint64_t timeline_steps = 4;  ///< the last ones of a run
constexpr uint64_t progress_lines = 10;

int tell(const Failure &failure) {
  if (failure.exit == Exit::ok) {
    std::fputs(failure.message.c_str(), stdout);
  } else {
    std::fprintf(stderr, "rondo train: %s\n", failure.message.c_str());
  }
  return static_cast<int>(failure.exit);
}

/// What can be wrong with the input is found before any rank waits for another.
Outcome check_samples(const Options &options, const Corpus &corpus, const Samples &samples, size_t ranks) {
  const size_t needed = ranks * options.accumulate * options.batch;
  if (samples.validation_count() > 0 && samples.training_count() >= needed) return std::nullopt;
  return Failure{Exit::usage, "corpus: " + std::to_string(corpus.bytes()) + " bytes are too few: they make " +
                                  std::to_string(samples.training_count()) + " samples of " +
                                  std::to_string(samples.window_bytes()) + " bytes to train with and " +
                                  std::to_string(samples.validation_count()) + " to validate with, and a step takes " +
                                  std::to_string(needed) + "; give more text, or a smaller --batch or --context"};
}

/// Ranks that were started with different options would wait for each other in vain, or learn different things.
Outcome check_agreement(const Options &options, const Corpus &corpus, Group &group) {
  const Shape &shape = options.shape;
  std::string mine;
  for (const uint64_t number :
       {uint64_t{shape.width}, uint64_t{shape.layers}, uint64_t{shape.heads}, uint64_t{shape.context},
        uint64_t{options.batch}, uint64_t{options.accumulate}, options.steps, options.seed, uint64_t{corpus.bytes()},
        static_cast<uint64_t>(options.bucket_mb * 1e6), uint64_t{options.overlap}, uint64_t{options.sharded},
        uint64_t{options.slices},
        options.validate_every, uint64_t{options.validation_batches}, options.check_every,
        uint64_t{options.measure_rounds}, uint64_t{options.report.empty()}, uint64_t{options.resume.empty()}})
    mine += std::to_string(number) + " ";
  mine += std::to_string(options.learning_rate) + " " + std::to_string(options.clip) + name_of(options.compression);
  mine.resize(512);
  std::string all(mine.size() * group.size(), '\0');
  if (auto failure = group.gather(mine.data(), mine.size(), all.data())) return failure;
  for (size_t rank = 1; rank < group.size(); ++rank)
    if (all.compare(rank * mine.size(), mine.size(), all, 0, mine.size()) != 0)
      return Failure{Exit::usage, "rank " + std::to_string(rank) + " has other options or another corpus than rank 0; "
                                      "start all ranks with the same"};
  return std::nullopt;
}

/// One line for each tenth of the run; on a terminal, one that is written over.
void show_progress(const Options &options, const StepRecord &record, double samples_a_step) {
  const bool live = ::isatty(STDOUT_FILENO) != 0, last = record.step == options.steps;
  const uint64_t every = std::max<uint64_t>(options.steps / progress_lines, 1);
  if (!live && !last && record.step != 1 && record.step % every != 0) return;
  const StepTimes &times = record.times;
  const auto ms = [](uint64_t ns) { return static_cast<double>(ns) / 1e6; };
  std::printf("%sstep %llu/%llu: %.3f bits a byte, %.1f samples/s, step %.1f ms, communication %.1f ms, of it exposed "
              "%.1f ms%s",
              live ? "\r" : "", static_cast<unsigned long long>(record.step),
              static_cast<unsigned long long>(options.steps), bits_per_byte(record.loss),
              samples_a_step * 1e9 / static_cast<double>(times.step_ns), ms(times.step_ns), ms(times.communication_ns),
              ms(times.exposed_ns), live && !last ? "\033[K" : "\n");
  std::fflush(stdout);
}

class Session {
 public:
  Session(const Options &options, Ranks &ranks, Trainer &trainer, const Checkpoint &checkpoint)
      : options_(options), ranks_(ranks), group_(ranks.all()), trainer_(trainer), checkpoint_(checkpoint) {}

  Outcome run(Run &result) {
    while (trainer_.progress().step < options_.steps)
      if (auto failure = step(result)) return failure;
    if (result.validations.empty() || result.validations.back().step != options_.steps)
      if (auto failure = validate(result)) return failure;
    if (auto failure = measure_memory(result)) return failure;
    if (!options_.report.empty()) {
      if (auto failure = gather_spans(result)) return failure;
      if (auto failure = measure_rounds(trainer_, group_, options_.measure_rounds, ranks_.slices() == 1,
                                        result.rounds)) return failure;
    }
    return std::nullopt;
  }

 private:
  Outcome step(Run &result) {
    const bool drawn = trainer_.progress().step + timeline_steps >= options_.steps;
    StepRecord record;
    if (auto failure = trainer_.step(record, drawn ? &spans_ : nullptr)) return failure;
    result.steps.push_back(record);
    const auto samples = static_cast<double>(samples_a_step(options_, group_.size()));
    if (group_.rank() == 0) show_progress(options_, record, samples);
    const auto due = [&](uint64_t every) { return every != 0 && record.step % every == 0; };
    if (due(options_.check_every) || record.step == options_.steps)
      if (auto failure = trainer_.compare_ranks()) return failure;
    if (due(options_.validate_every))
      if (auto failure = validate(result)) return failure;
    const bool saved = !options_.checkpoint.empty();
    if (saved && (due(options_.checkpoint_every) || record.step == options_.steps)) return checkpoint_.save(result);
    return std::nullopt;
  }

  Outcome validate(Run &result) {
    Validation point{trainer_.progress().step, 0};
    if (auto failure = trainer_.validate(point.loss)) return failure;
    result.validations.push_back(point);
    if (group_.rank() != 0) return std::nullopt;
    std::printf("validation after step %llu: %.3f bits a byte\n", static_cast<unsigned long long>(point.step),
                bits_per_byte(point.loss));
    std::fflush(stdout);
    return std::nullopt;
  }

  /// While all ranks are there, since they share pages.
  Outcome measure_memory(Run &result) {
    if (auto failure = group_.barrier()) return failure;
    result.memory = trainer_.memory();
    const size_t now = process_memory_bytes();
    result.memory.measured = now - std::min(now, result.memory_before);
    return group_.barrier();
  }

  /// All ranks have as many spans: their steps have the same parts.
  Outcome gather_spans(Run &result) {
    const size_t count = spans_.size();
    std::vector<Span> all(count * group_.size());
    if (auto failure = group_.gather(spans_.data(), count * sizeof(Span), all.data())) return failure;
    for (size_t rank = 0; rank < group_.size(); ++rank)
      result.spans.emplace_back(all.begin() + static_cast<ptrdiff_t>(rank * count),
                                all.begin() + static_cast<ptrdiff_t>((rank + 1) * count));
    return std::nullopt;
  }

  const Options &options_;
  Ranks &ranks_;
  Group &group_;
  Trainer &trainer_;
  const Checkpoint &checkpoint_;
  std::vector<Span> spans_;
};

void summarise(const Options &options, const Run &run) {
  std::printf("%s, %zu parameters, ranks: %zu: %.1f samples/s, validation %.3f bits a byte\n",
              options.shape.name.c_str(), run.parameters, run.ranks, samples_per_second(options, run),
              bits_per_byte(run.validations.back().loss));
  if (!options.report.empty()) std::printf("report: %s/report.html\n", options.report.c_str());
}

/// Rank 0 reads and writes the files. The others hear whether that went well before they wait for its parameters.
Outcome prepare_files(const Options &options, Group &group, const Checkpoint &checkpoint, Run &run) {
  Outcome failure;
  if (group.rank() == 0 && !options.checkpoint.empty()) failure = checkpoint.check_place();
  if (group.rank() == 0 && !failure && !options.resume.empty()) failure = checkpoint.load(run);
  char failed = failure ? 1 : 0;
  if (auto lost = group.broadcast(&failed, 1)) return lost;
  if (failed != 0 && !failure) return Failure{Exit::usage, "rank 0 cannot begin; its message tells why"};
  return failure;
}

Outcome train_ranks(const Options &options, const Corpus &corpus, const Samples &samples, Ranks &ranks, Run &run) {
  Group &group = ranks.all();
  if (auto failure = check_samples(options, corpus, samples, ranks.data().size())) return failure;
  if (auto failure = check_agreement(options, corpus, group)) return failure;
  const auto compute = make_host_compute();
  Trainer trainer(options, ranks, *compute, corpus, samples);
  if (auto failure = trainer.allocate()) return failure;
  run.ranks = group.size();
  run.parameters = trainer.whole_layout().count;
  run.wire_bytes = trainer.exchange().wire_bytes();
  run.received_bytes = trainer.exchange().received_bytes();
  run.plain_bytes = 2 * trainer.layout().count * sizeof(float) * (ranks.data().size() - 1) / ranks.data().size();
  run.bucket_count = trainer.exchange().buckets().size();
  run.corpus_bytes = corpus.bytes();
  run.corpus_files = corpus.file_count();
  const Checkpoint checkpoint(options, trainer, group, corpus.bytes());
  if (auto failure = prepare_files(options, group, checkpoint, run)) return failure;
  if (auto failure = trainer.begin()) return failure;
  if (auto failure = Session(options, ranks, trainer, checkpoint).run(run)) return failure;
  if (group.rank() == 0) {
    if (!options.report.empty())
      if (auto failure = write_report(options.report, options, run)) return failure;
    summarise(options, run);
  }
  return ranks.finish();
}

}  // namespace

int run_train(std::span<const char *const> args) {
  const auto parsed = parse_options(args);
  if (const auto *failure = std::get_if<Failure>(&parsed)) return tell(*failure);
  const auto &options = std::get<Options>(parsed);
  Corpus corpus;
  if (auto failure = corpus.open(options.corpus)) return tell(*failure);
  const Samples samples(corpus.bytes(), options.shape.context);
  if (auto failure = check_samples(options, corpus, samples, 1)) return tell(*failure);
  if (!options.report.empty())
    if (auto failure = make_report_folder(options.report)) return tell(*failure);
  Run run;
  run.memory_before = process_memory_bytes();
  Ranks ranks;
  if (auto failure = ranks.join(options.config, options.slices)) return tell(*failure);
  if (auto failure = train_ranks(options, corpus, samples, ranks, run)) {
    failure->message = "rank " + std::to_string(ranks.all().rank()) + ": " + failure->message;
    return tell(*failure);
  }
  return static_cast<int>(Exit::ok);
}

}  // namespace rondo
