// Moments in the zone of whoever reads: <time datetime="…Z" data-zone="full|time|title">, also in parts that came later.
const day = { year: "numeric", month: "short", day: "numeric" };
const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" };
const full = new Intl.DateTimeFormat(undefined, { ...day, ...clock });
const time = new Intl.DateTimeFormat(undefined, clock);

function show() {
  for (const element of document.querySelectorAll("time[data-zone]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const words = full.format(moment);
    if (element.title !== words) element.title = words;
    if (element.dataset.zone === "title") continue;
    const text = element.dataset.zone === "time" ? time.format(moment) : words;
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startTimes() {
  show();
  new MutationObserver(show).observe(document.querySelector("main"), { childList: true, subtree: true, characterData: true });
}
