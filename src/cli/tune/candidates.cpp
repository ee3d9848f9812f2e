// SPDX-License-Identifier: Apache-2.0
// Lists the candidates that `rondo tune` tries. It does no I/O.
#include <algorithm>
#include <array>

#include "src/base/parse.h"
#include "src/cli/tune/tune.h"
#include "src/cli/tune/tuner_input.h"
#include "src/console/progress.h"

namespace rondo::cli::tune {
namespace {

constexpr uint64_t KiB = 1024;
constexpr uint64_t ll_bytes_max = 256 * KiB;  // ll moves two bytes for each, so it is far from the best before this

/// The chunk sizes to try. They balance pipelining against the cost of counters. ll and load_store have small areas.
/// With load_store, one rank reduces a chunk of a ring, while all ranks reduce a chunk of a two_shot.
constexpr std::array<uint64_t, 3> simple_chunks{64 * KiB, 128 * KiB, 1024 * KiB};
constexpr std::array<uint64_t, 2> ll_chunks{4 * KiB, 16 * KiB};
constexpr std::array<uint64_t, 3> load_store_chunks{64 * KiB, 128 * KiB, 256 * KiB};
constexpr std::array<uint64_t, 3> load_store_ring_chunks{16 * KiB, 32 * KiB, 64 * KiB};

/// A way to run a schedule: the interpreter with a protocol, or a kernel without one.
struct Way {
  rondo_kernel_t kernel;
  rondo_protocol_t protocol;
};
constexpr std::array ways{Way{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
                          Way{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL},
                          Way{RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO}};

std::span<const uint64_t> chunks_of(rondo_algorithm_t algorithm, const Way &way) {
  if (way.kernel == RONDO_KERNEL_LOAD_STORE && algorithm == RONDO_ALGORITHM_RING) return load_store_ring_chunks;
  if (way.kernel == RONDO_KERNEL_LOAD_STORE) return load_store_chunks;
  return way.protocol == RONDO_PROTOCOL_LL ? std::span<const uint64_t>(ll_chunks) : simple_chunks;
}

/// Returns the number of channels to try. Two channels use both trees of a double tree, or both directions of a ring's
/// links.
uint32_t channels_of(rondo_algorithm_t algorithm) {
  return algorithm == RONDO_ALGORITHM_TREE || algorithm == RONDO_ALGORITHM_RING ? 2 : 1;
}

/// Adds a choice, unless an equal choice is in the list. Chunks that a message does not fill count as equal.
void add(std::vector<PlanChoice> &list, const PlanChoice &choice, uint64_t bytes) {
  const auto alike = [&](const PlanChoice &other) {
    PlanChoice same = other;
    if (other.chunk_bytes >= bytes && choice.chunk_bytes >= bytes) same.chunk_bytes = choice.chunk_bytes;
    return same == choice;
  };
  if (std::none_of(list.begin(), list.end(), alike)) list.push_back(choice);
}

}  // namespace

std::vector<PlanChoice> candidates(TunerInput input) {
  std::vector<PlanChoice> list;
  input.overrides = {};
  if (const auto built_in = choose_plan(input); built_in.ok()) list.push_back(built_in.value());
  for (const Algorithm &algorithm : algorithms())
    for (const Way &way : ways)
      for (uint32_t channels = 1; channels <= channels_of(algorithm.id); ++channels)
        for (const uint64_t chunk_bytes : chunks_of(algorithm.id, way)) {
          if (way.protocol == RONDO_PROTOCOL_LL && input.bytes > ll_bytes_max) continue;
          input.overrides = {algorithm.id, way.protocol, channels, chunk_bytes, way.kernel};
          const auto chosen = choose_plan(input);  // refuses impossible choices, and cuts chunks to the slots
          if (chosen.ok()) add(list, chosen.value(), input.bytes);
        }
  return list;
}

uint64_t rounded_bytes(const Group &group, uint64_t bytes) {
  constexpr uint64_t element_bytes = sizeof(float);
  const uint64_t unit = vector_count(group.collective, element_bytes, group.rank_count);
  return std::max<uint64_t>(bytes / unit, 1) * unit;
}

namespace {

/// Sets for each job which part of the whole work it is.
void divide(std::vector<Job> &jobs) {
  double all = 0, done = 0;
  for (const Job &job : jobs) all += estimate_seconds(job);
  for (Job &job : jobs) {
    job.part_begin = done / all;
    done += estimate_seconds(job);
    job.part_end = done / all;
  }
}

}  // namespace

std::vector<Job> plan_jobs(const Options &options, const Config &config, uint32_t core_count) {
  std::vector<Job> jobs;
  for (const uint32_t rank_count : options.rank_counts)
    for (const rondo_collective_t collective : options.collectives) {
      Job job{{collective, rank_count, rank_count > core_count}, options.round_count, options.sample_ns, {}};
      TunerInput input = tuner_input(config, rank_count, job.group.oversubscribed);
      input.collective = collective;
      for (const uint64_t bytes : options.sizes) {
        input.bytes = rounded_bytes(job.group, bytes);
        if (!job.sizes.empty() && job.sizes.back().bytes == input.bytes) continue;
        job.sizes.push_back({input.bytes, candidates(input)});
      }
      jobs.push_back(std::move(job));
    }
  divide(jobs);
  return jobs;
}

double estimate_seconds(const Job &job, const SizeJob &size) {
  constexpr double move_seconds = 4e-10;  // for a byte of one rank, including writing its input
  constexpr double runs_in_sample_min = 3;
  // After two rounds about half of the candidates are left (tune_rank.cpp); the first has warm-up runs.
  const double round_count = job.round_count <= 2 ? job.round_count : 2 + 0.5 * (job.round_count - 2);
  const double sharing = job.group.oversubscribed ? 2.0 : 1.0;
  const double run = move_seconds * sharing * static_cast<double>(size.bytes) * job.group.rank_count;
  const double sample = std::max(static_cast<double>(job.sample_ns) * 1e-9, runs_in_sample_min * run);
  return static_cast<double>(size.candidates.size()) * (round_count + 1) * (sample + run);
}

double estimate_seconds(const Job &job) {
  constexpr double start_seconds = 0.05;  // of a communicator
  double seconds = 1;
  size_t most = 0;
  for (const SizeJob &size : job.sizes) {
    seconds += estimate_seconds(job, size);
    most = std::max(most, size.candidates.size());
  }
  return seconds + start_seconds * (job.group.oversubscribed ? 2.0 : 1.0) * static_cast<double>(most);
}

std::string progress_of(const Job &job, size_t done_count, double elapsed_s) {
  double all = 0, done = 0;
  for (size_t index = 0; index < job.sizes.size(); ++index) {
    all += estimate_seconds(job, job.sizes[index]);
    if (index < done_count) done += estimate_seconds(job, job.sizes[index]);
  }
  const double own_part = (job.part_end - job.part_begin) * (all > 0 ? done / all : 1);
  const double part = job.part_begin + own_part;
  const double elapsed_in_all_s = own_part > 0 ? elapsed_s / own_part * part : elapsed_s;  // at the same pace
  return console::progress_text(part, elapsed_in_all_s);
}

std::string show(const PlanChoice &choice) {
  return std::string(rondo_algorithm_string(choice.algorithm)) + "/" + choice.way() + " " +
         std::to_string(choice.channels) + "x" + show_bytes(choice.chunk_bytes);
}

}  // namespace rondo::cli::tune
