// SPDX-License-Identifier: Apache-2.0
// This file writes the files that a run leaves: report.json, report.html and timeline.json. docs/trainer.md explains
// them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/trainer/figures/records.h"
#include "bench/trainer/options.h"

namespace rondo::train {

[[nodiscard]] nlohmann::json to_json(const Options &options, const Run &run);

/// Returns a timeline for Perfetto. Each rank is a process with two lanes, for computation and communication.
[[nodiscard]] std::string to_timeline(const Run &run);

/// Returns one page that needs no network.
[[nodiscard]] std::string to_page(const nlohmann::json &report, const Run &run);

/// Creates the folder before the run, or returns why that fails.
[[nodiscard]] Outcome make_report_folder(const std::string &folder);
[[nodiscard]] Outcome write_report(const std::string &folder, const Options &options, const Run &run);

/// Writes only the report, to a file or standard output ("-").
[[nodiscard]] Outcome write_json(const std::string &path, const Options &options, const Run &run);

/// Returns the gain by overlap in the run. The report and the text output show these figures.
[[nodiscard]] OverlapFigures overlap_of(const Options &options, const Run &run);

/// Returns how fast a rank computed in the run.
[[nodiscard]] RateFigures rate_of(const Options &options, const Run &run);

/// Returns how long the stages of a pipeline idled. Runs of more than 6 steps leave out the first 3.
[[nodiscard]] PipelineFigures pipeline_of_run(const Options &options, const Run &run);

/// Returns how many samples all ranks process per second. Mode sync uses the median step time, other modes the mean.
[[nodiscard]] double samples_per_second(const Options &options, const Run &run);

}  // namespace rondo::train
