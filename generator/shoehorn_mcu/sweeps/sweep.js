// SPDX-License-Identifier: 0BSD
// Filters, plots and the table of rows. The page's address keeps the filters: #model=kws&board=microbit&sort=time.
const $ = (id) => document.getElementById(id);
const { models, boards, units, columns, rows } = JSON.parse($("data").textContent);
const place = Object.fromEntries(columns.map((name, number) => [name, number]));
const get = (row, name) => row[place[name]];
const DONE = new Set(["planned", "written", "built", "validated", "measured"]);
const BAD = new Set(["mismatch", "failed"]);
const AT_ONCE = 300;
const HEADS = [
  ["model", "Model", "text"], ["board", "Board", "text"], ["options", "Options", "text"], ["status", "Status", "text"],
  ["arena_bytes", "Arena, bytes"], ["time", "Time"], ["unit", "Unit", "text"], ["ram_bytes", "RAM, bytes"],
  ["flash_bytes", "Flash, bytes"], ["stack_bytes", "Stack, bytes"], ["message", "What is wrong", "text long"],
];
const state = { model: "", board: "", status: "", search: "", sort: "model", down: false, shown: AT_ONCE };
const figure = (value) => (value === null ? "" : value.toLocaleString("en-US", { maximumFractionDigits: 0 }));
const colour = (model) => `hsl(${Math.round((model * 137.508) % 360)} 62% ${document.documentElement.dataset.theme === "dark" ? 64 : 42}%)`;

function cell(row, name) {
  if (name === "model") return models[get(row, "model")];
  if (name === "board") return boards[get(row, "board")];
  if (name === "unit") return DONE.has(get(row, "status")) ? units[get(row, "board")] : "";
  return get(row, name);
}

function chosen() {
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    if (state.model && models[get(row, "model")] !== state.model) return false;
    if (state.board && boards[get(row, "board")] !== state.board) return false;
    if (state.status && get(row, "status") !== state.status) return false;
    if (!words.length) return true;
    const text = ["model", "board", "options", "kind", "message"].map((name) => cell(row, name) || "").join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function sorted(found) {
  const sign = state.down ? -1 : 1;
  const key = (row) => cell(row, state.sort);
  return [...found].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === y) return DONE.has(get(b, "status")) - DONE.has(get(a, "status")); // what runs comes first
    if (x === null || x === "") return 1; // rows without a figure come last, whichever way
    if (y === null || y === "") return -1;
    return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
  });
}

function element(name, attributes = {}, text = "") {
  const made = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

// Only pages that Shoehorn wrote beside this one are linked to.
const link = (row) => (/^pages\/[0-9a-f-]+\.html$/.test(get(row, "page") || "") ? get(row, "page") : null);

function table(found) {
  const head = element("tr");
  for (const [name, title, kind] of HEADS) {
    const th = element("th", kind ? { class: "word", scope: "col" } : { scope: "col" });
    const button = element("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      state.down = state.sort === name ? !state.down : false;
      state.sort = name;
      draw();
    });
    if (state.sort === name) th.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    th.append(button);
    head.append(th);
  }
  $("rows").tHead.replaceChildren(head);
  const lines = sorted(found).slice(0, state.shown).map((row) => {
    const line = element("tr", BAD.has(get(row, "status")) ? { class: "bad" } : {});
    for (const [name, , kind] of HEADS) {
      const value = cell(row, name);
      const td = element("td", kind ? { class: kind } : {}, kind ? value || "" : figure(value));
      if (name === "options" && value) td.replaceChildren(...value.split(/ (?=--)/).flatMap((each) => [element("span", { class: "option" }, each), " "]));
      if (name === "message" && value) td.replaceChildren(element("div", { title: value }, value));
      if (name === "arena_bytes" && value !== null && link(row)) td.replaceChildren(element("a", { href: link(row) }, figure(value)));
      line.append(td);
    }
    return line;
  });
  $("rows").tBodies[0].replaceChildren(...lines);
  const left = found.length - lines.length;
  $("more").hidden = left <= 0;
  $("more").textContent = `Show ${Math.min(left, AT_ONCE).toLocaleString("en-US")} more of ${left.toLocaleString("en-US")}`;
}

