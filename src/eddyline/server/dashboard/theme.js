// Runs before the first paint, so that a remembered theme never flashes the other one. "system" leaves the choice to the machine.
(() => {
  let wanted = "system";
  try {
    wanted = localStorage.getItem("eddyline.theme") || "system";
  } catch {
    wanted = "system"; // storage is closed to us: the machine decides
  }
  document.documentElement.dataset.theme = wanted;
})();
