// SPDX-License-Identifier: Apache-2.0
// This file writes report.html, which shows the figures on one page. The page contains its data, so it needs no network
// and can be sent to somebody.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/trainer/report/trainer_report.h"

namespace rondo::train {
namespace {

using nlohmann::json;

constexpr uint64_t steps_shown = 2;  ///< steps that the timeline shows

constexpr const char *head = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>rondo train</title>
<style>
:root { --ink: #1d2733; --dim: #667485; --line: #dfe5ec; --paper: #fff; --back: #f4f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eaf1; --dim: #93a1b1; --line: #313c49; --paper: #1b232d; --back: #12181f; } }
body { margin: 0 auto; max-width: 1060px; padding: 24px 16px 48px; background: var(--back); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 10px; } p { margin: 0; color: var(--dim); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px;
  margin-top: 16px; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin-top: 16px; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px;
  flex: 1 1 140px; box-sizing: border-box; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; } .tile span { color: var(--dim); }
.tile small { display: block; margin-top: 6px; color: var(--dim); font-size: 12px; line-height: 1.35; }
.wide { flex-basis: 100%; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--dim); font: 12px system-ui, sans-serif; }
.grid { stroke: var(--line); }
.key { display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 8px; color: var(--dim); }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--line); font-weight: normal; }
th { color: var(--dim); } td:first-child, th:first-child { text-align: left; }
</style></head><body>
<h1 id="title"></h1><p id="about"></p><div class="tiles" id="tiles"></div>
<section><h2>Loss</h2><div id="loss"></div></section>
<section><h2>Where a step's time goes (rank 0, medians)</h2><div id="breakdown"></div></section>
<section><h2>Timeline of the last steps</h2><div id="timeline"></div></section>
<section><h2>Overlap, measured in turns</h2><div id="overlap"></div></section>
<section><h2>Memory of rank 0</h2><div id="memory"></div></section>
)page";

constexpr const char *script = R"page(
const colours = {'data wait': '#9aa5b1', forward: '#3b82c4', backward: '#7a5cc2',
  'wait for stages': '#b9a27c', 'wait for gradients': '#e0a23a',
  optimizer: '#3fa37a', 'wait for parameters': '#c98a2b', bucket: '#d0524f',
  'exposed communication': '#e0a23a', 'late ranks': '#8f6f2f', other: '#c3ccd6'};
const byId = name => document.getElementById(name);
const round = (value, digits) => Number(value).toFixed(digits);
const ms = us => us >= 1000 ? round(us / 1000, us >= 100000 ? 0 : 1) + ' ms' : round(us, 0) + ' us';
const bits = nats => nats / Math.LN2;
const rect = (x, y, w, h, colour, title) =>
  `<rect x="${x}" y="${y}" width="${Math.max(w, .6)}" height="${h}" rx="2" fill="${colour}">
  <title>${title}</title></rect>`;
const key = names => '<div class="key">' + names.map(([name, colour]) =>
  `<span><i style="background:${colour}"></i>${name}</span>`).join('') + '</div>';

function drawHead() {
  byId('title').textContent = `${report.model}: ${report.ranks} rank${report.ranks > 1 ? 's' : ''}, ${report.mode}`;
  byId('about').textContent = `${report.parameters.toLocaleString('en')} parameters, ${report.steps.length} steps of ` +
    `${report.settings.samples_a_step} samples of ` +
    `${report.settings.context} bytes, ` +
    `${report.buckets} bucket${report.buckets > 1 ? 's' : ''} (compress ${report.settings.compress}), ` +
    `overlap ${report.settings.overlap ? 'on' : 'off'}` + (report.pipeline ? '; ' + report.pipeline.headline : '');
  byId('tiles').innerHTML = tiles.map(([big, small, meaning], at) =>
    `<div class="tile${report.overlap && at === 0 ? ' wide' : ''}"><b>${big}</b><span>${small}</span>` +
    `<small>${meaning}</small></div>`).join('');
}

