// Buttons that copy the text of another element: <button data-copy="id-of-the-element">.
function say(button, text) {
  const label = button.querySelector("[data-copy-label]") ?? button;
  label.dataset.before ??= label.textContent;
  label.textContent = text;
  clearTimeout(Number(button.dataset.timer));
  button.dataset.timer = setTimeout(() => { label.textContent = label.dataset.before; }, 1600);
}

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

async function copy(button) {
  const element = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(element.textContent);
    say(button, "Copied");
  } catch { // browsers give the clipboard to secure pages only
    select(element);
    say(button, document.execCommand("copy") ? "Copied" : "Press Ctrl+C");
  }
}

export function startCopying() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (button) copy(button);
  });
}
