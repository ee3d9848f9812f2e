// SPDX-License-Identifier: Apache-2.0
// This file declares the options of `rondo perf`. They follow nccl-tests if the option makes sense here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bench/failure.h"
#include "rondo/rondo.h"

namespace rondo::perf {

/// The origin of the send and receive buffers.
enum class Buffers {
  private_memory,  ///< plain memory, which no peer can see
  alloc,           ///< rondo_mem_alloc()
  registered,      ///< plain memory of the host or a device, after rondo_comm_register()
  moved            ///< like `registered`, with RONDO_REGISTER_MOVE_PAGES
};

struct Options {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  size_t min_bytes = 8;
  size_t max_bytes = size_t{256} << 20;
  size_t step_factor = 4;
  size_t step_bytes = 0;  ///< 0: step_factor is used
  std::vector<rondo_type_t> types{RONDO_FLOAT32};
  std::vector<rondo_op_t> ops{RONDO_SUM};
  int root = 0;
  bool all_roots = false;                   ///< every rank is the root, one after another; `root` is 0
  int ranks = 0;                            ///< ranks that are threads; 0 if the environment names this process's rank
  std::optional<uint32_t> iteration_count;  ///< empty: chosen by size and time, see timing.h
  std::optional<uint32_t> warmup_count;     ///< empty: chosen by size
  uint32_t check_count = 1;                 ///< verified runs for each size and placement
  uint32_t aggregate_count = 1;             ///< calls in one timed run
  uint32_t pause_ms = 0;                    ///< pause before each run whose results are not checked
  bool on_device = false;
  std::vector<int> ordinals;    ///< devices that the ranks take in turn (empty: all visible ones)
  std::string against_path;     ///< on a device, another library; empty if none
  uint32_t product_size = 0;    ///< on a device, rows of the product beside calls; 0 if none
  std::string product_library;  ///< library of the product; if empty, the cuBLAS that the linker finds
  bool graph = false;           ///< on a device: capture a run's calls once, and replay them
  bool one_graph = false;       ///< one graph for all ranks, which are threads of this process
  bool together = false;        ///< with graphs of ranks that are threads: one word starts all streams
  bool rewrite = true;          ///< fresh inputs before every run
  bool use_stream = false;
  Buffers buffers = Buffers::private_memory;
  bool out_of_place = true, in_place = true;
  uint64_t seed = 1;
  rondo_config_t config = RONDO_CONFIG_INIT;   ///< algorithm, kernel, protocol, channels, chunk size, timeout
  std::string csv_path, json_path, plot_path;  ///< "-" for standard output; empty if not requested
  bool table_to_errors = false;                ///< one of these paths is "-", so the table goes to standard error
};

/// The default number of calls in one timed run on a device. The time to enqueue delays only the first call.
inline constexpr uint32_t device_aggregate_count = 20;

/// Returns the options, or the text of --help (with Exit::ok), or a failure that describes a wrong option.
[[nodiscard]] std::variant<Options, Failure> parse_options(std::span<const char *const> args);

/// Returns the failure for a number of ranks for which the pattern does not exist.
[[nodiscard]] Failure wrong_ranks(rondo_collective_t collective);

/// Returns the timeout of an operation.
[[nodiscard]] uint64_t timeout_ns(const Options &options);

/// Returns the sizes to try, in order: min, then multiplied by the factor or increased by the step, up to max. max is
/// always included. There are at most 10,001.
[[nodiscard]] std::vector<size_t> sizes_of(const Options &options);

}  // namespace rondo::perf
