// Time that runs out: <span data-left="83.5"> counts down by itself.
const ends = new WeakMap();

function words(seconds) {
  if (seconds <= 0) return "time is up";
  if (seconds < 60) return `${Math.ceil(seconds)} seconds left`;
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")} minutes left`;
}

function show() {
  for (const element of document.querySelectorAll("[data-left]")) {
    let known = ends.get(element);
    if (known?.said !== element.dataset.left) {
      known = { said: element.dataset.left, at: performance.now() + Number(element.dataset.left) * 1000 };
      ends.set(element, known);
    }
    const seconds = (known.at - performance.now()) / 1000;
    const text = words(seconds);
    if (element.textContent !== text) element.textContent = text;
    element.classList.toggle("soon", seconds < 20);
  }
}

export function startCountdown() {
  show();
  setInterval(show, 500);
}
