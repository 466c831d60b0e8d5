// Parts of a page that follow the news: <div data-watch="/calls/stream"> is asked for again whenever there are some.
const SOONEST_MS = 400;

function setState(name, words) {
  for (const element of document.querySelectorAll("[data-live-state]")) {
    element.dataset.liveState = name;
    const label = element.querySelector("[data-live-words]");
    label.dataset.before ??= label.textContent;
    label.textContent = words ?? label.dataset.before;
  }
}

function announce(element, before) {
  const count = Number(element.dataset.count);
  const [one, many] = (element.dataset.countWords ?? "|").split("|");
  for (const badge of document.querySelectorAll("[data-approvals-badge]")) {
    badge.textContent = count < 100 ? String(count) : "99+";
    badge.classList.toggle("none", !count);
    badge.setAttribute("aria-label", `${count} ${count === 1 ? "question" : "questions"} waiting`);
  }
  const spoken = document.querySelector("[data-announce]");
  if (spoken && count > before) spoken.textContent = `${count} ${count === 1 ? one : many}`;
}

function watch(element) {
  const { id } = element;
  let stream = null;
  let isPaused = false;
  let timer = null;
  let last = 0;
  let count = Number(element.dataset.count ?? 0);

  const refresh = () => {
    timer = null;
    last = performance.now();
    const current = document.getElementById(id);
    if (current && !isPaused) htmx.trigger(current, "news");
  };
  const soon = () => {
    if (timer === null) timer = setTimeout(refresh, Math.max(0, SOONEST_MS - (performance.now() - last)));
  };
  const hear = (event) => {
    const wanted = document.getElementById(id)?.dataset.watchId;
    if (!wanted || JSON.parse(event.data).id === wanted || JSON.parse(event.data).id === undefined) soon();
  };
  const open = () => {
    if (stream || isPaused) return;
    stream = new EventSource(element.dataset.watch);
    stream.addEventListener("open", () => { setState("on"); soon(); }); // what came before it listened is caught up with
    stream.addEventListener("error", () => setState("off", "Connecting again"));
    stream.addEventListener("news", hear);
  };
  const close = () => { stream?.close(); stream = null; };

  open();
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) { open(); soon(); } });
  if (!element.hasAttribute("data-watch-always")) { // a browser has few connections to one place
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) close(); else { open(); soon(); }
    });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-watch-pause]");
    if (!button) return;
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) { close(); setState("paused", "Paused"); } else { open(); soon(); }
  });
  if (element.hasAttribute("data-count")) {
    announce(element, count);
    new MutationObserver(() => {
      const current = document.getElementById(id);
      if (!current || Number(current.dataset.count) === count) return;
      announce(current, count);
      count = Number(current.dataset.count);
    }).observe(element.parentElement, { attributes: true, childList: true, subtree: true, attributeFilter: ["data-count"] });
  }
}

export function startWatching() {
  for (const element of document.querySelectorAll("[data-watch]")) watch(element);
}
