// SPDX-License-Identifier: 0BSD
// The lists beside the picture, and the sentence about the selected step.
const ROW = 24; // pixels, as in the style
const stepList = $("steps");

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const tensorItems = owners.map((owner, i) => {
  const swatch = element("span", { class: "swatch" });
  const size = owner.kind === "scratch" ? format(owner.bytes) : format(owner.rows * owner.bytes);
  const note = owner.kind === "tensor" ? chunkOf(owner.name).slice(1) : owner.kind === "scratch" ? "" : owner.kind;
  const label = `${owner.name}: ${owner.type} ${owner.kind}, ${size} bytes, written by ${owner.writer}`;
  const button = element("button", { type: "button", title: label, "aria-pressed": "false" }, swatch,
    element("span", { class: "name" }, firstName(wholeName(owner.name))), element("span", {}, note), element("span", {}, size));
  button.addEventListener("click", () => {
    $("search").value = chosen.query === owner.name ? "" : owner.name;
    search($("search").value);
  });
  const item = element("li", {}, button);
  $("tensors").append(item);
  return { item, button, swatch, i };
});

const blockItems = blocks.map(({ label, chunks, band, bands }, i) => {
  const how = `${chunks > 1 ? `${chunks} chunks` : "whole"}, ${bands > 1 ? `${bands} bands of ${band} rows` : "one band"}`;
  const button = element("button", { type: "button", title: `${label}: ${how}`, "aria-pressed": "false" },
    element("span", { class: "name" }, label), element("span", {}, how.replace(" of 1 rows", " of 1 row")));
  button.addEventListener("click", () => {
    $("search").value = chosen.query === label ? "" : label;
    search($("search").value);
    if (chosen.steps) scrollTo(chosen.steps[0]);
  });
  const item = element("li", {}, button);
  $("blocks").append(item);
  return { item, button, i };
});
$("blocks-part").hidden = !blocks.length;
$("hatched").hidden = !again.size;

function listBlocks() {
  const found = new Set((chosen.steps || []).map((step) => ops[steps[step].op].block));
  for (const { item, button, i } of blockItems) {
    item.hidden = Boolean(chosen.steps) && !found.has(i);
    button.setAttribute("aria-pressed", String(blocks[i].label === chosen.query));
  }
}

function listTensors() {
  for (const { item, button, swatch, i } of tensorItems) {
    item.hidden = Boolean(chosen.owners) && !chosen.owners[i];
    button.setAttribute("aria-pressed", String(owners[i].name === chosen.query));
    swatch.style.background = paint.fill[i];
    swatch.style.borderColor = paint.edge[i];
  }
}

const listed = () => chosen.steps || [...steps.keys()];

// Only the rows in sight exist: a plan has up to some ten thousand steps.
function listSteps() {
  const shown = listed();
  $("spacer").style.height = `${shown.length * ROW}px`;
  for (const old of stepList.querySelectorAll(".row")) old.remove();
  const first = Math.max(0, Math.floor(stepList.scrollTop / ROW) - 4);
  const last = Math.min(shown.length, first + Math.ceil(stepList.clientHeight / ROW) + 8);
  const peak = steps.length ? stepOf[PEAK_EVENT] : -1;
  for (let place = first; place < last; place++) {
    const number = shown[place];
    const step = steps[number];
    const { op, y0, y1 } = step;
    const notes = [`${ops[op].name} (${ops[op].kernel})`, partOf(step), step.again && "recomputed", number === peak && "the peak"];
    const row = element("div", { class: number === peak ? "row peak" : "row", role: "option", id: `step-${number}`,
      "aria-selected": String(number === chosen.step), "aria-posinset": place + 1, "aria-setsize": shown.length,
      title: notes.filter(Boolean).join(", ") },
      element("span", { class: "number" }, String(number)), element("span", { class: "name" }, ops[op].name),
      element("span", { class: "note" }, step.band >= 0 && blocks[ops[op].block].bands > 1 ? `band ${step.band + 1}` : ""),
      element("span", { class: "note" }, step.again ? "recomputed" : ""),
      element("span", {}, y1 - y0 === 1 ? `row ${y0}` : `rows ${y0}–${y1 - 1}`));
    row.style.top = `${place * ROW}px`;
    row.addEventListener("click", () => choose(number));
    stepList.append(row);
  }
  if (chosen.step >= 0) stepList.setAttribute("aria-activedescendant", `step-${chosen.step}`);
}

function listAll() {
  listBlocks();
  listTensors();
  listSteps();
  const found = chosen.owners && chosen.owners.filter(Boolean).length;
  const words = (n, word) => `${format(n)} ${word}${n === 1 ? "" : "s"}`;
  $("count").textContent = chosen.owners ? `${words(found, "tensor")}, ${words(chosen.steps.length, "step")}` : "";
}

// Scrolls the list so that a step of it is in sight.
function scrollTo(number) {
  const place = listed().indexOf(number);
  if (place < 0) return;
  const [top, high] = [place * ROW, stepList.clientHeight];
  if (top < stepList.scrollTop || top + ROW > stepList.scrollTop + high) stepList.scrollTop = top - high / 2;
  listSteps();
}

// The step that is `by` places further in the list.
function stepBy(by) {
  const shown = listed();
  if (!shown.length) return;
  const at = shown.indexOf(chosen.step);
  const next = Math.min(shown.length - 1, Math.max(0, at + by));
  choose(shown[next]);
  scrollTo(shown[next]);
}

function showDetail() {
  const detail = $("detail");
  detail.replaceChildren();
  if (chosen.step < 0) return;
  const step = steps[chosen.step];
  const { op, y0, y1, first, last } = step;
  let fullest = first;
  for (let t = first; t <= last; t++) if (loads[t] > loads[fullest]) fullest = t;
  const { name, kernel, output } = ops[op];
  const ends = { push_row: "accepts", on_row: "hands out" };
  const does = ends[kernel] || (step.again ? "recomputes" : "computes");
  const rows = `row${y1 - y0 === 1 ? "" : "s"} ${range(y0, y1 - 1)} of ${shortName(output)}`;
  const part = partOf(step);
  const within = ops[op].block < 0 ? "" : `, in ${blocks[ops[op].block].label}${part && `, ${part}`}`;
  const where = `Step ${chosen.step}: ${name} (${kernel}) ${does} ${rows}${within}.`;
  const alive = aliveAt(fullest).map(([o, count, bytes]) =>
    o.kind === "scratch" ? `${o.name} ${format(bytes)}` : `${o.short} ${format(bytes)} (${count} of ${o.rows} rows)`);
  detail.append(element("p", {}, element("strong", {}, where)),
    element("p", {}, `${format(loads[fullest])} bytes are live: ${alive.join("; ")}.`));
}
