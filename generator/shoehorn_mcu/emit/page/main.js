// SPDX-License-Identifier: 0BSD
// Input of the reader: mouse, keys, search, theme, and the options in the page's address (#search=conv&step=3&theme=dark&axis=time).
const tip = $("tip");
let drag = null;

function at(event) {
  const place = canvas.getBoundingClientRect();
  return [event.clientX - place.left, event.clientY - place.top];
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) / 400)));
  const [px, py] = at(event);
  if (event.shiftKey) zoom(factor, null, addressAt(py));
  else zoom(factor, placeAt(px), null);
}, { passive: false });

canvas.addEventListener("pointerdown", (event) => {
  drag = { from: at(event), last: at(event), moved: false };
  canvas.setPointerCapture(event.pointerId);
});

canvas.addEventListener("pointermove", (event) => {
  const [px, py] = at(event);
  if (!drag) return showTip(event, hit(px, py));
  drag.moved = drag.moved || Math.hypot(px - drag.from[0], py - drag.from[1]) > 4;
  if (!drag.moved) return undefined;
  tip.hidden = true;
  pan((drag.last[0] - px) / box.width, (py - drag.last[1]) / box.height);
  drag.last = [px, py];
  return undefined;
});

canvas.addEventListener("pointerup", (event) => {
  const [px] = at(event);
  const clicked = drag && !drag.moved && px >= LEFT && px <= LEFT + box.width && steps.length;
  drag = null;
  if (!clicked) return;
  const step = stepOf[Math.max(0, Math.min(EVENTS - 1, Math.floor(timeAt(px))))];
  choose(step);
  scrollTo(step);
});

canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

const rowOf = (r) => `row ${r.row} of ${owners[r.owner].short}`;

function begin(r) {
  if (owners[r.owner].op < 0) return "live from the start";
  const place = r.over ? `, in place: it overwrites ${rowOf(r.over)}` : "";
  return `computed in step ${stepAt(r.first)}${place}`;
}

function end(r) {
  if (["output", "state", "next state"].includes(owners[r.owner].kind) && r.last === EVENTS - 1) return "kept to the end";
  return `last used in step ${stepAt(r.last)}${r.under ? `, overwritten there by ${rowOf(r.under)}` : ""}`;
}

function showTip(event, r) {
  tip.hidden = !r;
  if (!r) return;
  const owner = owners[r.owner];
  const nth = r.nth > 1 ? `, recomputed, ${ordinal(r.nth)} of ${r.times}` : r.times > 1 ? `, 1st of ${r.times} times` : "";
  const what = owner.kind === "scratch" ? owner.name : `${owner.short}\n${owner.type}, row ${r.row} of ${owner.rows}${nth}`;
  const [from, to] = [begin(r), end(r)];
  tip.textContent = `${what}\n${format(owner.bytes)} bytes at ${format(r.address)} to ${format(r.end - 1)}\n${from}\n${to}`;
  const [left, top] = [event.clientX + 14, event.clientY + 14];
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${top + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 8 : top}px`;
}

function goToPeak() {
  if (!steps.length) return;
  choose(stepOf[PEAK_EVENT]);
  scrollTo(chosen.step);
}

const KEYS = {
  "+": () => zoom(0.7, middleTime(), null), "=": () => zoom(0.7, middleTime(), null), "-": () => zoom(1 / 0.7, middleTime(), null),
  0: showAll, p: goToPeak, t: switchAxis,
  ArrowLeft: () => pan(-0.2, 0), ArrowRight: () => pan(0.2, 0), ArrowUp: () => pan(0, 0.2), ArrowDown: () => pan(0, -0.2),
};
const LIST_KEYS = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };

canvas.addEventListener("keydown", (event) => {
  const act = KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});

stepList.addEventListener("keydown", (event) => {
  const by = LIST_KEYS[event.key];
  if (by === undefined) return;
  event.preventDefault();
  stepBy(by);
});

stepList.addEventListener("scroll", listSteps);
$("search").addEventListener("input", (event) => search(event.target.value));
$("in").addEventListener("click", KEYS["+"]);
$("out").addEventListener("click", KEYS["-"]);
$("fit").addEventListener("click", showAll);
$("peak").addEventListener("click", goToPeak);
$("axis").addEventListener("click", switchAxis);

function theme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  mix();
  listTensors();
  redraw();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const followSystem = () => theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", followSystem);
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

// Paper is white and shows everything.
let before = null;
addEventListener("beforeprint", () => {
  before = { theme: document.documentElement.dataset.theme, view: { ...view } };
  Object.assign(view, { t0: 0, t1: EVENTS, a0: 0, a1: ARENA });
  theme("light");
  draw();
});
addEventListener("afterprint", () => {
  Object.assign(view, before.view);
  theme(before.theme);
});

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if ((asked.get("axis") === "time") !== axis.timed) switchAxis();
  if (["light", "dark"].includes(asked.get("theme"))) theme(asked.get("theme"));
  if (asked.has("search")) $("search").value = asked.get("search");
  search($("search").value);
  const step = Number.parseInt(asked.get("step"), 10);
  if (step >= 0 && step < steps.length) {
    choose(step);
    scrollTo(step);
  }
}

followSystem();
readAddress();
addEventListener("hashchange", readAddress);
new ResizeObserver(() => {
  draw();
  listSteps();
}).observe(canvas);
draw();
document.documentElement.dataset.ready = "yes";
