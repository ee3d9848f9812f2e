// SPDX-License-Identifier: Apache-2.0
// report.html: the figures as one page. Its data stand in it, so it needs no network and can be sent to somebody.
#include <nlohmann/json.hpp>

#include "bench/trainer/report/report.h"

namespace rondo::train {
namespace {

using nlohmann::json;

constexpr uint64_t steps_shown = 2;  ///< of the timeline

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
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 16px; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 12px 14px; }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; } .tile span { color: var(--dim); }
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
const colours = {'data wait': '#9aa5b1', forward: '#3b82c4', backward: '#7a5cc2', 'wait for gradients': '#e0a23a',
  optimizer: '#3fa37a', 'wait for parameters': '#c98a2b', bucket: '#d0524f', exposed: '#e0a23a', other: '#c3ccd6'};
const byId = name => document.getElementById(name);
const round = (value, digits) => Number(value).toFixed(digits);
const ms = us => us >= 1000 ? round(us / 1000, us >= 100000 ? 0 : 1) + ' ms' : round(us, 0) + ' µs';
const bits = nats => nats / Math.LN2;
const spread = (x, show) => x ? `${show(x.median)} (${show(x.min)} to ${show(x.max)})` : 'not measured';
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
    `overlap ${report.settings.overlap ? 'on' : 'off'}`;
  const last = report.loss.validation.at(-1), time = report.time_us;
  const hidden = time.communication > 0 ? time.hidden / time.communication : 0;
  const tiles = [[round(report.samples_per_second, 1), 'samples a second'],
    [report.speedup ? round(report.speedup, 2) + ' ×' : '–', 'one rank alone'],
    [last ? round(last.bits_per_byte, 3) : '–', 'validation, bits a byte'],
    [round(100 * hidden, 0) + ' %', 'of communication hidden'],
    [report.overlap_efficiency ? round(report.overlap_efficiency.median, 2) : '–', 'overlap efficiency'],
    [round(report.bytes_on_wire / 1048576, 2) + ' MiB', 'on the wire a step']];
  byId('tiles').innerHTML = tiles.map(([big, small]) =>
    `<div class="tile"><b>${big}</b><span>${small}</span></div>`).join('');
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
  const time = report.time_us, named = ['data_wait', 'forward', 'backward', 'exposed', 'optimizer'];
  const other = Math.max(0, time.step - named.reduce((sum, name) => sum + time[name], 0));
  const parts = named.map(name => [name.replace('_', ' '), time[name]]).concat([['other', other]]);
  let at = 0, out = '';
  for (const [name, us] of parts) {
    const wide = 1000 * us / time.step;
    out += rect(at, 4, wide, 40, colours[name], `${name}: ${ms(us)}`);
    at += wide;
  }
  byId('breakdown').innerHTML = `<svg viewBox="0 0 1000 48">${out}</svg>` + key(parts.map(([name, us]) =>
    [`${name} ${ms(us)}`, colours[name]])) + `<p style="margin-top:8px">A step takes ${ms(time.step)}. Communication
    takes ${ms(time.communication)} of it, ${ms(time.hidden)} hidden behind computation.</p>`;
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
    key(['data wait', 'forward', 'backward', 'wait for gradients', 'optimizer', 'bucket'].map(
      name => [name, colours[name]]));
}

function drawTables() {
  const m = report.measurement, rows = [['computation alone', m.computation_us],
    ['communication alone', m.communication_us], ['step with overlap', m.step_overlap_us],
    ['step without', m.step_no_overlap_us], ['one rank alone', m.one_rank_alone_us]];
  const cells = x => x ? [x.median, x.min, x.max].map(v => `<td>${ms(v)}</td>`).join('') :
    '<td colspan="3">not measured</td>';
  byId('overlap').innerHTML = '<table><tr><th></th><th>median</th><th>least</th><th>most</th></tr>' +
    rows.map(([name, x]) => `<tr><td>${name}</td>${cells(x)}</tr>`).join('') + '</table>' +
    `<p style="margin-top:8px">Overlap efficiency ${spread(report.overlap_efficiency, v => round(v, 2))}; forward and
    backward take ${spread(report.compute_slowdown, v => round(v, 2))} times as long beside communication.</p>`;
  byId('memory').innerHTML = '<table>' + Object.entries(report.memory_bytes).map(([name, bytes]) =>
    `<tr><td>${name.replace('_', ' ')}</td><td>${round(bytes / 1048576, 1)} MiB</td></tr>`).join('') + '</table>';
}
drawHead(); drawLoss(); drawBreakdown(); drawTimeline(); drawTables();
)page";

/// Of each rank, [name, step, begin, end, 1 for a bucket], times in microseconds.
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
         shown_spans(run).dump() + ";" + script + "</script></body></html>\n";
}

}  // namespace rondo::train
