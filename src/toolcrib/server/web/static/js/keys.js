// Keys: "/" to the search field, Ctrl-K for the palette, "g" and a letter to a page.
const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable]");

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
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      const field = document.querySelector("main [data-search]");
      if (field) field.focus(); else palette.toggle();
    } else if (isGoing) {
      jump(event.key);
    }
    isGoing = event.key === "g" && !isGoing;
  });
}
