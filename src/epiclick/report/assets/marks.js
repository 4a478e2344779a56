// Marks of a chart's layers. Each kind draws itself and registers tooltips.

function cut(text, most) {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

// Pixel of the i-th value of a layer.
function pixelOf(chart, layer, i) {
  const { x, y } = chart;
  const px = x.at(layer.x[i] + (x.isBand ? layer.offset : 0));
  const py = y.at(layer.y[i] + (y.isBand ? layer.offset : 0));
  return [px, py];
}

function isKnown(layer, i) {
  return layer.x[i] !== null && layer.y[i] !== null;
}

// The ends of an interval: along x where y has names, along y otherwise.
function interval(chart, layer, i, group) {
  const [low, high] = [layer.low[i], layer.high[i]];
  if (low === null || low === undefined || high === null) return;
  const [px, py] = pixelOf(chart, layer, i);
  const sideways = chart.y.isBand;
  const [from, to] = sideways ? [chart.x.at(low), chart.x.at(high)] : [chart.y.at(low), chart.y.at(high)];
  const cap = 6; // wider than the dot, which may hide a short interval
  const path = sideways
    ? `M${from} ${py}H${to}M${from} ${py - cap}v${2 * cap}M${to} ${py - cap}v${2 * cap}`
    : `M${px} ${from}V${to}M${px - cap} ${from}h${2 * cap}M${px - cap} ${to}h${2 * cap}`;
  make("path", { d: path, class: "interval" }, group);
}

const MARKS = {
  points(chart, layer, group) {
    const r = layer.x.length > 150 ? 2.4 : layer.low.length ? 3.2 : 4.5;
    for (let i = 0; i < layer.x.length; i++) {
      if (!isKnown(layer, i)) continue;
      interval(chart, layer, i, group);
      const [px, py] = pixelOf(chart, layer, i);
      make("circle", { cx: px, cy: py, r, class: layer.x.length > 150 ? "dot many" : "dot" }, group);
      chart.addTarget(px, py, layer.text[i]);
    }
  },

  line(chart, layer, group) {
    let path = "";
    let broken = true;
    for (let i = 0; i < layer.x.length; i++) {
      if (!isKnown(layer, i)) {
        broken = true;
        continue;
      }
      const [px, py] = pixelOf(chart, layer, i);
      path += `${broken ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`;
      broken = false;
      chart.addTarget(px, py, layer.text[i]);
    }
    make("path", { d: path, class: "line" }, group);
  },

  bars(chart, layer, group) {
    const half = layer.size / 2;
    for (let i = 0; i < layer.x.length; i++) {
      if (!isKnown(layer, i)) continue;
      const [px, py] = pixelOf(chart, layer, i);
      let box;
      if (chart.y.isBand) {
        const middle = layer.y[i] + layer.offset;
        const [from, to] = [chart.y.at(middle - half), chart.y.at(middle + half)];
        const zero = chart.x.at(0);
        box = { x: Math.min(zero, px), width: Math.abs(px - zero), y: Math.min(from, to), height: Math.abs(to - from) };
      } else {
        const middle = layer.x[i] + layer.offset;
        const [from, to] = [chart.x.at(middle - half), chart.x.at(middle + half)];
        const zero = chart.y.at(0);
        box = { x: from, width: Math.max(to - from - 1, 1), y: Math.min(zero, py), height: Math.abs(py - zero) };
      }
      make("rect", { ...box, class: "bar" }, group);
      chart.addTarget(px, py, layer.text[i], { box });
    }
  },

  // A map of counts: the darker the more, on a logarithmic scale.
  cells(chart, layer, group) {
    const most = Math.log1p(Math.max(...layer.low));
    const half = layer.size / 2;
    for (let i = 0; i < layer.x.length; i++) {
      const [left, right] = [chart.x.at(layer.x[i] - half), chart.x.at(layer.x[i] + half)];
      const [bottom, top] = [chart.y.at(layer.y[i] - half), chart.y.at(layer.y[i] + half)];
      const opacity = (0.1 + (0.6 * Math.log1p(layer.low[i])) / most).toFixed(2);
      const box = { x: left, y: top, width: right - left + 0.3, height: bottom - top + 0.3 };
      make("rect", { ...box, class: "cell", "fill-opacity": opacity }, group);
      chart.addTarget((left + right) / 2, (top + bottom) / 2, layer.text[i], { reach: 8 });
    }
  },

  // A straight reference line, from the first point to the last.
  rule(chart, layer, group) {
    const places = layer.x.map((value, i) => {
      const px = value === null ? (i ? chart.x.to : chart.x.from) : chart.x.at(value);
      const py = layer.y[i] === null ? (i ? chart.y.to : chart.y.from) : chart.y.at(layer.y[i]);
      return `${px} ${py}`;
    });
    make("path", { d: `M${places.join("L")}`, class: "rule" }, group);
  },
};
