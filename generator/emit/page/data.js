// What the page shows, read from the JSON block; lists there are flat to keep the file small.
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

const ops = data.ops.map(([name, kernel, output]) => ({ name, kernel, output }));

// Converters join names with ";" into hundreds of characters; the first one says which tensor it is.
function shortName(name) {
  const first = name.split(";")[0] || name;
  return first.length > 60 ? `${first.slice(0, 59)}…` : first;
}

const owners = data.owners.map(([name, kind, type, rows, bytes, op], i) => {
  const writer = op < 0 ? "the input" : ops[op].name;
  const by = op < 0 ? "" : `${ops[op].name} ${ops[op].kernel}`;
  const [text, full] = [name.split(";")[0], name].map((part) => `${part} ${by}`.toLowerCase());
  const hue = (i * 137.508) % 360; // steps of the golden angle keep the hues of neighbours far apart
  return { name, short: shortName(name), kind, type, rows, bytes, op, writer, text, full, hue };
});

const rectangles = [];
for (let i = 0; i < data.rectangles.length; i += 5) {
  const [owner, row, address, first, last] = data.rectangles.slice(i, i + 5);
  rectangles.push({ owner, row, address, first, last, end: address + owners[owner].bytes });
}

const steps = [];
const stepOf = new Uint32Array(EVENTS);
for (let i = 0, at = 0; i < data.steps.length; i += 3) {
  const [op, y0, y1] = data.steps.slice(i, i + 3);
  stepOf.fill(steps.length, at, at + y1 - y0);
  steps.push({ op, y0, y1, first: at, last: at + y1 - y0 - 1 });
  at += y1 - y0;
}

const loads = new Float64Array(EVENTS + 1);
for (const r of rectangles) {
  loads[r.first] += owners[r.owner].bytes;
  loads[r.last + 1] -= owners[r.owner].bytes;
}
for (let i = 1; i <= EVENTS; i++) loads[i] += loads[i - 1];

// What a step is found by: its operator, kernel and output, of a joined name the first part or all of it.
function stepText(step, all) {
  const { name, kernel, output } = ops[step.op];
  return `${name} ${kernel} ${all ? output : output.split(";")[0]}`.toLowerCase();
}

// Rows "3", or "3 to 5" inclusive.
const range = (first, last) => (first === last ? `${first}` : `${first} to ${last}`);

// "12 (conv_2d_0)": the step of an event, for a tooltip.
const stepAt = (event) => (steps.length ? `${stepOf[event]} (${ops[steps[stepOf[event]].op].name})` : "0");

// What lives at an event: [owner, rows, bytes], most bytes first.
function aliveAt(event) {
  const found = new Map();
  for (const r of rectangles) {
    if (r.first <= event && event <= r.last) found.set(r.owner, (found.get(r.owner) || 0) + 1);
  }
  const list = [...found].map(([owner, rows]) => [owners[owner], rows, rows * owners[owner].bytes]);
  return list.sort((a, b) => b[2] - a[2] || (a[0].name < b[0].name ? -1 : 1));
}

// Per owner, where its name may stand: the middle row (by address) of those alive at its fullest moment, and the run
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
