// A reader of the page, for test_page.py: the body of an async function that gives what was seen.
const $ = (id) => document.getElementById(id);
const { ready } = document.documentElement.dataset;
const said = { ready, fault: $("fault").hidden, count: [], hits: [], steps: [] };
const paints = () => new Promise((done) => setTimeout(done, 50));
const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colours = () => {
  const canvas = $("arena");
  Object.assign(copy.canvas, { width: canvas.width, height: canvas.height });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  const words = new Uint32Array(data.buffer);
  return [new Set(words).size, words.reduce((sum, n, i) => (sum * 31 + n) >>> 0, 7)];
};
const look = async (name) => {
  await paints();
  [said.colours, said[name]] = colours();
};
const type = (text) => {
  $("search").value = text;
  $("search").dispatchEvent(new Event("input"));
  said.count.push($("count").textContent);
};
const key = (target, name) => $(target).dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
const place = $("arena").getBoundingClientRect();
const mouse = (kind, x, y) => $("arena").dispatchEvent(new PointerEvent(kind,
  { clientX: place.left + x * place.width, clientY: place.top + y * place.height, pointerId: 1, bubbles: true }));
const selected = () => [...document.querySelectorAll("[aria-selected=true]")].map((row) => row.id);

await look("all");
for (const text of ["conv_2d_8", "CONV add", "softmax", "no such thing", "block2_expand", ""]) type(text);
await look("cleared");
type("stem");
await look("searched");
type("");
key("arena", "+");
await look("closer");
key("arena", "ArrowRight");
await look("moved");
key("arena", "0");
await look("back");
const heads = () => {
  mouse("pointermove", 0.5, 0.5);
  return $("axis").getAttribute("aria-pressed");
};
said.pressed = [heads()];
key("arena", "t");
said.pressed.push(heads());
await look("timed");
$("axis").click();
said.pressed.push(heads());
await look("rows again");
$("theme").click();
await look("dark");
$("theme").click();
$("peak").click();
said.steps.push(selected());
said.detail = $("detail").textContent;
key("steps", "ArrowDown");
said.steps.push(selected());
key("steps", "End");
said.steps.push(selected());
for (let x = 0.12; x < 0.98; x += 0.02) {
  for (let y = 0.06; y < 0.78; y += 0.04) {
    mouse("pointermove", x, y);
    if (!$("tip").hidden) said.hits.push($("tip").textContent);
  }
}
dispatchEvent(new Event("beforeprint"));
dispatchEvent(new Event("afterprint"));
said.rows = document.querySelectorAll(".row").length;
said.end = $("fault").hidden;
return said;
