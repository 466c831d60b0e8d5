// Messages that can be closed; the address forgets them, so that a reload does not repeat them.
export function startToasts() {
  document.addEventListener("click", (event) => {
    event.target.closest?.("[data-close]")?.closest(".toast")?.remove();
  });
  const here = new URL(location.href);
  if (here.searchParams.has("done")) {
    here.searchParams.delete("done");
    here.searchParams.delete("name");
    history.replaceState(history.state, "", here);
  }
}
