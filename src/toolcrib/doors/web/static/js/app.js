// Everything the page does beyond links, forms and htmx; each part is a module that can be left out.
import { startCopying } from "./copy.js";
import { startCountdown } from "./left.js";
import { startKeys } from "./keys.js";
import { startPalette } from "./palette.js";
import { startPairs } from "./pairs.js";
import { startSwitch } from "./switch.js";
import { startToasts } from "./toasts.js";
import { startWatching } from "./watch.js";
import { startWorking } from "./working.js";

startSwitch();
startCopying();
startToasts();
startPairs();
startKeys(startPalette());
startCountdown();
startWatching();
startWorking();
