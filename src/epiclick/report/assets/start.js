// Draws charts and tables from the data embedded in the page.

function embedded(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

for (const box of document.querySelectorAll("[data-chart]")) new Chart(box, embedded(box.dataset.chart));
for (const box of document.querySelectorAll("[data-items]")) new Items(box, embedded(box.dataset.items));

// folded parts are printed open
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    fold.dataset.folded = "";
  }
});
window.addEventListener("afterprint", () => {
  for (const fold of document.querySelectorAll("details[data-folded]")) {
    fold.open = false;
    delete fold.dataset.folded;
  }
});
document.documentElement.dataset.drawn = "";
