// Charts and tables are drawn from the data that stand beside them in the page.

function given(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

for (const box of document.querySelectorAll("[data-chart]")) new Chart(box, given(box.dataset.chart));
for (const box of document.querySelectorAll("[data-items]")) new Items(box, given(box.dataset.items));

// what is folded away on a screen is wanted on paper
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
