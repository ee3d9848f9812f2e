// SPDX-License-Identifier: Apache-2.0
// These tests compute the figures of the trainer's report. The cases are runs whose reports contradicted themselves.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "bench/trainer/exchange/bucket.h"
#include "bench/trainer/figures/overlap.h"
#include "bench/trainer/figures/traffic.h"
#include "bench/trainer/options.h"
#include "bench/trainer/report/trainer_report.h"
#include "tests/catch.h"

namespace {

using namespace rondo::train;
using State = OverlapFigures::State;

constexpr uint64_t us = 1'000, ms = 1'000'000;

/// Times of one round in milliseconds.
struct Times {
  double computation, backward, communication, overlapped, plain;
};

uint64_t to_ns(double value_ms) { return static_cast<uint64_t>(std::max(value_ms, 0.0) * 1e6); }

/// Returns rounds whose steps differ from `typical` by the milliseconds in `overlapped` and `plain`.
std::vector<Round> rounds_of(const Times &typical, const std::vector<double> &overlapped,
                             const std::vector<double> &plain) {
  std::vector<Round> rounds;
  for (size_t at = 0; at < overlapped.size(); ++at) {
    Round round;
    round.computation_ns = to_ns(typical.computation);
    round.backward_ns = to_ns(typical.backward);
    round.communication_ns = round.gradients_ns = to_ns(typical.communication);
    round.overlapped_ns = to_ns(typical.overlapped + overlapped[at]);
    round.plain_ns = to_ns(typical.plain + plain[at]);
    rounds.push_back(round);
  }
  return rounds;
}

const std::vector<double> jitter{0.3, -0.6, 0.9, 0.0, -0.9, 0.6, -0.3, 1.2, -1.2};
const std::vector<double> other_jitter{-0.9, 0.3, -0.6, 0.8, 0.0, 1.2, -1.1, 0.6, -0.3};

std::vector<double> times(const std::vector<double> &values, double factor) {
  std::vector<double> scaled;
  for (const double value : values) scaled.push_back(value * factor);
  return scaled;
}

/// Two ranks' view of one collective. The second rank begins it 110 ms late. The first rank waits from 101 ms on.
struct Skewed {
  Traffic early{{{{1 * ms, 112'300 * us}, true}}, {{101 * ms, 112'310 * us}}};
  Traffic late{{{{111 * ms, 112'300 * us}, true}}, {{111'500 * us, 112'320 * us}}};
};

StepTimes settled(const Traffic &traffic, uint64_t least_ns) {
  StepTimes found;
  settle(traffic, least_ns, found);
  return found;
}

Options options_of(std::vector<const char *> args) {
  auto parsed = parse_options(args);
  REQUIRE(std::holds_alternative<Options>(parsed));
  return std::get<Options>(parsed);
}

std::vector<Bucket> buckets_of(const Options &options) {
  return make_buckets(make_layout(options.shape, {0, options.parts.slices}),
                      static_cast<size_t>(options.bucket_mb * 1'048'576));
}

}  // namespace

TEST_CASE("trainer: a difference of 17 ms steps is no figure for 0.7 ms of communication", "[train]") {
  // The report of this run had "0 % hidden" beside "overlap efficiency 1.45 (-0.55 to 1.92)".
  const OverlapFigures figures =
      overlap_figures(rounds_of({16.9, 10.5, 0.7, 17.0, 17.1}, jitter, other_jitter), true, 2);
  CHECK(figures.state == State::measured);
  CHECK_FALSE(figures.less_told);
  CHECK_FALSE(figures.efficiency.has_value());
  CHECK_THAT(headline(figures), Contains("a step takes 17.0 ms with overlap, 17.1 ms without: too small to tell"));
  CHECK(efficiency_text(figures) == "too small to tell");
}

TEST_CASE("trainer: equal steps gain nothing, whatever is in flight meanwhile", "[train]") {
  // The report of this run had "93 % hidden" beside "overlap efficiency -0.32".
  const OverlapFigures figures =
      overlap_figures(rounds_of({81, 50, 6.8, 86.9, 86.9}, times(jitter, 4), times(other_jitter, 4)), true, 2);
  CHECK_FALSE(figures.less_told);
  CHECK_FALSE(figures.efficiency.has_value());
  const OverlapFigures quiet =
      overlap_figures(rounds_of({81, 50, 6.8, 86.9, 86.9}, times(jitter, 0.1), times(other_jitter, 0.1)), true, 2);
  CHECK_FALSE(quiet.less_told);
  REQUIRE(quiet.efficiency.has_value());  // the noise is far below 6.8 ms, so "nothing was hidden" is certain
  CHECK(quiet.efficiency->median == Approx(0).margin(0.02));
}

TEST_CASE("trainer: efficiency is the share of what the backward pass could hide", "[train]") {
  // 182 of 191 ms were hidden, which was 0.51 of the whole step's computation.
  const OverlapFigures figures =
      overlap_figures(rounds_of({357, 191, 459, 634, 816}, jitter, other_jitter), true, 2);
  REQUIRE(figures.efficiency.has_value());
  CHECK(figures.hideable_us.median == Approx(191'000));
  CHECK(figures.efficiency->median == Approx(182.0 / 191).margin(0.01));
  CHECK(figures.efficiency->low <= figures.efficiency->median);
  CHECK(figures.efficiency->median <= figures.efficiency->high);
  CHECK(figures.less_told);
  CHECK_THAT(headline(figures), Contains("a step takes 634.0 ms with overlap, 816.0 ms without: 22 % less (2"));
  CHECK(efficiency_text(figures) == "0.96 (0.95 to 0.96)");
}

TEST_CASE("trainer: collectives that the backward pass cannot hide are not what could be hidden", "[train]") {
  std::vector<Round> rounds = rounds_of({357, 191, 459, 634, 816}, jitter, other_jitter);
  for (Round &round : rounds) round.gradients_ns = to_ns(100);  // the rest gathers parameters, with overlap or without
  const OverlapFigures figures = overlap_figures(rounds, true, 2);
  CHECK(figures.hideable_us.median == Approx(100'000));
}

TEST_CASE("trainer: no efficiency is told where more was saved than could be hidden", "[train]") {
  const OverlapFigures figures = overlap_figures(rounds_of({90, 62, 33, 75, 115}, jitter, other_jitter), true, 2);
  CHECK(figures.less_told);
  CHECK_FALSE(figures.efficiency.has_value());
}

TEST_CASE("trainer: a slow-down of computation is told where it is none of the noise", "[train]") {
  std::vector<Round> rounds = rounds_of({357, 191, 459, 634, 816}, jitter, other_jitter);
  const auto figures_with = [&](double typical, double factor) {
    for (size_t at = 0; at < rounds.size(); ++at) {
      rounds[at].passes_alone_ns = to_ns(100);
      rounds[at].passes_beside_ns = to_ns(typical + factor * jitter[at]);
    }
    return overlap_figures(rounds, true, 2);
  };
  CHECK_FALSE(figures_with(53, 60).slowdown.has_value());  // a report said "0.53 (0.33 to 1.41) times as long"
  CHECK(slowdown_text(figures_with(53, 60)) == "too small to tell");
  CHECK_FALSE(figures_with(57, 1).slowdown.has_value());  // other programs used the processor
  CHECK(slowdown_text(figures_with(110, 1)) == "1.10 (1.09 to 1.11) times as long");
}

TEST_CASE("trainer: overlap that costs is told as such", "[train]") {
  const OverlapFigures figures = overlap_figures(rounds_of({40, 25, 14, 60, 54.4}, jitter, other_jitter), true, 2);
  CHECK(figures.less_told);
  CHECK_THAT(headline(figures), Contains("a step takes 60.0 ms with overlap, 54.4 ms without: 10 % more ("));
  REQUIRE(figures.efficiency.has_value());
  CHECK(figures.efficiency->median < 0);
}

TEST_CASE("trainer: steps without overlap have no efficiency, and one rank none either", "[train]") {
  const std::vector<Round> rounds = rounds_of({357, 191, 459, 0, 816}, std::vector<double>(9, 0), other_jitter);
  const OverlapFigures off = overlap_figures(rounds, false, 2);  // a report took overlap as on, and showed 0.57
  CHECK(off.state == State::off);
  CHECK_FALSE(off.efficiency.has_value());
  CHECK_THAT(headline(off), Contains("a step takes 816.0 ms without overlap ("));
  CHECK(efficiency_text(off).empty());
  const OverlapFigures alone = overlap_figures(rounds_of({16, 10, 0.1, 17, 25}, jitter, other_jitter), true, 1);
  CHECK(alone.state == State::one_rank);
  CHECK_FALSE(alone.less_told);
  CHECK(headline(alone) == "a step takes 17.0 ms; one rank has nothing to overlap");
  CHECK(headline(overlap_figures({}, true, 2)).empty());
  CHECK(headline(overlap_figures(std::vector<Round>(9), true, 2)).empty());  // these rounds have no times
}

TEST_CASE("trainer: a few rounds tell no difference from noise", "[train]") {
  const std::vector<double> few(rounds_min - 1, 0.0), enough(rounds_min, 0.0);
  const OverlapFigures figures = overlap_figures(rounds_of({357, 191, 459, 634, 816}, few, few), true, 2);
  CHECK(figures.state == State::too_few_rounds);
  CHECK_FALSE(figures.less_told);
  CHECK_FALSE(figures.efficiency.has_value());
  CHECK_THAT(headline(figures), Contains("too few rounds to tell (--measure 6 or more can tell)"));
  CHECK(overlap_figures(rounds_of({357, 191, 459, 634, 816}, enough, enough), true, 2).less_told);
}

TEST_CASE("trainer: one disturbed round of nine changes no verdict, and two of them do", "[train]") {
  std::vector<double> disturbed = jitter;
  disturbed[4] += 400;
  CHECK(overlap_figures(rounds_of({357, 191, 459, 634, 816}, disturbed, other_jitter), true, 2).less_told);
  disturbed[5] += 400;
  const OverlapFigures figures =
      overlap_figures(rounds_of({357, 191, 459, 634, 816}, disturbed, other_jitter), true, 2);
  CHECK_FALSE(figures.less_told);
  CHECK_FALSE(figures.efficiency.has_value());
}

TEST_CASE("trainer: the bounds of a median leave out what 95 % confidence lets them", "[train]") {
  std::vector<double> values;
  for (int at = 20; at > 0; --at) values.push_back(at);
  const Estimate found = estimate(values);  // of 20 values the 6th and the 15th, by the binomial distribution
  CHECK(found.median == 10.5);
  CHECK(found.low == 6);
  CHECK(found.high == 15);
  const Estimate nine = estimate({9, 1, 8, 2, 7, 3, 6, 4, 5});
  CHECK((nine.low == 2 && nine.median == 5 && nine.high == 8));
  const Estimate one = estimate({3});
  CHECK((one.low == 3 && one.high == 3));
}

TEST_CASE("trainer: the wait for a late rank is neither communication nor hidden", "[train]") {
  const Skewed skewed;
  const uint64_t least_ns = std::min(skewed.early.in_flight_ns(), skewed.late.in_flight_ns());
  const StepTimes early = settled(skewed.early, least_ns), late = settled(skewed.late, least_ns);
  CHECK(early.in_flight_ns == 111'300 * us);
  CHECK(early.communication_ns == Approx(1'300 * us));  // a report said 111.3 ms
  CHECK(early.skew_ns() == Approx(110 * ms));
  CHECK(early.exposed_ns == Approx(1'300 * us));
  CHECK(late.communication_ns == 1'300 * us);
  CHECK(late.skew_ns() == 0);
  CHECK(late.exposed_ns == 800 * us);  // for half a millisecond, its computation continued
  CHECK(late.gradients_ns == 1'300 * us);
}

TEST_CASE("trainer: exposed communication is at most communication, though waits end later", "[train]") {
  // Waking up takes time. The report said "communication 2.7 ms, of it exposed 2.9".
  const Traffic traffic{{{{100 * us, 1'500 * us}, true}, {{1'500 * us, 2'800 * us}, false}},
                        {{50 * us, 1'600 * us}, {1'600 * us, 2'950 * us}}};
  const StepTimes found = settled(traffic, traffic.in_flight_ns());
  CHECK(found.communication_ns == 2'700 * us);
  CHECK(found.exposed_ns == 2'700 * us);
  CHECK(found.gradients_ns == 1'400 * us);
  CHECK(found.skew_ns() == 0);
  // The first case has no wait. In the second case, the wait only touches the time of a wait for another rank.
  CHECK(settled({traffic.flights, {}}, traffic.in_flight_ns()).exposed_ns == 0);
  CHECK(settled({{{{0, 10 * ms}, true}}, {{0, 8 * ms}}}, 2 * ms).exposed_ns == 0);
}

TEST_CASE("trainer: ranks that wait for each other in turns communicate all the time", "[train]") {
  // Each rank finds one of the two transfers done already, since the other rank sent ahead.
  const Traffic one{{{{0, 18 * ms}, true}, {{18 * ms, 20 * ms}, true}}, {}};
  const Traffic other{{{{0, 2 * ms}, true}, {{2 * ms, 20 * ms}, true}}, {}};
  const uint64_t least_ns = std::min(one.in_flight_ns(), other.in_flight_ns());
  CHECK(settled(one, least_ns).communication_ns == 20 * ms);
  CHECK(settled(other, least_ns).skew_ns() == 0);
}

TEST_CASE("trainer: communication is never more than the time in flight", "[train]") {
  const StepTimes found = settled({{{{0, 1 * ms}, true}}, {{0, 2 * ms}}}, 9 * ms);
  CHECK(found.communication_ns == 1 * ms);
  CHECK(found.skew_ns() == 0);
  CHECK(found.exposed_ns == 1 * ms);
  const StepTimes none = settled({}, 0);
  CHECK((none.in_flight_ns == 0 && none.communication_ns == 0 && none.exposed_ns == 0));
}

TEST_CASE("trainer: a small model has buckets enough to overlap, a large one of a MiB", "[train]") {
  const Options nano = options_of({"--model", "nano"}), small = options_of({"--model", "small"});
  CHECK(nano.bucket_mb == Approx(224'640 * 4.0 / 1'048'576 / 8));  // in the past, one bucket
  CHECK(buckets_of(nano).size() >= 8);
  CHECK(small.bucket_mb == 1.0);
  CHECK(options_of({"--model", "nano", "--bucket-mb", "0.5"}).bucket_mb == 0.5);
  const Options shared = options_of({"--model", "nano", "--tensor-parallel", "2"});
  CHECK(shared.bucket_mb < nano.bucket_mb);
  CHECK(buckets_of(shared).size() >= 8);
}

TEST_CASE("trainer: a step's operations are those of matrices and attention, however often computed", "[train]") {
  const Shape gpt2 = options_of({"--model", "gpt2"}).shape;
  CHECK(sample_operations(gpt2) / 1024 == Approx(6 * (12 * 12 * 768. * 768 + 256 * 768.) + 12 * 12 * 768. * 1024));
  const Options options = options_of({"--model", "gpt2", "--recompute", "--batch", "16", "--accumulate", "2"});
  Run run;
  run.ranks = 4;
  run.product_rows = 1024;
  run.rounds = rounds_of({30, 20, 1, 30, 31}, jitter, other_jitter);
  for (Round &round : run.rounds) round.product_ns = 1 * ms;
  CHECK(rate_of(options, run).operations == Approx(32 * sample_operations(gpt2)));
  // Each of two ranks that share a model has half of its operations. A token meets one of the experts.
  const Options shared = options_of({"--model", "gpt2", "--tensor-parallel", "2", "--batch", "16"});
  CHECK(rate_of(shared, run).operations == Approx(8 * sample_operations(gpt2)));
  Shape experts = gpt2;
  experts.experts = 8;
  CHECK(sample_operations(experts) / 1024 == Approx(sample_operations(gpt2) / 1024 + 6 * 12 * 8 * 768.));
}

TEST_CASE("trainer: a share of a product's rate is told only if the noise is less than the share", "[train]") {
  std::vector<Round> rounds = rounds_of({30, 20, 1, 40, 50}, times(jitter, 0.1), other_jitter);
  CHECK(rate_text(rate_figures(rounds, true, 4e12, 1000)).empty());  // no product was measured
  for (Round &round : rounds) round.product_ns = 10 * us;            // 2e9 operations, so 200 TFLOP/s
  const RateFigures overlapped = rate_figures(rounds, true, 4e12, 1000);
  const RateFigures plain = rate_figures(rounds, false, 4e12, 1000);
  CHECK(overlapped.rate.median == Approx(100.0));
  CHECK(overlapped.product_rate.median == Approx(200.0));
  CHECK(share_text(overlapped) == "50 % (50 to 50)");
  CHECK(plain.rate.median == Approx(80.0));
  CHECK_THAT(rate_text(overlapped),
             Contains("100 TFLOP/s a rank; share of the 200 TFLOP/s of one product of 1000 rows: 50 % (50 to 50)"));
  const std::vector<Round> few(rounds.begin(), rounds.begin() + 5);
  CHECK(share_text(rate_figures(few, true, 4e12, 1000)) == "too few rounds to tell");
  for (size_t at = 0; at < rounds.size(); ++at) rounds[at].product_ns = (at % 3 == 0 ? 40 : 4) * us;
  const RateFigures noisy = rate_figures(rounds, true, 4e12, 1000);
  CHECK_FALSE(noisy.share.has_value());
  CHECK(share_text(noisy) == "too small to tell");
}

TEST_CASE("trainer: report and page have the figures of the text output", "[train]") {
  const Options options = options_of({"--model", "nano"});
  Run run;
  run.ranks = 2;
  run.validations.push_back({10, 1.0});
  run.rounds = rounds_of({357, 191, 459, 634, 816}, jitter, other_jitter);
  run.product_rows = 512;
  for (Round &round : run.rounds) round.product_ns = 2 * ms;
  const OverlapFigures figures = overlap_of(options, run);
  const nlohmann::json report = to_json(options, run), &overlap = report["overlap"];
  CHECK(overlap["headline"] == headline(figures));
  CHECK(overlap["efficiency_text"] == efficiency_text(figures));
  CHECK(overlap["efficiency"]["median"] == figures.efficiency->median);
  CHECK(overlap["less_percent"]["low"] == 100 * figures.less.low);
  const std::string page = to_page(report, run);
  CHECK_THAT(page, Contains("[\"" + headline(figures) + "\",\"what overlap gains\",\"Medians of"));
  CHECK_THAT(page, Contains("[\"" + efficiency_text(figures) + "\",\"overlap efficiency\",\"Overlap can"));
  const RateFigures rate = rate_of(options, run);
  CHECK(report["rate"]["headline"] == rate_text(rate));
  CHECK(report["rate"]["share_percent"]["median"] == 100 * rate.share->median);
  CHECK_THAT(page, Contains("TFLOP/s\",\"of a rank, in a step\",\"The share of the rate of one large product, measured "
                            "in turns with the steps: " + share_text(rate) + "."));

  const Options off = options_of({"--model", "nano", "--no-overlap"});
  const nlohmann::json without = to_json(off, run);
  CHECK(without["overlap"]["efficiency"].is_null());
  CHECK(without["overlap"]["efficiency_text"].is_null());
  CHECK(without["overlap"]["step_us"].is_null());
  CHECK(to_page(without, run).find("overlap efficiency") == std::string::npos);
  run.rounds.clear();
  CHECK(to_json(options, run)["overlap"].is_null());
  CHECK(to_json(options, run)["rate"].is_null());
}
