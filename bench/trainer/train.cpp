// SPDX-License-Identifier: Apache-2.0
// This file runs `rondo train` from its arguments to its exit status.
#include "bench/trainer/train.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench/trainer/cuda/cuda_compute.h"
#include "bench/trainer/options.h"
#include "bench/trainer/report/trainer_report.h"
#include "bench/trainer/run/checkpoint.h"
#include "bench/trainer/run/session.h"
#include "bench/trainer/run/trainer.h"

namespace rondo {
namespace {

using namespace train;

int tell(const Failure &failure) {
  if (failure.exit == Exit::ok) {
    std::fputs(failure.message.c_str(), stdout);
  } else {
    std::fprintf(stderr, "rondo train: %s\n", failure.message.c_str());
  }
  return static_cast<int>(failure.exit);
}

/// Checks that the corpus has enough samples, before any rank waits for another.
Outcome check_samples(const Options &options, const Corpus &corpus, const Samples &samples, size_t ranks) {
  const size_t needed = ranks * options.accumulate * options.batch;
  if (samples.validation_count() > 0 && samples.training_count() >= needed) return std::nullopt;
  return Failure{Exit::usage, "corpus: " + std::to_string(corpus.bytes()) + " bytes are too few: they make " +
                                  std::to_string(samples.training_count()) + " samples of " +
                                  std::to_string(samples.window_bytes()) + " bytes to train with and " +
                                  std::to_string(samples.validation_count()) + " to validate with, and a step takes " +
                                  std::to_string(needed) + "; give more text, or a smaller --batch or --context"};
}

/// Checks that all ranks have the same options. Otherwise they would wait for each other in vain, or train different
/// models.
Outcome check_agreement(const Options &options, const CorpusMark &corpus, Group &group) {
  const Shape &shape = options.shape;
  const Parts &parts = options.parts;
  const Compression &compression = options.compression;
  const auto bits = [](double number) { return std::bit_cast<uint64_t>(number); };
  std::vector<uint64_t> mine;
  const auto add = [&](auto... numbers) { (mine.push_back(static_cast<uint64_t>(numbers)), ...); };
  add(corpus.bytes, corpus.checksum, shape.width, shape.layers, shape.heads, shape.context, options.on_device,
      options.precision, options.batch, options.accumulate, options.steps, options.seed, bits(options.bucket_mb),
      options.overlap, options.mode, options.local_steps, options.staleness, compression.method,
      bits(compression.share), compression.thin_rank, options.sharded, parts.slices, parts.stages, parts.experts,
      bits(options.learning_rate), bits(options.weight_decay), bits(options.clip), options.warmup,
      options.validate_every, options.validation_batches, options.check_every, options.checkpoint.empty(),
      options.checkpoint_every, options.resume.empty(), options.measure_rounds, options.reports());
  std::vector<uint64_t> all(mine.size() * group.size());
  if (auto failure = group.gather(mine.data(), mine.size() * sizeof mine[0], all.data())) return failure;
  for (size_t rank = 1; rank < group.size(); ++rank)
    if (!std::ranges::equal(std::span(all).subspan(rank * mine.size(), mine.size()), std::span(all).first(mine.size())))
      return Failure{Exit::usage, "rank " + std::to_string(rank) +
                                      " has other options or another corpus than rank 0; "
                                      "start all ranks with the same"};
  return std::nullopt;
}

void summarise(const Options &options, const Run &run) {
  std::fprintf(options.lines(), "%s, %zu parameters, ranks: %zu: %.1f samples/s, validation %.3f bits a byte\n",
               options.shape.name.c_str(), run.parameters, run.ranks, samples_per_second(options, run),
               bits_per_byte(run.validations.back().loss));
  if (options.parts.stages > 1 && options.reports())
    std::fprintf(options.lines(), "pipeline: %s\n", pipeline_text(pipeline_of_run(options, run)).c_str());
  const OverlapFigures overlap = overlap_of(options, run);
  if (const std::string words = headline(overlap); !words.empty())
    std::fprintf(options.lines(), "overlap: %s\n", words.c_str());
  if (const std::string words = efficiency_text(overlap); !words.empty())
    std::fprintf(options.lines(), "overlap efficiency: %s\n", words.c_str());
  if (const std::string words = rate_text(rate_of(options, run)); !words.empty())
    std::fprintf(options.lines(), "computation: %s\n", words.c_str());
  if (!options.report.empty()) std::fprintf(options.lines(), "report: %s/report.html\n", options.report.c_str());
}

/// Prepares the files that rank 0 reads and writes. Rank 0 reports a failure to the others before they wait for
/// parameters. All ranks print it, because a launcher ends the other ranks as soon as one rank has ended.
Outcome prepare_files(const Options &options, Group &group, const Checkpoint &checkpoint, Run &run) {
  Outcome failure;
  if (group.rank() == 0 && !options.checkpoint.empty()) failure = checkpoint.check_place();
  if (group.rank() == 0 && !failure && !options.resume.empty()) failure = checkpoint.load(run);
  std::array<char, 512> why{};  // as much of the message as fits; empty if nothing failed
  if (failure) failure->message.copy(why.data(), why.size() - 1);
  if (auto lost = group.broadcast(why.data(), why.size())) return lost;
  if (why[0] != '\0' && !failure) return Failure{Exit::usage, std::string("rank 0 cannot begin: ") + why.data()};
  return failure;
}

/// Finds this rank's index among the ranks of its host.
Outcome find_place(Group &group, size_t &place) {
  constexpr size_t name_bytes = 256;
  std::string mine(name_bytes, '\0'), all(name_bytes * group.size(), '\0');
  (void)::gethostname(mine.data(), name_bytes - 1);
  if (auto failure = group.gather(mine.data(), name_bytes, all.data())) return failure;
  for (size_t other = 0; other < group.rank(); ++other)
    if (all.compare(other * name_bytes, name_bytes, mine) == 0) ++place;
  return std::nullopt;
}

/// Returns RONDO_MAX_CTAS, which the library has checked. Returns 0 if it is not set, or if copies run the collectives.
uint32_t collective_blocks() {
  const char *const text = std::getenv("RONDO_MAX_CTAS"), *const executor = std::getenv("RONDO_DEVICE_EXECUTOR");
  uint32_t count = 0;
  const bool copies = executor != nullptr && std::strcmp(executor, "copy") == 0;
  if (text != nullptr && !copies) (void)std::from_chars(text, text + std::strlen(text), count);
  return count;
}

/// Makes the backend of this rank. The ranks of a host use its devices in turn, unless an ordinal is requested.
Outcome make_compute(const Options &options, Devices &devices, Group &group, std::unique_ptr<Compute> &compute) {
  if (!options.on_device) {
    compute = make_host_compute();
    return std::nullopt;
  }
  int device_count = 0;
  if (auto failure = devices.count(device_count)) return failure;
  size_t place = 0;
  if (auto failure = find_place(group, place)) return failure;
  const int ordinal = options.ordinal >= 0 ? options.ordinal : static_cast<int>(place) % device_count;
  if (ordinal >= device_count)
    return Failure{Exit::usage, "--device cuda:" + std::to_string(ordinal) + ": this process sees " +
                                    std::to_string(device_count) + " CUDA devices, numbered from 0"};
  std::unique_ptr<Device> device;
  if (auto failure = devices.open(ordinal, device)) return failure;
  return make_cuda_compute(std::move(device),
                           {options.product_library, options.precision, options.config, collective_blocks()}, compute);
}

Outcome train_ranks(const Options &options, const Corpus &corpus, const Samples &samples, Devices &devices,
                    Ranks &ranks, Run &run) {
  Group &group = ranks.all();
  if (options.mode == Mode::async_ps && group.size() < 2)
    return Failure{Exit::usage, "--mode async-ps takes a parameter server and at least one worker; start 2 ranks"};
  if (auto failure = check_samples(options, corpus, samples, ranks.data().size())) return failure;
  CorpusMark mark{corpus.bytes(), 0};
  // The checksum reads the whole corpus. Only runs that can be continued need it, because they must use the same
  // corpus.
  if (!options.checkpoint.empty() || !options.resume.empty())
    if (auto failure = corpus.checksum(mark.checksum)) return failure;
  if (auto failure = check_agreement(options, mark, group)) return failure;
  std::unique_ptr<Compute> compute;
  if (auto failure = make_compute(options, devices, group, compute)) return failure;
  Trainer trainer(options, ranks, *compute, corpus, samples);
  if (auto failure = trainer.allocate()) return failure;
  run.ranks = group.size();
  run.parameters = trainer.whole_layout().count;
  run.wire_bytes = trainer.exchange().wire_bytes();
  run.received_bytes = trainer.exchange().received_bytes();
  run.plain_bytes = trainer.exchange().plain_bytes();
  run.bucket_count = trainer.exchange().buckets().size();
  run.corpus_bytes = corpus.bytes();
  run.corpus_files = corpus.file_count();
  const Checkpoint checkpoint(options, trainer, group, mark);
  if (auto failure = prepare_files(options, group, checkpoint, run)) return failure;
  if (auto failure = trainer.begin()) return failure;
  if (auto failure = Session(options, ranks, trainer, checkpoint).run(run)) return failure;
  if (group.rank() == 0) {
    if (!options.report.empty())
      if (auto failure = write_report(options.report, options, run)) return failure;
    if (!options.json.empty())
      if (auto failure = write_json(options.json, options, run)) return failure;
    summarise(options, run);
  }
  return ranks.finish();
}

}  // namespace

int run_train(std::span<const char *const> args, Devices &devices) {
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
  if (auto failure = ranks.join(options.config, options.parts)) return tell(*failure);
  if (auto failure = train_ranks(options, corpus, samples, devices, ranks, run)) {
    failure->message = "rank " + std::to_string(ranks.all().rank()) + ": " + failure->message;
    return tell(*failure);
  }
  return static_cast<int>(Exit::ok);
}

}  // namespace rondo
