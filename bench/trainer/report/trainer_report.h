// SPDX-License-Identifier: Apache-2.0
// A run leaves these files for its readers: report.json, report.html and timeline.json. docs/trainer.md explains them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"

namespace rondo::train {

[[nodiscard]] nlohmann::json to_json(const Options &options, const Run &run);

/// Returns a timeline for Perfetto: a process for each rank, a lane for computation and one for communication.
[[nodiscard]] std::string to_timeline(const Run &run);

/// Returns one page that needs no network.
[[nodiscard]] std::string to_page(const nlohmann::json &report, const Run &run);

/// Makes the folder, or says why that fails; before the run.
[[nodiscard]] Outcome make_report_folder(const std::string &folder);
[[nodiscard]] Outcome write_report(const std::string &folder, const Options &options, const Run &run);

/// Writes the report alone, to a file or standard output ("-").
[[nodiscard]] Outcome write_json(const std::string &path, const Options &options, const Run &run);

/// Returns what overlap gained in the run: the figures that the report has and the text output shows.
[[nodiscard]] OverlapFigures overlap_of(const Options &options, const Run &run);

/// Returns how long stages idled, without the first steps; for a run with a pipeline.
[[nodiscard]] PipelineFigures pipeline_of_run(const Options &options, const Run &run);

/// Samples of all ranks in a second, by the median step without the first ones, which warm up.
[[nodiscard]] double samples_per_second(const Options &options, const Run &run);

}  // namespace rondo::train
