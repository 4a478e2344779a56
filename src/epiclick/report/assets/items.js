// A table of many rows: searchable, sortable, in pages.

const ROWS = 25;

class Items {
  constructor(box, data) {
    this.data = data;
    this.body = box.querySelector("tbody");
    this.heads = [...box.querySelectorAll("thead th")];
    this.count = box.querySelector(".count");
    this.search = box.querySelector("input");
    [this.previous, this.next] = box.querySelectorAll(".pager button");
    this.page = 0;
    this.texts = data.rows.map((row) => `${row[0]}\n${row[1]}`.toLowerCase());
    this.heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => this.sortBy(column));
    });
    this.search.addEventListener("input", () => this.showPage(0));
    this.previous.addEventListener("click", () => this.showPage(this.page - 1));
    this.next.addEventListener("click", () => this.showPage(this.page + 1));
    for (const button of box.querySelectorAll("[data-order]")) {
      button.addEventListener("click", () => this.sortBy(Number(button.dataset.order), true));
    }
    this.order = data.rows.map((_, i) => i);
    this.sortBy(data.first, true);
    box.querySelector(".controls").hidden = false;
  }

  // Sort by a column, numbers in descending order; a second click reverses the order.
  sortBy(column, reset) {
    const again = !reset && this.column === column;
    const isText = this.data.formats[column] === "text";
    this.descending = again ? !this.descending : !isText;
    this.column = column;
    const sign = this.descending ? -1 : 1;
    const { rows } = this.data;
    this.order.sort((one, other) => {
      const [a, b] = [rows[one][column], rows[other][column]];
      if (a === null || b === null) return (a === null) - (b === null) || one - other;
      const order = isText ? a.localeCompare(b, "en", { numeric: true }) : a - b;
      return sign * order || one - other;
    });
    this.heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i !== column ? "none" : this.descending ? "descending" : "ascending");
    });
    this.showPage(0);
  }

  showPage(page) {
    const wanted = this.search.value.trim().toLowerCase();
    const found = wanted ? this.order.filter((i) => this.texts[i].includes(wanted)) : this.order;
    const last = Math.max(Math.ceil(found.length / ROWS) - 1, 0);
    this.page = Math.min(Math.max(page, 0), last);
    const shown = found.slice(this.page * ROWS, (this.page + 1) * ROWS);
    this.body.replaceChildren(...shown.map((i) => this.row(this.data.rows[i])));
    const from = found.length ? this.page * ROWS + 1 : 0;
    const total = found.length.toLocaleString("en");
    this.count.textContent = found.length
      ? `${from.toLocaleString("en")}–${(from + shown.length - 1).toLocaleString("en")} of ${total} rows`
      : "no matching rows";
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page === last;
  }

  row(values) {
    const row = html("tr");
    values.forEach((value, i) => {
      const format = this.data.formats[i];
      const text = format === "text" ? value : format in DIGITS ? fixed(value, DIGITS[format]) : formatted(value, format);
      html("td", format === "text" ? "id" : "number", row, text);
    });
    return row;
  }
}

const DIGITS = { fixed: 3, tenths: 1 };

function fixed(value, digits) {
  return value === null ? "–" : value.toFixed(digits).replace("-", "\u2212");
}
