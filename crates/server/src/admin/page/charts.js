// Charts in SVG: stacked areas or lines over the last five minutes or the last hour. No data leaves the page, and
// nothing is ever parsed as HTML.

/** Maximum and minimum width of the charts in seconds; of the server's hour, in seconds. */
export const WINDOW = 300;
export const HOUR = 3600;
const WINDOW_LEAST = 60;

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 20;

/** An element with attributes and children. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** The next larger round number; for bytes, a power of two or one and a half of it. */
function ceiling(value, step) {
  if (!(value > 0)) return 1;
  const base = step === 1024 ? 2 ** Math.floor(Math.log2(value)) : 10 ** Math.floor(Math.log10(value));
  const factors = step === 1024 ? [1, 1.5, 2] : [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  return factors.map((factor) => factor * base).find((good) => good >= value) ?? value;
}

/**
 * A chart. `options`: `title`; `format` shows a value; `step` is 1000 or 1024; `stacked`; `low`.
 */
export class Chart {
  constructor(options) {
    this.options = options;
    this.series = [];
    this.times = [];
    this.now = make("span", { class: "now" });
    this.legend = make("ul", { class: "legend" });
    this.plot = draw("svg", { class: options.low ? "plot low" : "plot", tabindex: "0", role: "img" });
    this.tip = make("div", { class: "tip", hidden: "" });
    this.spoken = make("p", { class: "visually-hidden", "aria-live": "polite" });
    const title = make(options.low ? "h4" : "h3", {}, options.shown ?? options.title);
    this.legend.hidden = options.low ?? false;
    this.element = make("div", { class: options.low ? "chart" : "card chart" },
      make("div", { class: "title" }, title, this.now), this.plot, this.legend, this.tip, this.spoken);
    this.plot.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("blur", () => this.leave());
    this.plot.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.render()).observe(this.plot);
  }

  /** `series`: `{ name, color, values }`, each value of one of `times`, in seconds; `most`: maximum width. */
  update(times, series, limit, most = WINDOW) {
    this.times = times;
    this.series = series;
    this.limit = limit;
    this.widest = most;
    this.render();
  }

  sum(at) {
    return this.series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0);
  }

  most() {
    let most = 0;
    for (let at = 0; at < this.times.length; at++) {
      if (this.options.stacked) most = Math.max(most, this.sum(at));
      else for (const one of this.series) most = Math.max(most, one.values[at] ?? 0);
    }
    return this.limit !== undefined && most > this.limit / 2 ? Math.max(most, this.limit) : most;
  }

  render() {
    const { width, height } = this.plot.getBoundingClientRect();
    if (width === 0) return;
    this.width = width;
    this.height = height;
    const { format, step, floor } = this.options;
    const top = ceiling(Math.max(this.most(), floor ?? 0), step);
    const end = this.times.at(-1) ?? 0;
    const span = Math.min(this.widest ?? WINDOW, Math.max(WINDOW_LEAST, end - (this.times[0] ?? end)));
    this.x = (time) => LEFT + (width - LEFT - RIGHT) * (1 - (end - time) / span);
    this.y = (value) => TOP + (height - TOP - BOTTOM) * (1 - Math.min(value, top) / top);
    const parts = [];
    const rows = this.options.low ? 1 : 2;
    for (let row = 0; row <= rows; row++) {
      const value = top * row / rows, y = this.y(value);
      parts.push(draw("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
      parts.push(draw("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, format(value)));
    }
    const usual = span > 1800 ? 900 : span > 600 ? 300 : span > 180 ? 60 : span > 90 ? 30 : 15;
    const every = width < 420 && span > 180 ? usual * 2 : usual;
    for (let ago = 0; ago <= span; ago += every) {
      const x = this.x(end - ago), text = ago === 0 ? "now" : every < 60 ? `−${ago} s` : `−${ago / 60} min`;
      const anchor = ago === 0 ? "end" : x < LEFT + 24 ? "start" : "middle";
      parts.push(draw("text", { x, y: height - 5, "text-anchor": anchor }, text));
    }
    parts.push(...(this.options.stacked ? this.areas() : this.lines()));
    if (this.limit !== undefined && this.limit <= top) {
      const y = this.y(this.limit);
      parts.push(draw("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
    }
    this.cursor = draw("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    this.plot.replaceChildren(...parts, this.cursor);
    this.say();
    if (this.at !== undefined) this.show(this.at);
  }

  areas() {
    const below = this.times.map(() => 0);
    return this.series.map(({ color, values }) => {
      const lower = this.times.map((time, at) => [this.x(time), this.y(below[at])]);
      const upper = this.times.map((time, at) => [this.x(time), this.y(below[at] += values[at] ?? 0)]);
      const path = [...upper, ...lower.reverse()].map((point) => point.map((n) => n.toFixed(1)).join(" "));
      return draw("path", { class: `area s${color}`, d: path.length ? `M${path.join("L")}Z` : "" });
    });
  }

  lines() {
    return this.series.map(({ color, values }) => {
      let path = "", pen = "M";
      this.times.forEach((time, at) => {
        if (values[at] === undefined || values[at] === null) { pen = "M"; return; }
        path += `${pen}${this.x(time).toFixed(1)} ${this.y(values[at]).toFixed(1)}`;
        pen = "L";
      });
      return draw("path", { class: `lines s${color}`, d: path });
    });
  }

  /** Updates the title's figure, the legend, and the label for screen readers. */
  say() {
    const { title, format, stacked } = this.options, last = this.times.length - 1;
    const shown = this.series.map((one) => [one, one.values[last]]);
    const text = stacked ? format(this.sum(last)) : shown.length === 1 && shown[0][1] !== undefined ? format(shown[0][1]) : "";
    this.now.textContent = last < 0 ? "" : text;
    const names = shown.map(([{ name, color }]) => `${color} ${name}`).join("\n");
    if (names !== this.names) {
      this.names = names;
      this.legend.replaceChildren(...this.series.map(({ name, color }) => {
        const mark = draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
        mark.append(draw("rect", { class: `s${color}`, width: 10, height: 10, rx: 3 }));
        return make("li", {}, mark, make("span", { title: name }, name));
      }));
    }
    const told = shown.filter(([, value]) => value !== undefined && value !== null);
    const each = told.map(([{ name }, value]) => `${name} ${format(value)}`).join(", ");
    this.plot.setAttribute("aria-label", `${title}: ${each || "nothing yet"}. Arrow keys go through the times.`);
  }

  point(x) {
    if (!this.times.length || !this.x) return;
    let best = 0;
    this.times.forEach((time, at) => {
      if (Math.abs(this.x(time) - x) < Math.abs(this.x(this.times[best]) - x)) best = at;
    });
    this.at = this.times.length - 1 - best;
    this.show(this.at);
  }

  key(event) {
    const steps = { ArrowLeft: 1, ArrowRight: -1, PageUp: 30, PageDown: -30, Home: Infinity, End: -Infinity };
    if (event.key === "Escape") return this.leave();
    if (!(event.key in steps) || !this.times.length) return;
    event.preventDefault();
    const next = (this.at ?? -1) + steps[event.key];
    this.at = Math.max(0, Math.min(this.times.length - 1, next));
    this.spoken.textContent = this.show(this.at);
  }

  /** Shows the values of `back` samples ago, and returns them as text. */
  show(back) {
    const at = this.times.length - 1 - back;
    if (at < 0) return "";
    const x = this.x(this.times[at]), { format } = this.options;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.cursor.setAttribute("visibility", "visible");
    const ago = Math.round(this.times.at(-1) - this.times[at]);
    const when = ago === 0 ? "now" : ago < 120 ? `${ago} s ago` : `${Math.round(ago / 60)} min ago`;
    const rows = this.series.map(({ name, values }) => [name, values[at] === undefined || values[at] === null ? "–" : format(values[at])]);
    this.tip.replaceChildren(make("p", {}, when), ...rows.map(([name, value]) => make("p", {}, make("span", {}, name), make("b", {}, value))));
    this.tip.hidden = false;
    const left = x > this.width / 2 ? x - this.tip.offsetWidth - 4 : x + 28;
    this.tip.style.left = `${Math.max(0, left)}px`;
    this.tip.style.top = `${this.plot.offsetTop + 8}px`;
    return `${when}: ${rows.map((row) => row.join(" ")).join(", ")}`;
  }

  leave() {
    this.at = undefined;
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }
}
