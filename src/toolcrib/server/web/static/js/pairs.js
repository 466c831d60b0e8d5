// Rows of name and value that can be added: <div data-pairs> with a <template> and a button [data-add-pair].
export function startPairs() {
  document.addEventListener("click", (event) => {
    const add = event.target.closest?.("[data-add-pair]");
    if (!add) return;
    const group = add.closest("[data-pairs]");
    const rows = group.querySelector("[data-rows]");
    const number = rows.children.length;
    const row = group.querySelector("template").content.cloneNode(true);
    for (const field of row.querySelectorAll("[name]")) field.name = field.name.replace("#", number);
    rows.append(row);
    rows.lastElementChild.querySelector("input").focus();
  });
}
