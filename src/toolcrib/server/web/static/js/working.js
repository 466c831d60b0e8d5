// Forms that take a while: <form data-working> says that it works on it.
export function startWorking() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form[data-working]");
    const words = form?.querySelector(".busy");
    if (words) words.textContent = event.submitter?.value === "show" ? "" : "Working…";
  });
}