function drawLoss() {
  const every = Math.max(1, Math.floor(report.loss.train.length / 800));
  const train = report.loss.train.filter((_, at) => at % every === 0).map(([step, loss]) => [step, bits(loss)]);
  const check = report.loss.validation.map(point => [point.step, point.bits_per_byte]);
  const all = train.concat(check), most = Math.max(...all.map(p => p[1])), least = Math.min(...all.map(p => p[1]));
  const steps = Math.max(...all.map(p => p[0])), room = (most - least) || 1;
  const x = step => 46 + 940 * step / steps, y = value => 14 + 220 * (most - value) / room;
  let out = '';
  for (let line = 0; line <= 4; line++) {
    const value = least + room * line / 4;
    out += `<line class="grid" x1="46" x2="986" y1="${y(value)}" y2="${y(value)}"/><text x="40" y="${y(value) + 4}"
      text-anchor="end">${round(value, 2)}</text>`;
    out += `<text x="${x(steps * line / 4)}" y="256" text-anchor="middle">${Math.round(steps * line / 4)}</text>`;
  }
  const points = train.map(p => x(p[0]) + ',' + y(p[1])).join(' ');
  out += `<polyline fill="none" stroke="#3b82c4" stroke-width="1.6" points="${points}"/>`;
  out += check.map(p => `<circle cx="${x(p[0])}" cy="${y(p[1])}" r="4" fill="#d0524f">
    <title>step ${p[0]}: ${round(p[1], 3)}</title></circle>`).join('');
  byId('loss').innerHTML = `<svg viewBox="0 0 1000 264">${out}</svg>` +
    key([['training, bits a byte by step', '#3b82c4'], ['validation', '#d0524f']]);
}

function drawBreakdown() {
  const time = report.time_us, late = Math.max(0, time.waiting - time.exposed);
  const parts = [['data wait', time.data_wait], ['forward', time.forward], ['backward', time.backward],
    ...(report.pipeline ? [['wait for stages', time.stage_wait]] : []),
    ['exposed communication', time.exposed], ['late ranks', late], ['optimizer', time.optimizer]];
  parts.push(['other', Math.max(0, time.step - parts.reduce((sum, [, us]) => sum + us, 0))]);
  let at = 0, out = '';
  for (const [name, us] of parts) {
    const wide = 1000 * us / time.step;
    out += rect(at, 4, wide, 40, colours[name], `${name}: ${ms(us)}`);
    at += wide;
  }
  byId('breakdown').innerHTML = `<svg viewBox="0 0 1000 48">${out}</svg>` + key(parts.map(([name, us]) =>
    [`${name} ${ms(us)}`, colours[name]])) + `<p style="margin-top:8px">Computation waited for
    ${ms(time.waiting)} of a step: ${ms(time.exposed)} for communication, and the rest for late ranks. Collectives were
    in flight for ${ms(time.in_flight)}: ${ms(time.communication)} of communication, and the rest for late ranks.</p>`;
}

function drawTimeline() {
  if (!spans.length || !spans[0].length) { byId('timeline').innerHTML = '<p>no steps were drawn</p>'; return; }
  const begin = Math.min(...spans.flat().map(s => s[2])), end = Math.max(...spans.flat().map(s => s[3]));
  const x = us => 110 + 880 * (us - begin) / (end - begin), lane = 22;
  let out = '', y = 8;
  spans.forEach((mine, rank) => {
    for (const bucket of [0, 1]) {
      out += `<text x="0" y="${y + 15}">${rank}: ${bucket ? 'communication' : 'computation'}</text>`;
      for (const [name, step, from, to, isBucket] of mine) if (isBucket === bucket)
        out += rect(x(from), y, x(to) - x(from), lane - 3, colours[bucket ? 'bucket' : name],
          `step ${step}, ${name}: ${ms(to - from)}`);
      y += lane;
    }
    y += 8;
  });
  for (let line = 0; line <= 4; line++)
    out += `<text x="${110 + 220 * line}" y="${y + 12}" text-anchor="${line < 4 ? 'middle' : 'end'}">
      ${ms((end - begin) * line / 4)}</text>`;
  byId('timeline').innerHTML = `<svg viewBox="0 0 1000 ${y + 18}">${out}</svg>` +
    key(['data wait', 'forward', 'backward', ...(report.pipeline ? ['wait for stages'] : []), 'wait for gradients',
      'optimizer', 'bucket'].map(name => [name, colours[name]]));
}

