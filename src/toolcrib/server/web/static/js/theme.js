// Runs before anything is painted: the colours somebody chose, if they chose any.
(() => {
  try {
    const chosen = localStorage.getItem("toolcrib-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* a browser that keeps nothing follows the system */ }
  document.documentElement.classList.add("js");
})();
