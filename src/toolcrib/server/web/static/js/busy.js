// Forms that take a while say so, and are not sent twice: <form data-busy="Asking…">.
export function startBusy() {
  document.addEventListener("submit", (event) => {
    const words = event.target.dataset?.busy;
    const button = event.submitter;
    if (!words || !button) return;
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
