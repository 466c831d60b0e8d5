// Everything the page does beyond links, forms and htmx; each part is a module that can be left out.
import { startBusy } from "./busy.js";
import { startCopying } from "./copy.js";
import { startKeys } from "./keys.js";
import { startPalette } from "./palette.js";
import { startPairs } from "./pairs.js";
import { startSwitch } from "./switch.js";
import { startToasts } from "./toasts.js";

startSwitch();
startBusy();
startCopying();
startToasts();
startPairs();
startKeys(startPalette());

// On a small screen the navigation is one long row: bring the page one is on into view.
document.querySelector(".side nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
