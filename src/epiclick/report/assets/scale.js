// Axes: scales, round ticks, and numbers as text.

const SVG = "http://www.w3.org/2000/svg";

// A new SVG element; text is set as text, never as markup.
function make(name, attributes, parent, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, className, parent, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

// About `count` round numbers between low and high, at least `least` apart.
function ticks(low, high, count, least) {
  const rough = Math.max((high - low) / Math.max(count, 1), least);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

// A value as text, with enough digits for steps of the given size.
function formatted(value, format, step) {
  if (value === null || value === undefined) return "–";
  const size = Math.max(Math.abs(step || value), 1e-12);
  if (format === "count") return (Math.round(value) + 0).toLocaleString("en"); // never -0
  const scaled = format === "percent" || format === "signed" ? 100 : 1;
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(size * scaled) - 1e-9) + (step ? 0 : 2), 0), 6);
  const text = (value * scaled).toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "\u2212");
  if (scaled === 1) return text;
  return (format === "signed" && value > 0 ? "+" : "") + text + "%";
}

// Smallest and largest number, missing ones aside.
function ends(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

// An axis: its range, its mapping to pixels, its ticks.
class Scale {
  constructor(axis, values) {
    this.axis = axis;
    this.isBand = axis.names.length > 0;
    let [low, high] = this.isBand ? [-0.5, axis.names.length - 0.5] : ends(values);
    if (!this.isBand) {
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      low = axis.low ?? low - room;
      high = axis.high ?? high + room;
      if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
    }
    this.full = [low, high];
    this.span = [low, high];
  }

  place(from, to) {
    [this.from, this.to] = [from, to];
  }

  at(value) {
    const [low, high] = this.span;
    return this.from + ((value - low) / (high - low)) * (this.to - this.from);
  }

  back(pixel) {
    const [low, high] = this.span;
    return low + ((pixel - this.from) / (this.to - this.from)) * (high - low);
  }

  // Zoom to a part: never beyond the full range, nor closer than a thousandth of it.
  show(low, high) {
    const [least, most] = this.full;
    const smallest = this.isBand ? 1 : (most - least) / 1000;
    let size = Math.min(Math.max(high - low, smallest), most - least);
    low = Math.min(Math.max(low, least), most - size);
    this.span = [low, low + size];
  }

  get isWhole() {
    return this.span[0] === this.full[0] && this.span[1] === this.full[1];
  }

  // Ticks as [value, text], few enough to be `room` pixels apart.
  ticks(room) {
    const count = Math.abs(this.to - this.from) / room;
    const [low, high] = this.span;
    if (!this.isBand) {
      const places = ticks(low, high, count, this.axis.format === "count" ? 1 : 0);
      const step = places.length > 1 ? places[1] - places[0] : high - low;
      return places.map((value) => [value, formatted(value, this.axis.format, step)]);
    }
    const first = Math.max(Math.ceil(low), 0);
    const last = Math.min(Math.floor(high), this.axis.names.length - 1);
    const step = Math.max(Math.ceil((last - first + 1) / Math.max(count, 1)), 1);
    const found = [];
    for (let i = first; i <= last; i += step) found.push([i, this.axis.names[i]]);
    return found;
  }
}
