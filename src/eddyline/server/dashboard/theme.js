// Runs before the first paint, so that a remembered theme never flashes the other one. "system" leaves the choice to the machine.
(() => {
  let theme = "system";
  try {
    theme = localStorage.getItem("eddyline.theme") || "system";
  } catch {
    theme = "system"; // storage is not available: use the system's setting
  }
  document.documentElement.dataset.theme = theme;
})();
