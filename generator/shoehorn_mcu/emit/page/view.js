// SPDX-License-Identifier: 0BSD
// The part of the time axis and of the addresses that is in sight, and the selection of the reader.
const view = { t0: 0, t1: EVENTS, a0: 0, a1: ARENA };
// The time axis has EVENTS units. They are rows, or equal parts of the predicted time.
const axis = { timed: false };

// A place on the axis for a moment between 0 and EVENTS, given in rows.
function onAxis(rows) {
  if (!axis.timed || !spent[EVENTS]) return rows;
  const event = Math.min(EVENTS - 1, Math.max(0, Math.floor(rows)));
  return ((spent[event] + (rows - event) * (spent[event + 1] - spent[event])) / spent[EVENTS]) * EVENTS;
}

// The moment in rows at a place on the axis.
function inRows(place) {
  if (!axis.timed || !spent[EVENTS]) return place;
  const wanted = (place / EVENTS) * spent[EVENTS];
  let [low, high] = [0, EVENTS - 1];
  while (low < high) {
    const half = (low + high + 1) >> 1;
    if (spent[half] <= wanted) low = half;
    else high = half - 1;
  }
  const cost = spent[low + 1] - spent[low];
  return low + (cost > 0 ? Math.min(1, (wanted - spent[low]) / cost) : 0);
}
const chosen = { query: "", owners: null, steps: null, step: -1 };

// Keeps [low, high) within [0, whole] and no narrower than `least`.
function within(low, high, whole, least) {
  const width = Math.min(whole, Math.max(least, high - low));
  const start = Math.min(Math.max(0, (low + high - width) / 2), whole - width);
  return [start, start + width];
}

function see(t0, t1, a0, a1) {
  [view.t0, view.t1] = within(t0, t1, EVENTS, Math.min(EVENTS, 4));
  [view.a0, view.a1] = within(a0, a1, ARENA, Math.min(ARENA, 32));
  redraw();
}

const showAll = () => see(0, EVENTS, 0, ARENA);

// Zooms by `factor` (below 1: closer) about a time and an address; null leaves that axis as it is.
function zoom(factor, time, address) {
  const about = (low, high, at) => (at === null ? [low, high] : [at - (at - low) * factor, at + (high - at) * factor]);
  see(...about(view.t0, view.t1, time), ...about(view.a0, view.a1, address));
}

// Switches the axis between rows and predicted time; all of it comes into sight.
function switchAxis() {
  axis.timed = !axis.timed;
  $("axis").setAttribute("aria-pressed", String(axis.timed));
  showAll();
}

const middleTime = () => (view.t0 + view.t1) / 2;

// Moves by fractions of the visible range; its width stays.
function pan(times, addresses) {
  const dt = Math.min(EVENTS - view.t1, Math.max(-view.t0, times * (view.t1 - view.t0)));
  const da = Math.min(ARENA - view.a1, Math.max(-view.a0, addresses * (view.a1 - view.a0)));
  see(view.t0 + dt, view.t1 + dt, view.a0 + da, view.a1 + da);
}

// Brings events [first, last] into sight.
function reveal(firstEvent, lastEvent) {
  const [first, last] = [onAxis(firstEvent), onAxis(lastEvent + 1) - 1];
  if (first >= view.t0 && last + 1 <= view.t1) return redraw();
  const half = Math.max(view.t1 - view.t0, 1.2 * (last + 1 - first)) / 2;
  const middle = (first + last + 1) / 2;
  const start = Math.min(Math.max(0, middle - half), Math.max(0, EVENTS - 2 * half));
  return see(start, start + 2 * half, view.a0, view.a1);
}

// A tensor's exact name means that tensor alone, a block's label that block. Otherwise all words have to occur in its name, operator or kernel; only
// where nothing has them, all parts of joined names are looked at.
function search(query) {
  chosen.query = query.trim();
  const words = chosen.query.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (text) => words.every((word) => text.includes(word));
  const exact = owners.filter((o) => o.name === chosen.query);
  const block = exact.length ? -1 : blocks.findIndex((b) => b.label === chosen.query);
  const all = !owners.some((o) => holds(o.text)) && !steps.some((step) => holds(stepText(step, false)));
  const wanted = (o) => (exact.length ? exact.includes(o) : block >= 0 ? o.op >= 0 && ops[o.op].block === block : holds(all ? o.full : o.text));
  const runs = (step) => (exact.length ? exact.some((o) => o.op === step.op) : block >= 0 ? ops[step.op].block === block : holds(stepText(step, all)));
  chosen.owners = words.length ? owners.map(wanted) : null;
  chosen.steps = words.length ? [...steps.keys()].filter((i) => runs(steps[i])) : null;
  listAll();
  redraw();
}

function choose(step) {
  chosen.step = step;
  showDetail();
  listAll();
  if (step >= 0) reveal(steps[step].first, steps[step].last);
}
