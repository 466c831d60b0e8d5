// The switch between light and dark; what was chosen is kept in this browser.
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

function choose(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("toolcrib-theme", theme); } catch { /* it then lasts until the page is closed */ }
}

export function toggleTheme() {
  choose(isDark() ? "light" : "dark");
  show();
}

function show() {
  for (const button of document.querySelectorAll("[data-theme-switch]")) {
    button.setAttribute("aria-pressed", String(isDark()));
  }
}

export function startSwitch() {
  show();
  system.addEventListener("change", show);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-theme-switch]")) toggleTheme();
  });
}