const WIDE = 420, HIGH = 250, LEFT = 66, RIGHT = 12, TOP = 10, FOOT = HIGH - 34;
const ends = (values) => {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return least === most ? [least / 1.5, most * 1.5] : [least / 1.1, most * 1.1];
};
const ticks = ([from, to]) => {
  const found = [];
  const step = 10 ** Math.floor(Math.log10((to - from) / 3));
  const even = step * [1, 2, 5].findLast((times) => (to - from) / (step * times) >= 3 || times === 1);
  if (to / from < 3) for (let value = Math.ceil(from / even) * even; value <= to; value += even) found.push(value);
  else for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power++)
    for (const digit of to / from > 300 ? [1] : to / from > 12 ? [1, 3] : [1, 1.5, 2, 3, 5, 7])
      if (digit * 10 ** power >= from && digit * 10 ** power <= to) found.push(digit * 10 ** power);
  return found;
};
const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toPrecision(3)} M` : value >= 1e4 ? `${+(value / 1e3).toPrecision(3)} k` : `${+value.toPrecision(3)}`);

function front(dots) {
  const found = [];
  for (const dot of [...dots].sort((a, b) => a.x - b.x || a.y - b.y)) if (!found.length || dot.y < found[found.length - 1].y) found.push(dot);
  return found;
}

function plot(board, found) {
  const dots = found.filter((row) => get(row, "board") === board && DONE.has(get(row, "status")) && get(row, "time") > 0)
    .map((row) => ({ row, x: Math.max(1, get(row, "arena_bytes")), y: get(row, "time"), model: get(row, "model") }));
  if (!dots.length) return null;
  const [xs, ys] = [ends(dots.map((dot) => dot.x)), ends(dots.map((dot) => dot.y))];
  const x = (value) => LEFT + ((WIDE - LEFT - RIGHT) * Math.log(value / xs[0])) / Math.log(xs[1] / xs[0]);
  const y = (value) => FOOT - ((FOOT - TOP) * Math.log(value / ys[0])) / Math.log(ys[1] / ys[0]);
  const svg = element("svg:svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${boards[board]}: ${units[board]} against arena bytes; the table below has the figures` });
  for (const value of ticks(xs)) {
    svg.append(element("svg:line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: FOOT }));
    svg.append(element("svg:text", { class: "mid", x: x(value), y: FOOT + 15 }, short(value)));
  }
  for (const value of ticks(ys)) {
    svg.append(element("svg:line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(value), y2: y(value) }));
    svg.append(element("svg:text", { class: "end", x: LEFT - 6, y: y(value) + 4 }, short(value)));
  }
  svg.append(element("svg:text", { class: "mid", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 3 }, "arena, bytes"));
  for (const model of new Set(dots.map((dot) => dot.model))) {
    const line = front(dots.filter((dot) => dot.model === model));
    const path = line.map((dot, number) => `${number ? "H" : "M"}${x(dot.x)}${number ? "V" : " "}${y(dot.y)}`).join("");
    if (line.length > 1) svg.append(element("svg:path", { class: "front", d: path, style: `stroke: ${colour(model)}` }));
  }
  for (const dot of dots) {
    const circle = element("svg:circle", { cx: x(dot.x), cy: y(dot.y), r: 4, style: `fill: ${colour(dot.model)}` });
    const text = `${models[dot.model]}\n${get(dot.row, "options") || "no options"}\n${figure(dot.x)} bytes, ${figure(dot.y)} ${units[board]}, ${get(dot.row, "status")}`;
    circle.addEventListener("pointermove", (event) => showTip(event, text));
    circle.addEventListener("pointerleave", () => { $("tip").hidden = true; });
    circle.addEventListener("click", () => { if (link(dot.row)) location.href = link(dot.row); });
    svg.append(circle);
  }
  const made = element("figure");
  const caption = element("figcaption", {}, `${boards[board]} `);
  caption.append(element("small", {}, units[board]));
  made.append(caption, svg);
  return { made, models: dots.map((dot) => dot.model) };
}

function showTip(event, text) {
  const tip = $("tip");
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 12, window.innerHeight - tip.offsetHeight - 8)}px`;
}

function draw() {
  const found = chosen();
  $("count").textContent = `${found.length.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} rows`;
  const plots = boards.map((_, board) => plot(board, found)).filter(Boolean);
  $("plots").replaceChildren(...plots.map((each) => each.made));
  const seen = [...new Set(plots.flatMap((each) => each.models))].sort((a, b) => a - b);
  $("legend").replaceChildren(...seen.map((model) => {
    const item = element("li");
    item.append(element("span", { class: "swatch", style: `background: ${colour(model)}; border-color: ${colour(model)}` }), models[model]);
    return item;
  }));
  table(found);
  const kept = ["model", "board", "status", "search"].filter((name) => state[name]).map((name) => `${name}=${encodeURIComponent(state[name])}`);
  if (state.sort !== "model" || state.down) kept.push(`sort=${state.sort}${state.down ? "-" : ""}`);
  history.replaceState(null, "", kept.length ? `#${kept.join("&")}` : location.pathname + location.search);
}

function begin() {
  for (const part of location.hash.slice(1).split("&")) {
    const [name, value = ""] = part.split("=").map(decodeURIComponent);
    if (name === "theme") document.documentElement.dataset.theme = value === "dark" ? "dark" : "";
    else if (name === "sort" && HEADS.some(([known]) => known === value.replace(/-$/, ""))) [state.sort, state.down] = [value.replace(/-$/, ""), value.endsWith("-")];
    else if (["model", "board", "status", "search"].includes(name)) state[name] = value;
  }
  const statuses = [...new Set(rows.map((row) => get(row, "status")))].sort();
  for (const [id, names] of [["model", models], ["board", boards], ["status", statuses]]) {
    $(id).append(...names.map((name) => element("option", { value: name }, name)));
    if (![...$(id).options].some((option) => option.value === state[id])) state[id] = "";
    $(id).value = state[id];
    $(id).addEventListener("change", () => { state[id] = $(id).value; state.shown = AT_ONCE; draw(); });
  }
  $("search").value = state.search;
  $("search").addEventListener("input", () => { state.search = $("search").value; state.shown = AT_ONCE; draw(); });
  $("more").addEventListener("click", () => { state.shown += AT_ONCE; draw(); });
  const dark = () => document.documentElement.dataset.theme === "dark";
  const theme = (on) => { document.documentElement.dataset.theme = on ? "dark" : ""; $("theme").textContent = on ? "Light" : "Dark"; };
  theme(dark() || (!location.hash.includes("theme=") && matchMedia("(prefers-color-scheme: dark)").matches));
  $("theme").addEventListener("click", () => { theme(!dark()); draw(); });
  draw();
}

begin();