function drawTables() {
  const m = report.measurement, rows = [['computation alone', m.computation_us],
    ['backward pass in it that can hide communication', m.backward_us], ['communication alone', m.communication_us],
    ['gradients in it', m.gradients_us], ['step with overlap', m.step_overlap_us],
    ['step without', m.step_no_overlap_us], ['one rank alone', m.one_rank_alone_us],
    ['one large product', m.product_us]];
  const cells = x => x ? [x.median, x.min, x.max].map(v => `<td>${ms(v)}</td>`).join('') :
    '<td colspan="3">not measured</td>';
  byId('overlap').innerHTML = '<table><tr><th></th><th>median</th><th>least</th><th>most</th></tr>' +
    rows.map(([name, x]) => `<tr><td>${name}</td>${cells(x)}</tr>`).join('') + '</table>' +
    (report.overlap?.slowdown_text ? `<p style="margin-top:8px">Forward and backward beside communication, over the same
    alone: ${report.overlap.slowdown_text}.</p>` : '');
  byId('memory').innerHTML = '<table>' + Object.entries(report.memory_bytes).map(([name, bytes]) =>
    `<tr><td>${name.replace('_', ' ')}</td><td>${round(bytes / 1048576, 1)} MiB</td></tr>`).join('') + '</table>';
}
drawHead(); drawLoss(); drawBreakdown(); drawTimeline(); drawTables();
)page";

/// Returns the number with `digits` digits after the decimal point.
std::string decimal(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Returns [figure, name, meaning] for each tile.
json tiles_of(const json &report) {
  json tiles = json::array();
  const json &overlap = report["overlap"], &speedup = report["speedup"], &validation = report["loss"]["validation"];
  if (!overlap.is_null() && overlap["hidden_us"].is_null())
    tiles.push_back({overlap["headline"], "a step",
                     "Medians of steps that were made after the run, all ranks at once; of the slowest rank."});
  if (!overlap.is_null() && !overlap["hidden_us"].is_null())
    tiles.push_back({overlap["headline"], "what overlap gains",
                     "Medians of steps that were made in turns with and without overlap, after the run. In brackets: "
                     "the bounds of the difference with 95 % confidence. Where 0 is between these bounds, it is too "
                     "small to tell."});
  tiles.push_back({decimal(report["samples_per_second"], 1), "samples a second",
                   "Of all ranks together; in mode sync by the median step, without the first three."});
  if (!speedup.is_null())
    tiles.push_back({decimal(speedup, 2) + " ×", "one rank alone",
                     "How many times as fast as one rank alone, which was measured after the run without "
                     "communication."});
  if (!validation.empty())
    tiles.push_back({decimal(validation.back()["bits_per_byte"], 3), "validation, bits a byte",
                     "The loss on text that is not trained on. A guess among all bytes has 8, and less is better."});
  if (!overlap.is_null() && !overlap["efficiency_text"].is_null())
    tiles.push_back({overlap["efficiency_text"], "overlap efficiency",
                     "Overlap can hide the shorter one of the backward pass and the gradients' communication. This is "
                     "the share of that by which it shortens a step: 1 is all, 0 nothing. Where steps of one kind "
                     "differ by as much, it is too small to tell."});
  if (const json &rate = report["rate"]; !rate.is_null()) {
    const double median = rate["tflops"]["median"];
    tiles.push_back({decimal(median, median < 10 ? 3 : 0) + " TFLOP/s", "of a rank, in a step",
                     "The share of the rate of one large product, measured in turns with the steps: " +
                         rate["share_text"].get<std::string>() + "."});
  }
  tiles.push_back({decimal(report["bytes_on_wire"].get<double>() / 1'048'576, 2) + " MiB", "on the wire a step",
                   "What one rank hands to collectives in a step of mode sync."});
  return tiles;
}

/// Returns for each rank the spans [name, step, begin, end, 1 for a bucket], with times in microseconds.
json shown_spans(const Run &run) {
  uint64_t last = 0;
  for (const auto &of_rank : run.spans)
    for (const Span &span : of_rank) last = std::max(last, span.step);
  json ranks = json::array();
  for (const auto &of_rank : run.spans) {
    json mine = json::array();
    for (const Span &span : of_rank) {
      if (span.step + steps_shown <= last) continue;
      const bool bucket = is_communication(span.part);
      const std::string name = part_name(span.part) + (bucket ? " " + std::to_string(span.index) : std::string());
      mine.push_back({name, span.step, static_cast<double>(span.begin_ns) / 1e3, static_cast<double>(span.end_ns) / 1e3,
                      bucket ? 1 : 0});
    }
    ranks.push_back(std::move(mine));
  }
  return ranks;
}

}  // namespace

std::string to_page(const json &report, const Run &run) {
  return std::string(head) + "<script>\nconst report = " + report.dump() + ";\nconst spans = " +
         shown_spans(run).dump() + ";\nconst tiles = " + tiles_of(report).dump() + ";" + script +
         "</script></body></html>\n";
}

}  // namespace rondo::train
