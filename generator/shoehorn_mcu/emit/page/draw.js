// SPDX-License-Identifier: 0BSD
// The picture: addresses upwards, time to the right, and below it how many bytes are live.
const canvas = $("arena");
const LEFT = 72, TOP = 22, RIGHT = 12, BOTTOM = 42, STRIP = 64, GAP = 14;
const box = { width: 0, height: 0 }; // of the plot, in CSS pixels
const labels = owners.map((owner, i) => (owner.kind === "scratch" ? null : labelOf(i)));
let paint = {};
let asked = false;

function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

const xOf = (place) => LEFT + ((place - view.t0) / (view.t1 - view.t0)) * box.width; // of a place on the axis
const x = (rows) => xOf(onAxis(rows));
const y = (address) => TOP + box.height - ((address - view.a0) / (view.a1 - view.a0)) * box.height;
const placeAt = (px) => view.t0 + ((px - LEFT) / box.width) * (view.t1 - view.t0);
const timeAt = (px) => inRows(placeAt(px));
const addressAt = (py) => view.a0 + ((TOP + box.height - py) / box.height) * (view.a1 - view.a0);

// Colours of the theme that is on.
function mix() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  paint = { bg: get("--bg"), fg: get("--fg"), muted: get("--muted"), line: get("--line"), peak: get("--peak"), mark: get("--mark") };
  const [s, fill, edge] = ["--fill-s", "--fill-l", "--edge-l"].map(get);
  paint.fill = owners.map((o) => (o.kind === "scratch" ? get("--scratch") : `hsl(${o.hue} ${s} ${fill})`));
  paint.hatch = hatch(paint.bg);
  paint.edge = owners.map((o) => (o.kind === "scratch" ? get("--scratch") : `hsl(${o.hue} ${s} ${edge})`));
}

// Slanting lines, for recomputed rows.
function hatch(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const g = tile.getContext("2d");
  g.strokeStyle = colour;
  g.lineWidth = 1.5;
  g.beginPath();
  for (const shift of [-6, 0, 6]) {
    g.moveTo(shift - 1, 7);
    g.lineTo(shift + 7, -1);
  }
  g.stroke();
  return g.createPattern(tile, "repeat");
}

function draw() {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: wide, clientHeight: high } = canvas;
  canvas.width = Math.round(wide * scale);
  canvas.height = Math.round(high * scale);
  Object.assign(box, { width: wide - LEFT - RIGHT, height: high - TOP - BOTTOM - STRIP - GAP });
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.fillStyle = paint.bg;
  g.fillRect(0, 0, wide, high);
  g.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  g.textBaseline = "middle";
  drawAxes(g);
  clipped(g, TOP, box.height, () => {
    drawRectangles(g);
    drawStep(g, TOP, box.height);
    drawLabels(g);
  });
  drawRuns(g);
  drawLoads(g);
  drawPeak(g);
}

function clipped(g, top, height, body) {
  g.save();
  g.beginPath();
  g.rect(LEFT, top, box.width, height);
  g.clip();
  body();
  g.restore();
}

// A distance of 1, 2 or 5 times a power of ten that gives about `count` ticks.
function tick(span, count) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, span / count)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => span / n <= count) || power;
}

function drawAxes(g) {
  const foot = TOP + box.height + GAP + STRIP;
  g.lineWidth = 1;
  g.strokeStyle = paint.line;
  g.fillStyle = paint.muted;
  g.textAlign = "right";
  const bytes = tick(view.a1 - view.a0, 9);
  for (let a = Math.ceil(view.a0 / bytes) * bytes; a <= view.a1; a += bytes) {
    g.fillText(format(a), LEFT - 8, y(a));
    line(g, LEFT, y(a), LEFT + box.width, y(a));
  }
  g.textAlign = "center";
  drawTimes(g, foot);
  g.textAlign = "left";
  g.fillText("address", 8, 10);
  g.fillText("rows →", 8, foot + 12);
  g.fillText("time →", 8, foot + 28);
}

// Both scales: round numbers of the scale in which the axis is linear, and the value of the other at each.
function drawTimes(g, foot) {
  const unit = axis.timed ? spent[EVENTS] / EVENTS : 1; // of the linear scale, in one unit of the axis
  const apart = tick((view.t1 - view.t0) * unit, Math.max(2, box.width / 90));
  for (let n = Math.ceil((view.t0 * unit) / apart) * apart; n <= view.t1 * unit; n += apart) {
    const at = xOf(n / unit);
    const rows = axis.timed ? inRows(n / unit) : n;
    line(g, at, TOP, at, foot);
    const place = Math.min(at, LEFT + box.width - 16);
    g.fillText(format(rows), place, foot + 12);
    g.fillText(instructions(axis.timed ? n : spent[Math.min(EVENTS, Math.max(0, rows))]), place, foot + 28);
  }
}

// "1.2M" of 1,234,567 instructions.
function instructions(count) {
  const [unit, mark] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => count >= size) || [1, ""];
  return `${(count / unit).toPrecision(count < unit * 100 ? 2 : 3)}${mark}`.replace(/^0\.0$/, "0");
}

function line(g, x0, y0, x1, y1) {
  g.beginPath();
  g.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  g.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  g.stroke();
}

const seen = (r) => onAxis(r.last + 1) >= view.t0 && onAxis(r.first) <= view.t1 && r.end >= view.a0 && r.address <= view.a1;

