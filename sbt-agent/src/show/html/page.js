"use strict";
// Sorts tables, and draws the timeline. All else on the page does without.

(() => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(body, heads, head, column));
    });
  }

  function sort(body, heads, head, column) {
    const isFigure = head.classList.contains("n");
    const first = isFigure ? "descending" : "ascending";
    const second = isFigure ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? second : first;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.cells[column];
      if (!isFigure) return cell.textContent.trim();
      return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    const rows = [...body.rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      // What is unknown comes last, whichever way.
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (isFigure ? a - b : a.localeCompare(b, undefined, { numeric: true }));
    });
    body.append(...rows.map(([, row]) => row));
  }
})();

(() => {
  const source = document.getElementById("tl-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const root = document.getElementById("tl");
  const canvas = document.getElementById("tl-canvas");
  const tip = document.getElementById("tl-tip");
  const range = document.getElementById("tl-range");
  const context = canvas.getContext("2d");
  const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const KINDS = ["work", "ready", "blocked", "release", "idle"];
  // Of a long run only the end may have been kept.
  const start = data.from;
  const wall = Math.max(data.wall, start + 1);
  const columns = data.threads.length ? data.threads[0].cells.length / KINDS.length : 0;
  const LEAST = 100;
  const BUSY = 44;
  const AXIS = 24;
  // Heights of what was counted: of all threads together, and of one.
  const COUNT = 56;
  const chooser = document.getElementById("tl-counter");

  // Shares of each kind, summed up from the start, so that any span is one subtraction. Those
  // of work, of all threads together, likewise.
  const value = new Uint8Array(128);
  [...DIGITS].forEach((digit, at) => { value[digit.charCodeAt(0)] = at; });
  const busy = new Float64Array(columns + 1);
  const sums = data.threads.map((thread) => {
    const out = new Float64Array((columns + 1) * KINDS.length);
    for (let at = 0; at < columns * KINDS.length; at++) {
      const share = value[thread.cells.charCodeAt(at)] / 63;
      out[at + KINDS.length] = out[at] + share;
      if (at % KINDS.length < 3) busy[Math.floor(at / KINDS.length) + 1] += share;
    }
    thread.cells = null;
    return out;
  });
  for (let at = 0; at < columns; at++) busy[at + 1] += busy[at];
  const episodes = data.episodes.map(([site, index, first, last, lost, seen]) => ({ site, index, first, last, lost, seen }));

  // Likewise what was counted, three values a column: how much, whether something of it is
  // known, and whether something is not.
  function strip({ step, scale, cells }) {
    const lanes = cells.map((text) => {
      const out = new Float64Array(text.length + 3);
      for (let at = 0; at < text.length; at += 3) {
        const code = [0, 1, 2].reduce((code, digit) => code * 64 + value[text.charCodeAt(at + digit)], 0);
        out[at + 3] = out[at] + (code >> 2) * scale;
        out[at + 4] = out[at + 1] + ((code >> 1) & 1);
        out[at + 5] = out[at + 2] + (code & 1);
      }
      return out;
    });
    return { step, lanes };
  }
  const counters = data.counters.map(({ name, unit, all, each }) => ({ name, unit, all: strip(all), each: each && strip(each) }));
  data.counters = null;
  const chosen = () => (chooser && chooser.value !== "" ? counters[chooser.value] : null);

  let view = [start, wall];
  let box = { width: 0, height: 0, left: 0, lane: 0, row: 0, mini: 0 };
  let colours = {};
  let patterns = {};
  let waiting = false;
  // Pointers that move it, and where they were.
  const held = new Map();

  const column = (ns) => Math.min(Math.max((ns - start) / data.step, 0), columns);

  // Of what was summed up, what lies before a column; `width` values a column.
  function before(sums, width, kind, position) {
    const whole = Math.floor(position);
    const from = sums[whole * width + kind];
    const rest = position - whole;
    return rest === 0 ? from : from + (sums[(whole + 1) * width + kind] - from) * rest;
  }

  // Into `out`, which is used again: this is done for each pixel.
  function shares(lane, from, to, out) {
    const [a, b] = [column(from), column(to)];
    const all = (to - from) / data.step;
    let sum = 0;
    for (let kind = 0; kind < KINDS.length; kind++) {
      out[kind] = (before(sums[lane], KINDS.length, kind, b) - before(sums[lane], KINDS.length, kind, a)) / all;
      sum += out[kind];
    }
    // They are rounded.
    if (sum > 1) for (let kind = 0; kind < KINDS.length; kind++) out[kind] /= sum;
    return out;
  }

  // What was counted a second, whether something of that is known, and whether something is
  // not.
  function rate(strip, lane, from, to) {
    const sums = strip.lanes[lane];
    const most = sums.length / 3 - 1;
    const place = (ns) => Math.min(Math.max((ns - start) / strip.step, 0), most);
    const [a, b] = [place(from), place(to)];
    const of = (kind) => before(sums, 3, kind, b) - before(sums, 3, kind, a);
    return { rate: Math.max(of(0) / (to - from) * 1e9, 0), known: of(1) > 1e-9, partial: of(2) > 1e-9 };
  }

  // A rate as text. That of a time is a share of one CPU.
  function amount(rate, unit) {
    const [value, sign] = unit === "ns" ? [rate / 1e7, "%"] : [rate, "/s"];
    const power = [[1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([power]) => value >= power);
    const [shown, prefix] = power ? [value / (power[0] === 1e4 ? 1e3 : power[0]), power[1]] : [value, ""];
    const digits = shown >= 100 || shown === 0 ? 0 : shown >= 10 ? 1 : 2;
    return shown.toFixed(digits) + "\u00a0" + prefix + sign;
  }

  function duration(ns) {
    const write = (number, unit) => {
      const digits = number < 10 ? 2 : number < 100 ? 1 : 0;
      return number.toFixed(digits) + "\u00a0" + unit;
    };
    if (ns < 10e3) return ns.toFixed(0) + "\u00a0ns";
    if (ns < 10e6) return write(ns / 1e3, "µs");
    if (ns < 10e9) return write(ns / 1e6, "ms");
    return write(ns / 1e9, "s");
  }

  function moment(ns, step) {
    const [unit, name] = step < 1e3 ? [1, "ns"] : step < 1e6 ? [1e3, "µs"] : step < 1e9 ? [1e6, "ms"] : [1e9, "s"];
    return String(Math.round((ns / unit) * 1000) / 1000) + "\u00a0" + name;
  }

  function pattern(kind, draw) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 12;
    const inner = tile.getContext("2d");
    inner.fillStyle = colours[kind];
    inner.fillRect(0, 0, 12, 12);
    inner.strokeStyle = inner.fillStyle = colours[kind + "-ink"];
    inner.lineWidth = 1.6;
    inner.beginPath();
    draw(inner);
    inner.stroke();
    return context.createPattern(tile, "repeat");
  }

  function dress() {
    const style = getComputedStyle(document.documentElement);
    const names = ["card", "ink", "soft", "line", "work", "idle", "idle-ink", "ready", "ready-ink", "blocked", "blocked-ink", "release", "release-ink", "none", "plain"];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
    [colours.unknown, colours["unknown-ink"]] = [colours.none, colours.soft];
    patterns = {
      unknown: pattern("unknown", (it) => { for (const y of [3, 7, 11]) { it.moveTo(0, y); it.lineTo(12, y); } }),
      work: colours.work,
      ready: pattern("ready", (it) => { for (const [x, y] of [[3, 3], [9, 9]]) it.fillRect(x - 1.2, y - 1.2, 2.4, 2.4); }),
      blocked: pattern("blocked", (it) => { it.moveTo(0, 0); it.lineTo(12, 12); it.moveTo(12, 0); it.lineTo(0, 12); }),
      release: pattern("release", (it) => { it.moveTo(3, 0); it.lineTo(3, 12); it.moveTo(9, 0); it.lineTo(9, 12); }),
      idle: pattern("idle", (it) => { it.moveTo(-3, 15); it.lineTo(15, -3); it.moveTo(-3, 3); it.lineTo(3, -3); it.moveTo(9, 15); it.lineTo(15, 9); }),
    };
  }

  function fit() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.max(canvas.parentElement.clientWidth, 100);
    const count = data.threads.length;
    const lane = count <= 16 ? 26 : count <= 64 ? 16 : 10;
    const gap = count <= 64 ? 4 : 1;
    const counter = chosen();
    const mini = counter && counter.each ? (count <= 16 ? 12 : count <= 64 ? 6 : 0) : 0;
    const row = lane + mini + gap;
    const height = BUSY + 8 + count * row + (counter ? COUNT + 6 : 0) + AXIS;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    box = { width, height, left: width < 560 ? 46 : 128, lane, row, mini };
  }

  const plot = () => box.width - box.left;
  const x = (ns) => box.left + ((ns - view[0]) / (view[1] - view[0])) * plot();
  const at = (pixel) => view[0] + ((pixel - box.left) / plot()) * (view[1] - view[0]);
  const top = (lane) => BUSY + 8 + lane * box.row;
  // Where the axis begins.
  const bottom = () => top(data.threads.length) + (chosen() ? COUNT + 6 : 0);

  function text(words, px, py, most, align) {
    context.textAlign = align || "left";
    let shown = words;
    while (shown.length > 1 && context.measureText(shown).width > most) shown = shown.slice(0, -2) + "…";
    context.fillText(shown, px, py);
  }

  // What a lane did: an area for each kind, of which each lies over that of the next. So
  // there are a few fills for a lane, however many pixels it has.
  function drawLane(lane, wide) {
    const count = Math.ceil(plot() / wide);
    const bottom = top(lane) + box.lane;
    const heights = KINDS.map(() => new Float32Array(count));
    const parts = new Float64Array(KINDS.length);
    const seen = KINDS.map(() => false);
    for (let step = 0; step < count; step++) {
      shares(lane, at(box.left + step * wide), at(box.left + (step + 1) * wide), parts);
      let height = 0;
      for (let kind = 0; kind < KINDS.length; kind++) {
        const part = parts[kind] * box.lane;
        if (part >= 0.05) seen[kind] = true;
        height += part;
        heights[kind][step] = height;
      }
    }
    for (let kind = KINDS.length - 1; kind >= 0; kind--) {
      if (!seen[kind]) continue;
      context.fillStyle = patterns[KINDS[kind]];
      area(heights[kind], wide, bottom);
    }
  }

  // The area below steps of so many pixels each.
  function area(heights, wide, bottom) {
    context.beginPath();
    context.moveTo(box.left, bottom);
    let height = 0;
    for (let step = 0; step < heights.length; step++) {
      // Neighbours that are equal are one.
      if (Math.abs(heights[step] - height) < 0.02) continue;
      const x = box.left + step * wide;
      context.lineTo(x, bottom - height);
      height = heights[step];
      context.lineTo(x, bottom - height);
    }
    context.lineTo(box.width, bottom - height);
    context.lineTo(box.width, bottom);
    context.fill();
  }

  function drawBusy() {
    const count = Math.max(data.threads.length, 1);
    context.fillStyle = colours.none;
    context.fillRect(box.left, 0, plot(), BUSY);
    context.fillStyle = colours.work;
    const heights = new Float32Array(Math.ceil(plot()));
    for (let pixel = 0; pixel < heights.length; pixel++) {
      const [from, to] = [at(box.left + pixel), at(box.left + pixel + 1)];
      const all = before(busy, 1, 0, column(to)) - before(busy, 1, 0, column(from));
      heights[pixel] = Math.min(all / ((to - from) / data.step) / count, 1) * BUSY;
    }
    area(heights, 1, BUSY);
    context.fillStyle = colours.soft;
    text("busy", 0, 18, box.left - 8);
    text("0 to " + count, 0, 36, box.left - 8);
  }

  // What was counted of some lanes, which begin so far from the top, to one scale, which is
  // returned. The area is one pixel high at least where something is known.
  function drawRates(strip, lanes, top, high, wide) {
    const count = Math.ceil(plot() / wide);
    const spans = Array.from({ length: count }, (_, step) => [at(box.left + step * wide), at(box.left + (step + 1) * wide)]);
    const found = lanes.map((lane) => spans.map(([from, to]) => rate(strip, lane, from, to)));
    const most = found.flat().reduce((most, it) => Math.max(most, it.rate), 0);
    found.forEach((rates, lane) => {
      const y = top(lane);
      context.fillStyle = colours.none;
      context.fillRect(box.left, y, plot(), high);
      context.fillStyle = patterns.unknown;
      area(Float32Array.from(rates, (it) => (it.partial ? high : 0)), wide, y + high);
      context.fillStyle = colours.plain;
      area(Float32Array.from(rates, (it) => (it.known ? Math.max((it.rate / (most || 1)) * high, 1) : 0)), wide, y + high);
    });
    return most;
  }

  function drawCounter(counter, wide) {
    const y = top(data.threads.length) + 6;
    const each = box.mini ? drawRates(counter.each, data.threads.map((_, lane) => lane), (lane) => top(lane) + box.lane, box.mini, wide) : null;
    const most = drawRates(counter.all, [0], () => y, COUNT, 1);
    const to = "0 to " + amount(most, counter.unit);
    context.fillStyle = colours.card;
    context.fillRect(0, y, box.left, COUNT);
    context.fillStyle = colours.soft;
    text(counter.name, 0, y + 14, box.left - 8);
    // On a phone there is no room for it, but beside the range.
    if (box.left < 100) return counter.name + " " + to;
    text(to, 0, y + 31, box.left - 8);
    if (each !== null) text("a thread: " + amount(each, counter.unit), 0, y + 48, box.left - 8);
    return counter.name + " " + to;
  }

  function draw() {
    waiting = false;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "alphabetic";
    context.fillStyle = colours.card;
    context.fillRect(0, 0, box.width, box.height);
    drawBusy();
    // While it is moved, coarser where there is much.
    const wide = (data.threads.length > 64 ? 2 : 1) * (held.size && data.threads.length > 16 ? 2 : 1);
    data.threads.forEach((thread, lane) => {
      context.fillStyle = colours.none;
      context.fillRect(box.left, top(lane), plot(), box.lane);
      drawLane(lane, wide);
    });
    drawEpisodes();
    context.fillStyle = colours.card;
    context.fillRect(0, BUSY + 4, box.left, box.height);
    data.threads.forEach((thread, lane) => {
      if (box.lane < 12 && lane % 4) return;
      context.fillStyle = colours.ink;
      const words = box.left < 100 ? thread.label : thread.label + " " + thread.name;
      text(words, 0, top(lane) + box.lane / 2 + 4, box.left - 8);
    });
    const counter = chosen();
    const scale = counter ? " · " + drawCounter(counter, wide) : "";
    drawAxis();
    const unit = (view[1] - view[0]) / 4;
    range.textContent = moment(view[0], unit) + " to " + moment(view[1], unit) + scale;
  }

  // Where a piece of time is wide, what is known of an episode is drawn as it was.
  function drawEpisodes() {
    if ((data.step / (view[1] - view[0])) * plot() < 2) return;
    for (const episode of episodes) {
      for (const [lane, arrived, work, release] of episode.seen) {
        const from = work === null ? arrived : arrived - work;
        const to = episode.last + (release || 0);
        if (to < view[0] || from > view[1]) continue;
        const part = (kind, a, b) => {
          const [left, right] = [Math.max(x(a), box.left), Math.min(x(b), box.width)];
          if (right <= left) return;
          context.fillStyle = patterns[kind];
          context.fillRect(left, top(lane), right - left, box.lane);
        };
        part("work", from, arrived);
        part("idle", arrived, episode.last);
        part("release", episode.last, to);
      }
      const line = x(episode.last);
      if (line < box.left || line > box.width) continue;
      context.fillStyle = colours.ink;
      context.fillRect(line - 0.5, BUSY + 4, 1, top(data.threads.length) - BUSY - 4);
    }
  }

  function drawAxis() {
    const span = view[1] - view[0];
    const rough = (span / plot()) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(power * [1, 2, 5, 10].find((factor) => power * factor >= rough), 1);
    context.fillStyle = colours.soft;
    const y = bottom();
    for (let tick = Math.ceil(view[0] / step) * step; tick <= view[1]; tick += step) {
      const pixel = x(tick);
      context.fillRect(pixel, y, 1, 5);
      const words = moment(tick, step);
      const width = context.measureText(words).width;
      if (pixel + width / 2 <= box.width && pixel - width / 2 >= box.left - 20) text(words, pixel, y + 18, 200, "center");
    }
  }

  function later() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(draw);
  }

  function show(from, to) {
    const span = Math.min(Math.max(to - from, LEAST), wall - start);
    const middle = (from + to) / 2;
    const begin = Math.min(Math.max(middle - span / 2, start), wall - span);
    view = [begin, begin + span];
    tip.hidden = true;
    later();
  }

  function zoom(factor, around) {
    const centre = around === undefined ? (view[0] + view[1]) / 2 : around;
    const span = Math.min(Math.max((view[1] - view[0]) * factor, LEAST), wall - start);
    const share = (centre - view[0]) / (view[1] - view[0]);
    const begin = centre - share * span;
    show(begin, begin + span);
  }

  const move = (share) => {
    const by = (view[1] - view[0]) * share;
    show(view[0] + by, view[1] + by);
  };

  function focus(episode) {
    if (!episode) return;
    const begins = episode.seen.map(([, arrived, work]) => arrived - (work || 0));
    const from = Math.min(episode.first, ...begins);
    const margin = Math.max((episode.last - from) * 0.15, LEAST);
    show(from - margin, episode.last + margin);
  }

  const worst = () => episodes.reduce((a, b) => (a && a.lost >= b.lost ? a : b), null);
  const acts = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25),
    all: () => show(start, wall), worst: () => focus(worst()), last: () => focus(episodes[episodes.length - 1]),
  };
  for (const button of root.querySelectorAll("button[data-act]")) {
    button.disabled = !episodes.length && ["worst", "last"].includes(button.dataset.act);
    button.addEventListener("click", () => acts[button.dataset.act]());
  }
  if (chooser) {
    chooser.addEventListener("change", anew);
    acts.next = () => {
      chooser.selectedIndex = (chooser.selectedIndex + 1) % chooser.options.length;
      anew();
    };
  }
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", w: "worst", l: "last" };
  if (chooser) keys.c = "next";
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[act]();
  });
  canvas.addEventListener("wheel", (event) => {
    // The plain wheel scrolls the page.
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), at(event.offsetX));
    else move(event.deltaX / plot());
  }, { passive: false });

  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, event.offsetX);
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("held");
  });
  const release = (event) => {
    held.delete(event.pointerId);
    if (held.size) return;
    canvas.classList.remove("held");
    later();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (before === undefined) return explain(event);
    if (held.size === 2) {
      const [other] = [...held].filter(([id]) => id !== event.pointerId).map(([, px]) => px);
      const [was, is] = [Math.abs(before - other), Math.abs(event.offsetX - other)];
      if (was > 8 && is > 8) zoom(was / is, at((event.offsetX + other) / 2));
    } else {
      move((before - event.offsetX) / plot());
    }
    held.set(event.pointerId, event.offsetX);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

  function explain(event) {
    const lane = Math.floor((event.offsetY - BUSY - 8) / box.row);
    const thread = data.threads[lane];
    const counter = chosen();
    const isAll = counter && event.offsetY >= top(data.threads.length) && event.offsetY < bottom();
    if (!(thread || isAll) || event.offsetX < box.left) {
      tip.hidden = true;
      return;
    }
    const ns = at(event.offsetX);
    tip.textContent = (isAll ? explainAll(counter, ns) : explainThread(thread, lane, counter, ns)).join("\n");
    tip.hidden = false;
    const right = event.offsetX > box.width / 2;
    const left = right ? event.offsetX - tip.offsetWidth - 12 : event.offsetX + 12;
    tip.style.left = Math.max(left, 0) + "px";
    tip.style.top = Math.min(event.offsetY + 12, Math.max(box.height - tip.offsetHeight, 0)) + "px";
  }

  // A counter's rate about a moment, and how far about.
  function counted(counter, strip, lane, ns) {
    const half = Math.max((view[1] - view[0]) / plot(), strip.step) / 2;
    const { rate: found, known, partial } = rate(strip, lane, Math.max(ns - half, start), Math.min(ns + half, wall));
    const words = known ? (partial ? "at least " : "") + amount(found, counter.unit) : partial ? "?" : "not counted here";
    return [counter.name + ": " + words, half];
  }

  function explainAll(counter, ns) {
    const [words, half] = counted(counter, counter.all, 0, ns);
    return ["all threads", moment(ns, half) + " ± " + duration(half), words];
  }

  function explainThread(thread, lane, counter, ns) {
    const lines = [thread.label + " " + thread.name];
    const found = (data.step / (view[1] - view[0])) * plot() >= 2 && exact(lane, ns);
    if (found) {
      lines.push(...found);
    } else {
      const half = Math.max((view[1] - view[0]) / plot(), data.step) / 2;
      lines.push(moment(ns, half) + " ± " + duration(half));
      const parts = shares(lane, Math.max(ns - half, start), Math.min(ns + half, wall), []);
      KINDS.forEach((kind, at) => {
        if (parts[at] > 0.001) lines.push(kind + " " + (parts[at] * 100).toFixed(parts[at] < 0.1 ? 1 : 0) + "\u00a0%");
      });
      if (lines.length === 2) lines.push("not known, or between parallel regions");
    }
    if (counter && counter.each) lines.push(counted(counter, counter.each, lane, ns)[0]);
    return lines;
  }

  function exact(lane, ns) {
    for (const episode of episodes) {
      const mine = episode.seen.find(([thread]) => thread === lane);
      if (!mine) continue;
      const [, arrived, work, release] = mine;
      const parts = [
        ["work", work === null ? arrived : arrived - work, arrived],
        ["idle", arrived, episode.last],
        ["release", episode.last, episode.last + (release || 0)],
      ];
      const part = parts.find(([, from, to]) => from <= ns && ns < to);
      if (!part) continue;
      const site = data.sites[episode.site] || "?";
      return [part[0] + " " + duration(part[2] - part[1]), site + ", episode " + (episode.index + 1)];
    }
    return null;
  }

  function anew() {
    dress();
    fit();
    draw();
  }
  root.hidden = false;
  anew();
  new ResizeObserver(() => { if (canvas.parentElement.clientWidth !== box.width) anew(); }).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
  // Paper is white.
  const paper = (on) => () => {
    document.documentElement.classList.toggle("paper", on);
    for (const part of document.querySelectorAll("details")) part.open = on || part.dataset.open === "1";
    anew();
  };
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.dataset.open = part.open ? "1" : "0";
    paper(true)();
  });
  addEventListener("afterprint", paper(false));
})();
