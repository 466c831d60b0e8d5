// The command palette: type, choose with the arrows, Enter goes there.
// Where the page is mounted: this file is at /static/VERSION/js/ below that.
const root = new URL("../../..", import.meta.url).pathname.replace(/\/$/, "");
const dialog = document.getElementById("palette");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("[role=listbox]");
let chosen = 0;
let asked = 0;

function mark(index) {
  const options = [...list.children];
  if (!options.length) { field.removeAttribute("aria-activedescendant"); return; }
  chosen = (index + options.length) % options.length;
  options.forEach((option, place) => option.setAttribute("aria-selected", String(place === chosen)));
  field.setAttribute("aria-activedescendant", options[chosen].id);
  options[chosen].scrollIntoView({ block: "nearest" });
}

function option(found, place) {
  const item = document.createElement("a");
  item.id = `palette-${place}`;
  item.href = root + found.href;
  item.setAttribute("role", "option");
  item.tabIndex = -1;
  const name = document.createElement("span");
  name.textContent = found.name;
  const kind = document.createElement("span");
  kind.className = "kind";
  kind.textContent = found.kind;
  item.append(name, kind);
  return item;
}

async function look() {
  const turn = ++asked;
  const answer = await fetch(`${root}/palette.json?q=${encodeURIComponent(field.value)}`, { credentials: "same-origin" });
  if (turn !== asked || !answer.ok) return;
  const found = await answer.json();
  if (turn !== asked) return;
  list.replaceChildren(...found.map(option));
  dialog.querySelector("[data-nothing]").hidden = found.length > 0;
  mark(0);
}

function press(event) {
  if (event.key === "ArrowDown") mark(chosen + 1);
  else if (event.key === "ArrowUp") mark(chosen - 1);
  else if (event.key === "Enter") list.children[chosen]?.click();
  else return;
  event.preventDefault();
}

function toggle() {
  if (!dialog) return;
  if (dialog.open) { dialog.close(); return; }
  field.value = "";
  dialog.showModal();
  look();
}

export function startPalette() {
  if (dialog) {
    field.addEventListener("input", look);
    field.addEventListener("keydown", press);
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.addEventListener("click", (event) => { if (event.target.closest?.("[data-palette]")) toggle(); });
  }
  return { toggle };
}
