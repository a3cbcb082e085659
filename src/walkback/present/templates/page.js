"use strict";
const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
document.documentElement.classList.add("js");

// Theme: what the system says, light, dark.
const themes = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  themeButton.textContent = "Theme: " + next;
});

// Copying.
for (const button of all("[data-copy]")) {
  const name = button.textContent;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.value);
      copied = true;
    } catch {
      // Pages opened from a file may not reach the clipboard: select the text, for the older way or by hand.
      source.closest("details").open = true;
      source.select();
      copied = document.execCommand("copy");
    }
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = name; }, 1600);
  });
}

// Curves: the point nearest to the pointer is named, with its figure.
function points(curve) {
  if (!curve.points) {
    const at = curve.dataset.at.split("|"), is = curve.dataset.is.split("|");
    const places = curve.getAttribute("d").match(/-?[\d.]+,-?[\d.]+/g) || [];
    curve.points = places.map((place, i) => {
      const [x, y] = place.split(",").map(Number);
      return { x, y, at: at[i], is: is[i], curve };
    });
  }
  return curve.points;
}
for (const chart of all(".timeline")) {
  const readout = chart.parentElement.querySelector(".readout"), said = readout.textContent;
  const here = chart.querySelector(".here"), curves = all("[data-at]", chart);
  const leave = () => {
    for (const curve of curves) curve.classList.remove("near");
    here.setAttribute("cx", -20);
    readout.textContent = said;
  };
  chart.addEventListener("pointerleave", leave);
  chart.addEventListener("pointermove", (event) => {
    const inside = chart.getScreenCTM();
    if (!inside) return;
    const x = (event.clientX - inside.e) / inside.a, y = (event.clientY - inside.f) / inside.d;
    let best = null, least = Infinity;
    for (const curve of curves) {
      if (curve.classList.contains("off")) continue;
      for (const point of points(curve)) {
        const far = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (far < least) [best, least] = [point, far];
      }
    }
    if (!best) return;
    for (const curve of curves) curve.classList.toggle("near", curve === best.curve);
    here.setAttribute("cx", best.x);
    here.setAttribute("cy", best.y);
    readout.textContent = best.curve.dataset.name + ", " + chart.dataset.unit + " " + best.at + ": " + best.is;
  });
}

// The table of networks: open, sort, filter.
const table = document.getElementById("networks");
if (table) {
  const bodies = all("tbody.network", table);
  const open = (body, wanted) => {
    const button = body.querySelector(".opener"), detail = body.querySelector(".detail");
    if (!button) return;
    detail.classList.toggle("open", wanted);
    button.setAttribute("aria-expanded", String(wanted));
  };
  for (const body of bodies) {
    body.querySelector(".row").addEventListener("click", () => {
      if (!String(getSelection())) open(body, !body.querySelector(".detail.open"));
    });
  }
  const follow = () => {
    const body = bodies.find((each) => "#" + each.id === location.hash);
    if (!body) return;
    body.classList.remove("off");
    open(body, true);
    body.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", follow);
  follow();

  const heads = all(":scope > thead th", table);
  const key = (body, column, kind) => {
    const cell = body.querySelector(".row").children[column];
    return kind === "number" ? cell.dataset.value : cell.textContent.trim().toLowerCase();
  };
  // Not measured comes last, whichever way; NaN is worse than any number.
  const order = (one, other, kind, down) => {
    if (kind !== "number") return down * one.localeCompare(other, "en", { numeric: true });
    if (!one || !other) return !one - !other;
    const [a, b] = [one, other].map((text) => (text === "nan" ? Infinity : Number(text.replace("inf", "Infinity"))));
    return a === b ? 0 : down * (a < b ? -1 : 1);
  };
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down > 0 ? "ascending" : "descending");
      const kind = button.dataset.sort;
      const sorted = bodies.map((body) => [key(body, column, kind), body]);
      sorted.sort((one, other) => order(one[0], other[0], kind, down));
      table.append(...sorted.map((pair) => pair[1]));
    });
  });

  const find = document.getElementById("find"), kind = document.getElementById("kind");
  const fired = document.getElementById("fired"), shown = document.getElementById("shown");
  const words = new Map(bodies.map((body) => [body, body.querySelector(".row").textContent.toLowerCase()]));
  const filter = () => {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean), hidden = new Set();
    for (const body of bodies) {
      const fits = wanted.every((word) => words.get(body).includes(word)) &&
        (!kind.value || body.dataset.kind === kind.value) && (!fired.value || body.dataset.fired.split(" ").includes(fired.value));
      body.classList.toggle("off", !fits);
      if (!fits) hidden.add(body.dataset.network);
    }
    for (const mark of all("svg [data-network]")) mark.classList.toggle("off", hidden.has(mark.dataset.network));
    shown.textContent = bodies.length - hidden.size + " of " + bodies.length + " shown";
  };
  for (const field of [find, kind, fired]) field.addEventListener("input", filter);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
}
