// Everything the page does beyond links, forms and htmx; each part is a module that can be left out.
import { startBusy } from "./busy.js";
import { startCopying } from "./copy.js";
import { startCountdown } from "./left.js";
import { startKeys } from "./keys.js";
import { startPalette } from "./palette.js";
import { startPairs } from "./pairs.js";
import { startSwitch } from "./switch.js";
import { startToasts } from "./toasts.js";
import { startTimes } from "./times.js";
import { startWatching } from "./watch.js";
import { startWorking } from "./working.js";

startSwitch();
startBusy();
startCopying();
startToasts();
startPairs();
startKeys(startPalette());
startCountdown();
startWatching();
startWorking();
startTimes();

// On a small screen tabs are a long row: bring the entry one is on into view.
for (const link of document.querySelectorAll(".tabs a[aria-current]")) {
  const row = link.closest("nav"); // moved by itself: scrollIntoView would take the whole page along
  row.scrollLeft += link.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - link.offsetWidth) / 2;
}
