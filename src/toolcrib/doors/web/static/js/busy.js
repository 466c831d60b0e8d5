// Forms that take a while say so, and are not sent twice: <form data-busy="Asking…">; one with a place of class
// "busy" has it said there, and stays ready.
export function startBusy() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const place = form.querySelector?.(".busy");
    const words = form.dataset?.busy;
    const button = event.submitter;
    if (place && words !== undefined) place.textContent = button?.value === "show" ? "" : "Working…";
    if (place || !words || !button) return;
    if (button.getAttribute("aria-busy") === "true") { event.preventDefault(); return; }
    button.dataset.before = button.textContent;
    button.setAttribute("aria-busy", "true");
    button.textContent = words;
  });
  addEventListener("pageshow", () => { // somebody came back: the form can be sent again
    for (const button of document.querySelectorAll("button[aria-busy][data-before]")) {
      button.removeAttribute("aria-busy");
      button.textContent = button.dataset.before;
    }
  });
}
