// A reader of a page with a block in bands and chunks, for test_page.py: the body of an async function.
const $ = (id) => document.getElementById(id);
const said = { tips: [], rows: [] };
const place = $("arena").getBoundingClientRect();
const point = (x, y) => $("arena").dispatchEvent(new PointerEvent("pointermove",
  { clientX: place.left + x, clientY: place.top + y, pointerId: 1, bubbles: true }));
const [button] = document.querySelectorAll("#blocks button");
said.blocks = [...document.querySelectorAll("#blocks button")].map((b) => b.textContent);
said.hatched = $("hatched").hidden;
button.click();
said.search = $("search").value;
said.count = $("count").textContent;
said.pressed = button.getAttribute("aria-pressed");
$("steps").dispatchEvent(new KeyboardEvent("keydown", { key: "End", cancelable: true }));
said.last = $("detail").textContent;
said.rows = [...document.querySelectorAll(".row")].map((row) => row.title);
button.click();
said.cleared = $("search").value;
$("search").value = "recomputed";
$("search").dispatchEvent(new Event("input"));
said.again = $("count").textContent;
$("search").value = "";
$("search").dispatchEvent(new Event("input"));
for (let x = 75; x < place.width - 14; x += 9) {
  for (let y = 24; y < place.height * 0.8; y += 5) {
    point(x, y);
    if (!$("tip").hidden) said.tips.push($("tip").textContent);
  }
}
said.tips = [...new Set(said.tips)];
said.fault = $("fault").hidden;
return said;
