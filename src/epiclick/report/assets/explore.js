// Interaction with a chart: point to read a value; drag, wheel or keys to zoom.

const DRAG = 12; // least pixels of a drag

function explore(chart) {
  const { svg, x, y } = chart;
  let start = null;

  // Position of the pointer in the chart's own pixels.
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = chart.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };

  const zoom = (scale, pixel, factor) => {
    const middle = scale.back(pixel);
    scale.show(middle + (scale.span[0] - middle) * factor, middle + (scale.span[1] - middle) * factor);
  };

  const zoomBoth = (px, py, factor) => {
    zoom(x, px, factor);
    if (!y.isBand) zoom(y, py, factor);
    chart.draw();
  };

  const nearest = (px, py) => {
    let best = null;
    let least = Infinity;
    for (const target of chart.targets) {
      const { box } = target;
      const inside = box && px >= box.x && px <= box.x + box.width && py >= box.y && py <= box.y + box.height;
      const away = inside ? 0 : Math.hypot(target.px - px, target.py - py);
      // prefer single values to the map behind them
      const cost = target.reach < 40 ? away + 10 : away;
      if (away <= target.reach && cost < least) [best, least] = [target, cost];
    }
    return best;
  };

  const mark = ([px, py]) => {
    const wide = Math.abs(px - start[0]) > DRAG;
    const tall = Math.abs(py - start[1]) > DRAG && !y.isBand;
    chart.frame.setAttribute("visibility", wide || tall ? "visible" : "hidden");
    const [left, right] = wide ? [Math.min(px, start[0]), Math.max(px, start[0])] : [x.from, x.to];
    const [top, bottom] = tall ? [Math.min(py, start[1]), Math.max(py, start[1])] : [y.to, y.from];
    const box = { x: left, y: top, width: right - left, height: bottom - top };
    for (const [key, value] of Object.entries(box)) chart.frame.setAttribute(key, value);
    return wide || tall ? [left, right, top, bottom] : null;
  };

  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0) start = place(event);
  });
  svg.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (start && mark(at)) {
      // capturing the pointer any earlier would swallow clicks
      if (!svg.hasPointerCapture(event.pointerId)) svg.setPointerCapture(event.pointerId);
      chart.hide();
      return;
    }
    const target = nearest(...at);
    if (target) chart.showTip(target);
    else chart.hide();
  });
  svg.addEventListener("pointerup", (event) => {
    const chosen = start && mark(place(event));
    start = null;
    if (!chosen) return;
    const [left, right, top, bottom] = chosen;
    x.show(x.back(left), x.back(right));
    if (!y.isBand) y.show(y.back(bottom), y.back(top));
    chart.draw();
  });
  svg.addEventListener("pointercancel", () => {
    start = null;
    chart.frame.setAttribute("visibility", "hidden");
  });
  svg.addEventListener("pointerleave", () => !start && chart.hide());
  // on touch screens pointerleave comes before click
  svg.addEventListener("click", (event) => {
    const target = nearest(...place(event));
    if (target) chart.showTip(target);
  });
  svg.addEventListener("dblclick", () => chart.showAll());
  svg.addEventListener("blur", () => chart.hide());
  chart.all.addEventListener("click", () => chart.showAll());
  svg.addEventListener("wheel", (event) => {
    // the page scrolls as usual unless the chart has the focus
    if (document.activeElement !== svg) return;
    event.preventDefault();
    zoomBoth(...place(event), event.deltaY < 0 ? 0.8 : 1.25);
  }, { passive: false });

  const step = (by) => {
    const last = chart.targets.length - 1;
    if (last < 0) return;
    const next = chart.at < 0 ? (by > 0 ? 0 : last) : Math.min(Math.max(chart.at + by, 0), last);
    chart.showTip(chart.targets[next]);
  };
  const keys = {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Home: () => chart.targets.length && chart.showTip(chart.targets[0]),
    End: () => chart.targets.length && chart.showTip(chart.targets[chart.targets.length - 1]),
    "+": () => zoomBoth((x.from + x.to) / 2, (y.from + y.to) / 2, 0.8),
    "=": () => keys["+"](),
    "-": () => zoomBoth((x.from + x.to) / 2, (y.from + y.to) / 2, 1.25),
    Escape: () => chart.showAll(),
  };
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
}
