// Forms that take a while: <form data-busy> says that it works on it.
export function startBusy() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form[data-busy]");
    const words = form?.querySelector(".busy");
    if (words) words.textContent = event.submitter?.value === "show" ? "" : "Working…";
  });
}
