"use strict";
const themes = ["auto", "light", "dark"];
const themeButton = document.getElementById("theme");
themeButton.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  const next = themes[(themes.indexOf(now) + 1) % themes.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  themeButton.textContent = "Theme: " + next;
});
for (const button of document.querySelectorAll("[data-copy]")) {
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
