// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "src/base/spelling.h"
#include "src/console/command_line.h"
#include "src/console/output.h"

namespace rondo::train {
namespace {

constexpr console::Manual manual{
    "rondo train",
    "Trains a small transformer over bytes, data-parallel, and measures how much communication hides behind\n"
    "computation. It runs under rondo run, torchrun, mpirun or srun; alone it is one rank.\n"
    "share/doc/rondo/docs/trainer-report.md explains every figure of the report.",
    "rondo train [OPTIONS]",
    "  rondo run -n 2 rondo train --model nano --steps 50 --report run\n"
    "      two ranks; then open run/report.html\n"
    "  rondo run -n 2 rondo train --model tiny --no-overlap --report plain\n"
    "      the same with all communication after the backward pass, to compare with\n"
    "  rondo run -n 2 rondo train --corpus ~/texts --steps 1000 --checkpoint run.ckpt --checkpoint-every 100\n"
    "      your own text; when it was interrupted, add: --resume run.ckpt\n"};

/// The bounds of integers. Without them, a number that does not fit would be parsed as the largest integer, and a
/// negative number as nearly the largest.
constexpr uint64_t count_max = 1'000'000'000, seed_max = std::numeric_limits<int64_t>::max();
constexpr uint64_t delay_max_ms = 86'400'000;

console::InRange counts(uint64_t least) { return {least, count_max}; }

/// The words of the options, as on the command line.
struct Words {
  std::string model = "nano", wire = "float32", compress = "none", mode = "sync", flip, delay;
  std::string device = "host", precision = "float32";
  uint32_t zero = 0;
  bool overlap = false, no_overlap = false;
  uint32_t timeout_s = 0;
};

void add_model_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("The model");
  app.add_option("--model", words.model, "shape of the model: " + known_shapes() + " [nano]")->type_name("NAME");
  app.add_option("--width", options.shape.width, "floats of a token between layers, a multiple of 16 [of the model]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--layers", options.shape.layers, "layers [of the model]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--heads", options.shape.heads, "attention heads; divides the width [of the model]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--context", options.shape.context, "bytes of a sample, a multiple of 16 [of the model]")
      ->check(counts(0))
      ->type_name("N");
}

void add_learning_options(console::CommandLine &app, Options &options) {
  app.begin_group("Learning");
  app.add_option("--steps", options.steps, "steps in all [100]")->check(counts(1))->type_name("N");
  app.add_option("--batch", options.batch, "samples of one pass on one rank, 1 to 65536 [8]")
      ->check(console::InRange(1, 65'536))
      ->type_name("N");
  app.add_option("--accumulate", options.accumulate,
                 "passes on each rank whose gradients make one step, 1 to 65536 [1]")
      ->check(console::InRange(1, 65'536))
      ->type_name("N");
  app.add_option("--seed", options.seed, "seed of the first parameters and of the samples' order [1]")
      ->check(console::InRange(uint64_t{0}, seed_max))
      ->type_name("N");
  app.add_option("--corpus", options.corpus,
                 "file or folder to learn from, as bytes; may be given several times [the licences in "
                 "/usr/share/common-licenses and Python's library]")
      ->type_name("PATH");
  app.add_option("--learning-rate", options.learning_rate, "highest learning rate [0.001]")
      ->check(console::InRange(1e-12, 10.0))
      ->type_name("X");
  app.add_option("--warmup", options.warmup, "steps in which the learning rate rises from 0 [10]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--weight-decay", options.weight_decay, "AdamW's, of matrices [0.1]")
      ->check(console::InRange(0.0, 10.0))
      ->type_name("X");
  app.add_option("--clip", options.clip, "largest norm of the gradients; 0: no limit [1]")
      ->check(console::InRange(0.0, 1e9))
      ->type_name("X");
}

/// Adds the options about the device on which a rank computes.
void add_device_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("The device");
  app.add_option("--device", words.device,
                 "host; cuda: the ranks of a host take its CUDA devices in turn; cuda:0: all of them take this one "
                 "[host]")
      ->type_name("NAME");
  app.add_option("--precision", words.precision,
                 "on a device: the factors of matrix products: float32, tf32 (rounded), bfloat16; parameters, "
                 "gradients and sums stay float32 [float32]")
      ->type_name("TYPE");
  app.add_option("--product-library", options.product_library,
                 "on a device: the file of cuBLASLt [the usual places]")
      ->type_name("FILE");
}

/// Adds the options about the division of work among ranks, and their communication.
void add_rank_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("Communication");
  app.add_option("--bucket-mb", options.bucket_mb,
                 "MiB of gradients that travel together, 0.001 to 4096 [the lesser of 1 and an eighth of all]")
      ->check(console::InRange(0.001, 4096.0))
      ->type_name("X");
  auto *const overlap =
      app.add_flag("--overlap", words.overlap, "start a bucket's all-reduce when its last gradient is ready [yes]");
  app.add_flag("--no-overlap", words.no_overlap, "start all of them after the backward pass")->excludes(overlap);
  auto *const wire = app.add_option("--wire", words.wire,
                                    "type of the gradients in the all-reduce: float32, bfloat16, float16 [float32]")
                         ->type_name("TYPE");
  app.add_option("--compress", words.compress, "gradients on the wire: " + known_compressions() + " [none]")
      ->excludes(wire)
      ->type_name("HOW");
  app.add_option("--mode", words.mode,
                 "sync: each step with all ranks' gradients; local-sgd: steps of each rank's own, then the mean; "
                 "async-ps: rank 0 updates with the gradients of the others as they arrive [sync]")
      ->type_name("MODE");
  app.add_option("--local-steps", options.local_steps, "of local-sgd: steps between two means [8]")
      ->check(console::InRange(1, 1'000'000))
      ->type_name("N");
  app.add_option("--staleness", options.staleness,
                 "of async-ps: steps that a worker may be ahead of the slowest [4]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--zero", words.zero,
                 "1: each rank updates a share of the parameters and has that share's moments only (ZeRO-1) [0]")
      ->check(console::InRange(0u, 1u))
      ->type_name("0|1");
  app.add_option("--tensor-parallel", options.parts.slices,
                 "ranks that share a model: each has some of the heads and of the MLP of every layer [1]")
      ->check(console::InRange(1, 1'024))
      ->type_name("N");
  app.add_option("--pipeline-parallel", options.parts.stages,
                 "ranks that share a model: each has some neighbouring layers, and the passes of --accumulate follow "
                 "each other through them [1]")
      ->check(console::InRange(1, 256))
      ->type_name("N");
  app.add_option("--experts", options.parts.experts,
                 "MLPs of each layer, of which a router chooses one for each token; ranks divide them; 0: one MLP [0]")
      ->check(console::InRange(0, 1'024))
      ->type_name("N");
  app.add_flag("--recompute", options.recompute,
               "keep a layer's input only, and compute its activations again in the backward pass");
  app.add_option("--timeout", words.timeout_s, "seconds that one operation may take, 1 to 86400 [300]")
      ->check(console::InRange(1u, 86'400u))
      ->type_name("S");
}

void add_run_options(console::CommandLine &app, Options &options, Words &words) {
  app.begin_group("The run");
  app.add_option("--validate-every", options.validate_every, "steps between validations; 0: at the end only [0]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--validation-batches", options.validation_batches, "batches of a validation, over all ranks [8]")
      ->check(console::InRange(1, 1'000'000))
      ->type_name("N");
  app.add_option("--check-every", options.check_every,
                 "steps between comparisons of all ranks' parameters; 0: never [100]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--checkpoint", options.checkpoint, "file to save the run to")->type_name("FILE");
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps between savings; 0: at the end only [0]")
      ->check(counts(0))
      ->type_name("N");
  app.add_option("--resume", options.resume, "continue from this checkpoint")->type_name("FILE");
  app.add_option("--measure", options.measure_rounds,
                 "rounds in which overlap is measured after the run; 0: none [9]")
      ->check(console::InRange(0u, 1000u))
      ->type_name("N");
  app.begin_group("Output");
  app.add_json(options.json, "write the report");
  app.add_option("--report", options.report, "folder for report.json, report.html and timeline.json")
      ->type_name("FOLDER");
  app.begin_group("For tests");
  app.add_option("--delay", words.delay, "as 1:20: a step of rank 1 takes 20 ms longer")->type_name("PLACE");
  app.add_option("--flip-bit", words.flip, "as 1:20: spoils a parameter of rank 1 before step 20")
      ->type_name("PLACE");
}

Failure unknown(const std::string &what, const std::string &text, const std::string &known) {
  return {Exit::usage, "unknown " + what + " '" + text + "'" + known_are(text, known)};
}

Outcome take_shape(const CLI::App &app, const Words &words, Options &options) {
  const auto named = find_shape(words.model);
  if (!named)
    return unknown("model", words.model,
                   known_shapes() + ", and any shape by --width, --layers, --heads and --context");
  Shape shape = *named;
  const auto given = [&](const char *flag, size_t value, size_t &target) {
    if (app.count(flag) == 0) return;
    target = value;
    shape.name = "custom";
  };
  given("--width", options.shape.width, shape.width);
  given("--layers", options.shape.layers, shape.layers);
  given("--heads", options.shape.heads, shape.heads);
  given("--context", options.shape.context, shape.context);
  options.shape = shape;
  return check_shape(shape);
}

Outcome take_compression(const Words &words, Options &options) {
  constexpr std::array<std::string_view, 3> types{"float32", "bfloat16", "float16"};
  if (std::find(types.begin(), types.end(), words.wire) == types.end())
    return unknown("--wire", words.wire, "float32, bfloat16, float16");
  const std::string &word = words.compress == "none" ? words.wire : words.compress;
  const auto compression = find_compression(word);
  if (!compression)
    return unknown("--compress", word, known_compressions());
  options.compression = *compression;
  return std::nullopt;
}

Outcome take_division(const Words &words, Options &options) {
  options.sharded = words.zero == 1;
  if (options.sharded && options.compression.feeds_back())
    return Failure{Exit::usage, "--zero 1 adds gradients up by reduce-scatter, which takes floats of 32 or 16 bits and "
                                "not --compress " + name_of(options.compression) + "; leave one of them out"};
  options.shape.experts = options.parts.experts;
  if (options.shape.experts > 0 && (options.ranks_a_model() > 1 || options.sharded || options.recompute ||
                                    options.compression.feeds_back()))
    return Failure{Exit::usage, "--experts goes with gradients of 32 or 16 bits, and not with --tensor-parallel, "
                                "--pipeline-parallel, --zero or --recompute; leave these out"};
  if (options.parts.stages > 1 && (options.parts.slices > 1 || options.compression.feeds_back()))
    return Failure{Exit::usage, "--pipeline-parallel goes with gradients of 32 or 16 bits, and not with "
                                "--tensor-parallel; leave out --compress " + name_of(options.compression) +
                                " or --tensor-parallel"};
  if (auto failure = check_stages(options.shape, options.parts.stages)) return failure;
  return check_slices(options.shape, options.parts.slices);
}

/// Sets the size of buckets to an eighth of a rank's gradients, but at most 1 MiB. So most buckets can be in flight
/// during the backward pass.
void take_buckets(const CLI::App &app, Options &options) {
  constexpr double buckets_min = 8, mb_max = 1, mb = 1 << 20;
  if (app.count("--bucket-mb") != 0) return;
  const Layout layout = make_layout(options.shape, {0, options.parts.slices}, {0, options.parts.stages});
  const auto bytes = static_cast<double>(layout.count * sizeof(float));
  options.bucket_mb = std::min(mb_max, bytes / mb / buckets_min);
}

/// Parses "1:20": a rank, and a number up to `most`.
bool read_pair(const std::string &text, int &rank, uint64_t &number, uint64_t most) {
  const char *const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, rank);
  if (first.ec != std::errc{} || rank < 0 || first.ptr == end || *first.ptr != ':') return false;
  const auto second = std::from_chars(first.ptr + 1, end, number);
  return second.ec == std::errc{} && second.ptr == end && number <= most;
}

Outcome take_tests(const Words &words, Options &options) {
  options.flip_bit = !words.flip.empty();
  if (options.flip_bit && !read_pair(words.flip, options.flip_rank, options.flip_step, count_max))
    return Failure{Exit::usage, "--flip-bit: '" + words.flip + "' is not RANK:STEP; write 1:20"};
  if (!words.delay.empty() && !read_pair(words.delay, options.delay_rank, options.delay_ms, delay_max_ms))
    return Failure{Exit::usage, "--delay: '" + words.delay + "' is not RANK:MS with " + std::to_string(delay_max_ms) +
                                    " ms at most; write 1:20"};
  return std::nullopt;
}

Outcome take_mode(const Words &words, Options &options) {
  bool known = false;
  for (const Mode mode : {Mode::sync, Mode::local_sgd, Mode::async_ps}) {
    if (words.mode != name_of(mode)) continue;
    options.mode = mode;
    known = true;
  }
  if (!known)
    return unknown("--mode", words.mode, "sync, local-sgd, async-ps");
  if (options.mode == Mode::sync) return std::nullopt;
  if (options.sharded || options.ranks_a_model() > 1 || options.shape.experts > 0 ||
      options.compression.method != Method::none)
    return Failure{Exit::usage, "--zero, --tensor-parallel, --pipeline-parallel, --experts, --compress and --wire go "
                                "with --mode sync only; leave them out with " + words.mode};
  if (options.mode == Mode::async_ps && (!options.checkpoint.empty() || !options.resume.empty() ||
                                         options.validate_every != 0))
    return Failure{Exit::usage, "--mode async-ps has no moment at which all ranks are at the same step, so it takes no "
                                "--checkpoint, --resume or --validate-every; leave them out"};
  return std::nullopt;
}

Outcome take_device(const Words &words, Options &options) {
  bool known = false;
  for (const Precision precision : {Precision::float32, Precision::tf32, Precision::bfloat16}) {
    if (words.precision != name_of(precision)) continue;
    options.precision = precision;
    known = true;
  }
  if (!known)
    return unknown("--precision", words.precision, "float32, tf32, bfloat16");
  if (words.device == "host") {
    if (options.precision == Precision::float32 && options.product_library.empty()) return std::nullopt;
    return Failure{Exit::usage, "--precision and --product-library are about devices; add --device cuda"};
  }
  const std::string_view word = words.device;
  const char *const begin = word.data() + std::min<size_t>(5, word.size()), *const end = word.data() + word.size();
  const auto number = std::from_chars(begin, end, options.ordinal);
  if (word != "cuda" && (!word.starts_with("cuda:") || number.ec != std::errc{} || number.ptr != end ||
                         options.ordinal < 0))
    return unknown("--device", words.device, "host, cuda, cuda:ORDINAL");
  options.on_device = true;
  if (options.mode == Mode::sync && options.ranks_a_model() == 1 && options.shape.experts == 0 &&
      !options.compression.feeds_back())
    return std::nullopt;
  return Failure{Exit::usage, "--device cuda goes with --mode sync and a --compress of 16 bits, and not with "
                              "--tensor-parallel, --pipeline-parallel or --experts; leave out what is different, or "
                              "train on the host"};
}

Outcome take_rest(const Words &words, Options &options) {
  if (auto complaint = console::check_output(options.json)) return Failure{Exit::usage, std::move(*complaint)};
  options.overlap = !words.no_overlap;
  options.config.timeout_ms = words.timeout_s * 1'000;
  if (options.checkpoint_every != 0 && options.checkpoint.empty())
    return Failure{Exit::usage, "--checkpoint-every needs a file to save to; add --checkpoint FILE"};
  return std::nullopt;
}

}  // namespace

const char *name_of(Precision precision) {
  constexpr const char *names[] = {"float32", "tf32", "bfloat16"};
  return names[static_cast<size_t>(precision)];
}

const char *name_of(Mode mode) {
  constexpr const char *names[] = {"sync", "local-sgd", "async-ps"};
  return names[static_cast<size_t>(mode)];
}

size_t Options::samples_a_step(size_t ranks) const {
  const size_t workers = mode == Mode::async_ps ? ranks - 1 : ranks / ranks_a_model();
  return workers * batch * accumulate;
}

std::variant<Options, Failure> parse_options(std::span<const char *const> args) {
  Options options;
  Words words;
  console::CommandLine app(manual);
  add_model_options(app, options, words);
  add_learning_options(app, options);
  add_device_options(app, options, words);
  add_rank_options(app, options, words);
  add_run_options(app, options, words);
  if (auto answer = app.read(args))
    return Failure{answer->is_help ? Exit::ok : Exit::usage, std::move(answer->text)};
  for (std::string *word : {&words.model, &words.wire, &words.compress, &words.mode, &words.device, &words.precision})
    *word = console::lower_case(*word);
  if (auto failure = take_shape(app, words, options)) return *failure;
  if (auto failure = take_compression(words, options)) return *failure;
  if (auto failure = take_division(words, options)) return *failure;
  take_buckets(app, options);
  if (auto failure = take_mode(words, options)) return *failure;
  if (auto failure = take_device(words, options)) return *failure;
  if (auto failure = take_tests(words, options)) return *failure;
  if (auto failure = take_rest(words, options)) return *failure;
  return options;
}

}  // namespace rondo::train
