// SPDX-License-Identifier: 0BSD
// The data of the page, read from the JSON block; its lists are flat to keep the file small.
const $ = (id) => document.getElementById(id);
addEventListener("error", (event) => {
  $("fault").hidden = false;
  $("fault").textContent = `The page has a fault, please report it: ${event.message}`;
});

const data = JSON.parse($("data").textContent);
const EVENTS = Math.max(1, data.events);
const ARENA = Math.max(1, data.arena);
const [PEAK_EVENT, PEAK_BYTES] = data.peak;
const format = (n) => Math.round(n).toLocaleString("en");

// Ops in bands have `chunk` and `block`; the last op of a block ends a band. Costs are predicted instructions.
const ops = data.ops.map(([name, kernel, output, rowCost, stepCost]) => ({ name, kernel, output, rowCost, stepCost, block: -1, chunk: "" }));
const blocks = data.blocks.map(([name, chunks, band, bands, own], block) => {
  const each = Math.floor(own.length / chunks);
  own.forEach((op, i) => Object.assign(ops[op], { block, chunk: chunks > 1 && i < each * chunks ? `chunk ${Math.floor(i / each) + 1} of ${chunks}` : "" }));
  return { label: `block ${name}`, chunks, band, bands, last: own[own.length - 1] };
});

// A long name without its middle: tensors differ at the ends of the names that converters give them.
function middle(name, length) {
  if (name.length <= length) return name;
  const tail = (length - 1) >> 1;
  return `${name.slice(0, length - 1 - tail)}…${name.slice(name.length - tail)}`;
}

// Converters join names with ";" into hundreds of characters; the first one says which tensor it is.
const firstName = (name) => middle(name.split(";")[0] || name, 60);

// A tensor of a chunk ends in "/1of4", which stays.
const chunkOf = (name) => (name.match(/\/\d+of\d+$/) || [""])[0];
const wholeName = (name) => name.slice(0, name.length - chunkOf(name).length);
const shortName = (name) => `${firstName(wholeName(name))}${chunkOf(name)}`;

const owners = data.owners.map(([name, kind, type, rows, bytes, op], i) => {
  const writer = op >= 0 ? ops[op].name : kind === "state" ? "the inference before" : "the input";
  const by = op < 0 ? "" : `${ops[op].name} ${ops[op].kernel}`;
  const [text, full] = [name.split(";")[0], name].map((part) => `${part} ${by}`.toLowerCase());
  const hue = (i * 137.508) % 360; // steps of the golden angle keep the hues of neighbours far apart
  return { name, short: shortName(name), kind, type, rows, bytes, op, writer, text, full, hue };
});

const rectangles = [];
for (let i = 0; i < data.rectangles.length; i += 5) {
  const [owner, row, address, first, last] = data.rectangles.slice(i, i + 5);
  rectangles.push({ owner, row, address, first, last, end: address + owners[owner].bytes, nth: 1, times: 1 });
}
for (let i = 0; i < data.over.length; i += 2) {
  const [above, below] = [rectangles[data.over[i]], rectangles[data.over[i + 1]]];
  const shared = Math.min(above.end, below.end) - Math.max(above.address, below.address);
  Object.assign(above, { over: below, shared });
  below.under = above;
}

// Rows that are computed several times; a scratch is not a row.
const ofRow = new Map();
for (const r of rectangles) {
  if (owners[r.owner].kind === "scratch") continue;
  const key = `${r.owner} ${r.row}`;
  ofRow.set(key, [...(ofRow.get(key) || []), r]);
}
for (const same of ofRow.values()) same.forEach((r, i) => Object.assign(r, { nth: i + 1, times: same.length }));
const again = new Set(rectangles.filter((r) => r.nth > 1).map((r) => r.first));
for (const r of rectangles) if (r.nth > 1) owners[r.owner].again = true;
for (const owner of owners) if (owner.again) owner.text += " recomputed";