function drawRectangles(g) {
  for (const wanted of chosen.owners ? [false, true] : [true]) {
    g.globalAlpha = wanted ? 1 : 0.16;
    for (const r of rectangles) {
      if ((chosen.owners && chosen.owners[r.owner] !== wanted) || !seen(r)) continue;
      const [left, top] = [x(r.first), y(r.end)];
      const [wide, high] = [Math.max(0.8, x(r.last + 1) - left), Math.max(0.8, y(r.address) - top)];
      g.fillStyle = paint.fill[r.owner];
      g.fillRect(left, top, wide, high);
      if (r.nth > 1 && wide >= 2) {
        g.fillStyle = paint.hatch;
        g.fillRect(left, top, wide, high);
      }
      if (wide < 4 || high < 4) continue;
      g.strokeStyle = paint.edge[r.owner];
      g.strokeRect(left + 0.5, top + 0.5, wide - 1, high - 1);
    }
  }
  g.globalAlpha = 1;
}

function drawLabels(g) {
  g.textAlign = "center";
  g.fillStyle = paint.fg;
  labels.forEach((at, i) => {
    if (!at || (chosen.owners && !chosen.owners[i])) return;
    const [left, right] = [Math.max(LEFT, x(at.first)), Math.min(LEFT + box.width, x(at.last))];
    const own = at.row.end - at.row.address;
    const [high, low] = y(0) - y(own) < 13 ? [at.high, at.low] : [at.row.end, at.row.address];
    const [top, bottom] = [Math.max(TOP, y(high)), Math.min(TOP + box.height, y(low))];
    if (bottom - top < 13 || right - left < 24) return;
    const name = shortened(g, owners[i].short, right - left - 6);
    if (name) g.fillText(name, (left + right) / 2, (top + bottom) / 2);
  });
}

// The name, or its two ends, or nothing where there is too little room.
function shortened(g, name, width) {
  for (let keep = Math.min(name.length, 60); keep >= 6 || keep === name.length; keep--) {
    const text = middle(name, keep);
    if (g.measureText(text).width <= width) return text;
  }
  return "";
}

function drawStep(g, top, height) {
  if (chosen.step < 0) return;
  const { first, last } = steps[chosen.step];
  const [left, right] = [x(first), Math.max(x(first) + 2, x(last + 1))];
  g.globalAlpha = 0.2;
  g.fillStyle = g.strokeStyle = paint.mark;
  g.fillRect(left, top, right - left, height);
  g.globalAlpha = 1;
  for (const side of [left, right]) line(g, side, top, side, top + height);
}

// The strip between the picture and the loads: when the steps that match the search run, or else those of blocks.
function drawRuns(g) {
  const wanted = chosen.steps || [...steps.keys()].filter((i) => ops[steps[i].op].block >= 0);
  g.fillStyle = chosen.steps ? paint.mark : paint.muted;
  clipped(g, TOP + box.height, GAP, () => {
    for (let i = 0, last; i < wanted.length; i = last + 1) {
      for (last = i; last + 1 < wanted.length && wanted[last + 1] === wanted[last] + 1; ) last += 1;
      const left = x(steps[wanted[i]].first);
      g.fillRect(left, TOP + box.height + 4, Math.max(1, x(steps[wanted[last]].last + 1) - left), 6);
    }
  });
}

function drawLoads(g) {
  const [top, foot] = [TOP + box.height + GAP, TOP + box.height + GAP + STRIP];
  clipped(g, top - 1, STRIP + 2, () => {
    drawStep(g, top, STRIP);
    const [from, to] = [Math.max(0, Math.floor(inRows(view.t0))), Math.min(EVENTS, Math.ceil(inRows(view.t1)))];
    g.beginPath();
    g.moveTo(x(from), foot);
    for (let t = from; t < to; t++) {
      const level = foot - (loads[t] / ARENA) * STRIP;
      g.lineTo(x(t), level);
      g.lineTo(x(t + 1), level);
    }
    g.lineTo(x(to), foot);
    g.globalAlpha = 0.4;
    g.fillStyle = paint.muted;
    g.fill();
    g.globalAlpha = 1;
    g.strokeStyle = paint.muted;
    g.stroke();
  });
  g.fillStyle = paint.muted;
  g.textAlign = "right";
  g.fillText("live", LEFT - 8, foot - STRIP / 2);
}

function drawPeak(g) {
  const at = x(PEAK_EVENT + 0.5);
  if (at < LEFT || at > LEFT + box.width) return;
  g.strokeStyle = g.fillStyle = paint.peak;
  g.setLineDash([4, 3]);
  line(g, at, TOP - 4, at, TOP + box.height + GAP + STRIP);
  g.setLineDash([]);
  const text = `peak: ${format(PEAK_BYTES)} bytes, step ${steps.length ? stepOf[PEAK_EVENT] : 0}`;
  const half = g.measureText(text).width / 2;
  g.textAlign = "center";
  g.fillText(text, Math.max(LEFT + half, Math.min(LEFT + box.width - half, at)), 9);
}

// The rectangle at a place of the canvas; the one drawn last is on top.
function hit(px, py) {
  const [time, address] = [timeAt(px), addressAt(py)];
  if (px < LEFT || px > LEFT + box.width || py < TOP || py > TOP + box.height) return null;
  const inside = (r) => r.first <= time && time < r.last + 1 && r.address <= address && address < r.end;
  return rectangles.findLast(inside) || null;
}
