// A chart: axes, layers, tooltip and zoom. Redrawn whenever its width changes.

const LETTER = 6.6; // width of a tick label's character, in pixels
const WITHOUT_INTERVALS = new Set(["cells"]); // whose low and high are no values of an axis
let charts = 0;

class Chart {
  constructor(box, spec) {
    this.box = box;
    this.spec = spec;
    this.id = `clip-${charts++}`;
    const within = (layer) => (WITHOUT_INTERVALS.has(layer.kind) ? [] : [...layer.low, ...layer.high]);
    const sideways = spec.y.names.length > 0;
    this.x = new Scale(spec.x, spec.layers.flatMap((l) => [...l.x, ...(sideways ? within(l) : [])]));
    this.y = new Scale(spec.y, spec.layers.flatMap((l) => [...l.y, ...(sideways ? [] : within(l))]));
    box.textContent = "";
    this.svg = make("svg", {
      tabindex: 0,
      role: "group",
      "aria-roledescription": "chart",
      "aria-label": `${spec.title}. Arrow keys read the values, plus and minus zoom, Escape shows all.`,
    }, box);
    this.tip = html("div", "tip", box);
    this.tip.setAttribute("role", "status");
    this.all = html("button", "all", box, "Show all");
    this.all.type = "button";
    this.all.hidden = true;
    this.draw();
    explore(this);
    new ResizeObserver(() => this.box.clientWidth !== this.width && this.draw()).observe(box);
  }

  // Register a tooltip, shown when the pointer is within `reach` of the value or inside its `box`.
  addTarget(px, py, text, { reach = 40, box = null } = {}) {
    if (!text || px < this.x.from - 1 || px > this.x.to + 1 || py > this.y.from + 1 || py < this.y.to - 1) return;
    this.targets.push({ px, py, text, reach, box });
  }

  draw() {
    this.width = this.box.clientWidth || 640;
    const { spec, x, y, svg } = this;
    const rows = spec.y.names.length;
    this.height = rows ? 74 + Math.max(rows, 2) * 38 : Math.round(Math.min(Math.max(this.width * 0.52, 230), 340));
    this.targets = [];
    svg.textContent = "";
    svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    svg.setAttribute("height", this.height);
    const most = Math.floor((this.width * 0.4) / LETTER); // characters of the names beside the chart
    y.place(this.height - 46, 30);
    const beside = y.ticks(rows ? 1 : 34).map(([value, text]) => [value, cut(text, most)]);
    x.place(14 + LETTER * Math.max(...beside.map(([, text]) => text.length), 2), this.width - 20);
    const longest = x.isBand ? Math.max(...x.axis.names.map((name) => Math.min(name.length, 14))) : 6;
    this.axes(beside, x.ticks(longest * LETTER + 14));
    const clip = make("clipPath", { id: this.id }, make("defs", {}, svg));
    make("rect", { x: x.from - 6, y: y.to - 6, width: x.to - x.from + 12, height: y.from - y.to + 12 }, clip);
    const plot = make("g", { "clip-path": `url(#${this.id})` }, svg);
    for (const layer of spec.layers) {
      const group = make("g", { class: `layer ${layer.kind} ${layer.colour}` }, plot);
      MARKS[layer.kind](this, layer, group);
    }
    this.ring = make("circle", { r: 8, class: "ring", visibility: "hidden" }, svg);
    this.frame = make("rect", { class: "chosen", visibility: "hidden" }, svg);
    this.all.hidden = x.isWhole && y.isWhole;
    this.hide();
  }

  axes(beside, below) {
    const { svg, x, y, spec } = this;
    const grid = make("g", { class: "grid", "aria-hidden": "true" }, svg);
    const names = make("g", { class: "ticks", "aria-hidden": "true" }, svg);
    for (const [value, text] of beside) {
      const py = y.at(value);
      if (!y.isBand) make("path", { d: `M${x.from} ${py}H${x.to}` }, grid);
      make("text", { x: x.from - 8, y: py + 4, "text-anchor": "end" }, names, text);
    }
    for (const [value, text] of below) {
      const px = x.at(value);
      if (!x.isBand) make("path", { d: `M${px} ${y.from}V${y.to}` }, grid);
      make("text", { x: px, y: y.from + 18, "text-anchor": "middle" }, names, cut(text, 14));
    }
    make("path", { d: `M${x.from} ${y.from}H${x.to}`, class: "base" }, grid);
    make("text", { x: 2, y: 14, class: "axis" }, names, spec.y.label);
    make("text", { x: x.to, y: this.height - 6, "text-anchor": "end", class: "axis" }, names, cut(spec.x.label, Math.floor(this.width / 8)));
  }

  showTip(target) {
    this.at = this.targets.indexOf(target);
    this.tip.textContent = target.text;
    this.tip.classList.add("shown");
    this.ring.setAttribute("visibility", "visible");
    this.ring.setAttribute("cx", target.px);
    this.ring.setAttribute("cy", target.py);
    const scale = this.svg.clientWidth / this.width || 1;
    const left = Math.min(Math.max(target.px * scale - this.tip.offsetWidth / 2, 0), this.box.clientWidth - this.tip.offsetWidth);
    const above = target.py * scale - this.tip.offsetHeight - 14;
    this.tip.style.left = `${left}px`;
    this.tip.style.top = `${above < 0 ? target.py * scale + 14 : above}px`;
  }

  hide() {
    this.at = -1;
    this.tip.classList.remove("shown");
    this.ring.setAttribute("visibility", "hidden");
  }

  showAll() {
    for (const scale of [this.x, this.y]) scale.show(...scale.full);
    this.draw();
  }
}