const steps = [];
const spent = new Float64Array(EVENTS + 1); // predicted instructions before each event
const stepOf = new Uint32Array(EVENTS);
for (let i = 0, at = 0; i < data.steps.length; i += 3) {
  const [op, y0, y1] = data.steps.slice(i, i + 3);
  stepOf.fill(steps.length, at, at + y1 - y0);
  for (let row = at; row < at + y1 - y0; row++) spent[row + 1] = ops[op].rowCost + (row === at ? ops[op].stepCost : 0);
  const events = Array.from({ length: y1 - y0 }, (_, row) => at + row);
  steps.push({ op, y0, y1, first: at, last: at + y1 - y0 - 1, band: -1, again: events.some((event) => again.has(event)) });
  at += y1 - y0;
}
for (let i = 1; i <= EVENTS; i++) spent[i] += spent[i - 1];
const bandNow = blocks.map(() => -1);
for (const step of [...steps].reverse()) {
  const { block } = ops[step.op];
  if (block < 0) continue;
  if (step.op === blocks[block].last) bandNow[block] = Math.floor(step.y0 / blocks[block].band);
  step.band = bandNow[block];
}

const loads = new Float64Array(EVENTS + 1);
for (const r of rectangles) {
  loads[r.first] += owners[r.owner].bytes;
  loads[r.last + 1] -= owners[r.owner].bytes;
  if (!r.over) continue;
  loads[r.first] -= r.shared;
  loads[r.first + 1] += r.shared;
}
for (let i = 1; i <= EVENTS; i++) loads[i] += loads[i - 1];

// The texts by which a step is found: operator, kernel, output (of a joined name the first part, or all of it) and "recomputed".
function stepText(step, all) {
  const { name, kernel, output } = ops[step.op];
  return `${name} ${kernel} ${all ? output : output.split(";")[0]}${step.again ? " recomputed" : ""}`.toLowerCase();
}

// Rows "3", or "3 to 5" inclusive.
const range = (first, last) => (first === last ? `${first}` : `${first} to ${last}`);

const ordinal = (n) => `${n}${["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] || "th"}`;

// "chunk 2 of 4, band 3 of 8" of a step in a block.
function partOf(step) {
  const { block, chunk } = ops[step.op];
  if (block < 0) return "";
  const { bands } = blocks[block];
  return [chunk, bands > 1 ? `band ${step.band + 1} of ${bands}` : ""].filter(Boolean).join(", ");
}

// "12 (conv_2d_0)": the step of an event, for a tooltip.
const stepAt = (event) => (steps.length ? `${stepOf[event]} (${ops[steps[stepOf[event]].op].name})` : "0");

// What is live at an event: [owner, rows, bytes], most bytes first. Of a row that overwrites another, only the bytes beyond it count.
function aliveAt(event) {
  const found = new Map();
  for (const r of rectangles) {
    if (r.first > event || event > r.last) continue;
    const [rows, bytes] = found.get(r.owner) || [0, 0];
    found.set(r.owner, [rows + 1, bytes + owners[r.owner].bytes - (r.over && r.first === event ? r.shared : 0)]);
  }
  const list = [...found].map(([owner, [rows, bytes]]) => [owners[owner], rows, bytes]);
  return list.sort((a, b) => b[2] - a[2] || (a[0].name < b[0].name ? -1 : 1));
}

// Per owner, where its name is drawn: the middle row (by address) of those alive at its fullest moment, and the run
// of neighbouring rows around it.
function labelOf(index) {
  const own = rectangles.filter((r) => r.owner === index);
  const starts = own.map((r) => r.first);
  let best = [];
  for (const time of new Set(starts)) {
    const alive = own.filter((r) => r.first <= time && time <= r.last);
    if (alive.length > best.length) best = alive;
  }
  best.sort((a, b) => a.address - b.address);
  const middle = best[best.length >> 1];
  if (!middle) return null;
  const time = (middle.first + middle.last) / 2;
  let [low, high] = [middle.address, middle.end];
  const alive = own.filter((r) => r.first <= time && time <= r.last).sort((a, b) => a.address - b.address);
  const at = alive.indexOf(middle);
  for (let i = at - 1; i >= 0 && alive[i].end > low - 4; i--) low = alive[i].address;
  for (let i = at + 1; i < alive.length && alive[i].address < high + 4; i++) high = alive[i].end;
  return { row: middle, first: middle.first, last: middle.last + 1, low, high };
}
