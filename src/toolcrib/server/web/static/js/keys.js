// Keys: Ctrl-Enter runs a tool, "/" to the search field, Ctrl-K for the palette, "g" and a letter to a page.
const isTyping = (target) => target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

// In a list of tools "j" and "k" go to the next and the one before, "x" chooses it.
function walk(key) {
  const names = [...document.querySelectorAll(".tool-name")].filter((name) => name.checkVisibility());
  const row = document.activeElement?.closest("tr");
  const at = names.findIndex((name) => name.closest("tr") === row);
  if (key === "x") row?.querySelector("input[type=checkbox]")?.click();
  else if (names.length) names[Math.min(Math.max(at + (key === "j" ? 1 : -1), 0), names.length - 1)].focus();
}

function jump(letter) {
  const link = document.querySelector(`nav a[data-key="${CSS.escape(letter)}"]`);
  if (link) location.assign(link.href);
}

export function startKeys(palette) {
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette.toggle();
      return;
    }
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.target.closest?.("form")?.querySelector("[data-run]")?.click();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      const field = document.querySelector("main [data-search]");
      if (field) field.focus(); else palette.toggle();
    } else if (!isGoing && "jkx".includes(event.key)) {
      walk(event.key);
    } else if (isGoing) {
      jump(event.key);
    }
    isGoing = event.key === "g" && !isGoing;
  });
}
