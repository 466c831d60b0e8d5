// Forms that take a while: <form data-working> says for how long it has worked on it, and asks how far it is.
const AROUND = ".workbench, [data-work]";
let timer = null;

function stop() {
  clearInterval(timer);
  timer = null;
}

function start(form) {
  const began = performance.now();
  stop();
  timer = setInterval(() => {
    if (!form.isConnected) { stop(); return; }
    const scope = form.closest(AROUND) ?? form;
    const words = scope.querySelector(".busy");
    const seconds = Math.floor((performance.now() - began) / 1000);
    if (words) words.textContent = `Working… ${seconds} s`;
    const running = scope.querySelector(".running");
    if (running && seconds) htmx.trigger(running, "look");
  }, 1000);
}

export function startWorking() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form[data-working]");
    const words = (form?.closest(AROUND) ?? form)?.querySelector(".busy");
    if (!words || (event.submitter?.value && !["run", "search", "ask"].includes(event.submitter.value))) return;
    words.textContent = "Working…";
    start(form);
  });
  document.addEventListener("htmx:after:request", (event) => { if (event.target.closest?.("form[data-working]")) stop(); });
}
