'use strict';
// Draws the report from the data block. A panel is one GPU and setting; the pin is the place that is read out.

const R = JSON.parse(document.getElementById('data').textContent);
const $ = query => document.querySelector(query);
const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const esc = text => String(text).replace(/[&<>"']/g, sign => ESCAPES[sign]);

// ── numbers: three significant digits, a unit always, a real minus sign ──
const int = value => Math.round(value).toLocaleString('en-US');
const sig = (value, digits = 3) => {
  if (value === 0) return '0';
  const rounded = +value.toPrecision(digits), size = Math.abs(rounded);
  if (size >= 1000) return int(value).replace('-', '−');
  return rounded.toFixed(Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(size))))).replace('-', '−');
};
const pct = (share, signed = true) => (share < 0 ? '−' : signed ? '+' : '') + Math.abs(share * 100).toFixed(1) + '\u00a0%';
const duration = ms => ms >= 1e4 ? `${sig(ms / 1e3)} s` : ms < 0.1 ? `${sig(ms * 1e3)} µs` : `${sig(ms)} ms`;
const flops = tera => tera >= 0.1 ? `${sig(tera)} TFLOP/s` : tera >= 1e-4 ? `${sig(tera * 1e3)} GFLOP/s` : `${sig(tera * 1e6)} MFLOP/s`;
const SIZES = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [0, 'B']];
const bytes = size => { const [unit, name] = SIZES.find(([unit]) => size >= unit); return `${sig(size / (unit || 1))} ${name}`; };
const round = size => { const [unit, name] = SIZES.find(([unit]) => size >= unit); return `${plain(size / (unit || 1))} ${name}`; };
const like = (size, other) => { const [unit, name] = SIZES.find(([unit]) => other >= unit); return `${sig(size / (unit || 1))} ${name}`; };
const words = status => status.replace(/_/g, ' ');
const short = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
const MOST_LETTERS = 24; // of a name in a drawing
const letters = text => String(text).length * 6.9; // width in pixels of 12.5 px Helvetica, on the safe side

// ── panels: rows become objects once, when a panel is first shown ──
const word = number => number === null ? null : R.words[number];
const record = (columns, row) => Object.fromEntries(columns.map((name, at) => [name, row[at]]));
function point(row) {
  const p = record(R.point_columns, row);
  for (const name of ['status', 'reason', 'fix', 'bound_by', 'bottleneck', 'note']) p[name] = word(p[name]);
  p.kernels = p.kernels.map(kernel => { const k = record(R.kernel_columns, kernel); k.name = word(k.name); return k; });
  p.ok = p.status === 'ok';
  p.hbm_bytes = p.hbm_read_bytes === null ? null : p.hbm_read_bytes + p.hbm_write_bytes;
  return p;
}
const opened = new Map();
function open(number) {
  if (!opened.has(number)) {
    const raw = R.panels[number];
    const series = raw.series.map((s, i) => ({ ...s, i, points: s.points.map(row => row && point(row)), measured: raw.places.map(() => []) }));
    for (const [s, place, latency_ms, source, error] of raw.measured) series[s].measured[place].push({ latency_ms, source: word(source), error });
    const loose = raw.loose.map(([s, x, latency_ms, source]) => ({ s: series[s], x, latency_ms, source: word(source) }));
    const xs = raw.places.map(place => place[0]), labels = raw.places.map(place => place[1]);
    opened.set(number, { ...raw, series, loose, xs, labels, count: xs.length, number });
  }
  return opened.get(number);
}
const at = (panel, place) => panel.axis.symbol ? `${panel.axis.symbol} = ${panel.labels[place]}` : panel.labels[place];
const listed = items => items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items[items.length - 1]}`;

let D = null, pin = 0, over = null, subject = 0, shown = [];

// ── looks: the baseline in ink, one accent, others in grey; shape and dash tell them apart without colour ──
const LOOKS = {
  baseline: { tone: 0, shape: 0, dash: '' }, subject: { tone: 2, shape: 2, dash: '' },
  others: [{ tone: 1, shape: 1, dash: '6 3' }, { tone: 1, shape: 3, dash: '2 3' }, { tone: 1, shape: 2, dash: '9 3 2 3' }],
};
const MOST_SHOWN = 4;
function choose(panel) {
  subject = Math.min(subject, panel.series.length - 1);
  const place = panel.place ?? 0, speed = s => { const p = s.points[place]; return p && p.ok ? p.latency_ms : Infinity; };
  const main = new Set([panel.baseline, subject]);
  const rest = panel.series.filter(s => !main.has(s.i)).sort((a, b) => speed(a) - speed(b) || a.i - b.i);
  const kept = new Set([...main, ...rest.slice(0, MOST_SHOWN - main.size).map(s => s.i)]);
  let other = 0;
  for (const s of panel.series) {
    s.look = s.i === panel.baseline ? LOOKS.baseline : s.i === subject ? LOOKS.subject : kept.has(s.i) ? LOOKS.others[other++ % 3] : LOOKS.others[0];
    s.color = `var(--series-${s.look.tone})`;
  }
  shown = panel.series.filter(s => kept.has(s.i));
}

// ── drawing ──
const mark = (shape, x, y, r, fill, color) => [
  `<rect x="${x - r}" y="${y - r}" width="${2 * r}" height="${2 * r}"`, `<circle cx="${x}" cy="${y}" r="${r * 1.12}"`,
  `<path d="M${x} ${y - r * 1.3}l${r * 1.3} ${r * 2.3}h${-2.6 * r}z"`,
  `<path d="M${x} ${y - r * 1.35}l${r * 1.35} ${r * 1.35}l${-r * 1.35} ${r * 1.35}l${-r * 1.35} ${-r * 1.35}z"`,
][shape] + ` fill="${fill}" stroke="${color}" stroke-width="1.8"/>`;
const cross = (x, y, color = 'var(--ink)') => `<path class="status" d="M${x - 5} ${y - 5}l10 10m0 -10l-10 10" stroke="${color}" stroke-width="2.2" fill="none"/>`;
const barred = (x, y) => `<g class="status"><circle cx="${x}" cy="${y}" r="5" fill="var(--bg)" stroke="var(--muted)" stroke-width="1.8"/><path d="M${x - 3.5} ${y + 3.5}l7 -7" stroke="var(--muted)" stroke-width="1.8"/></g>`;
const sign = (status, x, y) => status === 'out_of_memory' || status === 'error' ? cross(x, y) : barred(x, y);
const SIGNS = { out_of_memory: '✕', error: '✕', refused: '⊘', unsupported: '⊘' };
const text = (x, y, content, style = '', anchor = 'start') => `<text x="${x}" y="${y}" class="${style}" text-anchor="${anchor}">${esc(content)}</text>`;
const line = (x1, y1, x2, y2, color = 'var(--grid)', width = 1, dash = '') => `<path d="M${x1} ${y1}L${x2} ${y2}" stroke="${color}" stroke-width="${width}" stroke-dasharray="${dash}" fill="none"/>`;
const log = (d0, d1, r0, r1) => value => d0 === d1 ? (r0 + r1) / 2 : r0 + (Math.log(value) - Math.log(d0)) / (Math.log(d1) - Math.log(d0)) * (r1 - r0);
const lin = (d0, d1, r0, r1) => value => r0 + (value - d0) / (d1 - d0 || 1) * (r1 - r0);
const ok = s => s.points.map((p, place) => ({ p, place })).filter(item => item.p && item.p.ok);
const key = s => `<svg class="key" viewBox="0 0 26 14" aria-hidden="true"><path d="M0 7h26" stroke="${s.color}" stroke-width="2.2" stroke-dasharray="${s.look.dash}"/>${mark(s.look.shape, 13, 7, 4, 'var(--bg)', s.color)}</svg>`;
const width = query => Math.max(240, $(query).parentNode.clientWidth);
function put(query, W, H, content, label) {
  const element = $(query);
  element.setAttribute('viewBox', `0 0 ${W} ${H}`);
  element.innerHTML = content;
  if (label) element.setAttribute('aria-label', label);
}
// A line through neighbours; it breaks where a place has no value.
function path(s, x, y, value, stroke = 2.2) {
  let d = '', last = -2;
  for (const { p, place } of ok(s)) {
    if (value(p) === null) continue;
    d += `${last === place - 1 || s.points.slice(last + 1, place).every(q => q === null) && last >= 0 ? 'L' : 'M'}${x(D.xs[place]).toFixed(1)} ${y(value(p)).toFixed(1)}`;
    last = place;
  }
  return `<path class="line" d="${d}" fill="none" stroke="${s.color}" stroke-width="${stroke}" stroke-dasharray="${s.look.dash}" stroke-linejoin="round"/>`;
}
// Round bounds and ticks of a logarithmic axis: decades, or 1-2-5 where there are few.
function logTicks(low, high) {
  const steps = [];
  for (let exponent = Math.floor(Math.log10(low)) - 1; exponent <= Math.ceil(Math.log10(high)) + 1; exponent++) for (const m of [1, 2, 5]) steps.push(+`${m}e${exponent}`);
  const from = steps.findLastIndex(step => step <= low * 1.0001), to = steps.findIndex(step => step >= high / 1.0001);
  let ticks = steps.slice(from, Math.max(to, from + 1) + 1);
  const domain = [ticks[0], ticks[ticks.length - 1]];
  if (ticks.length > 7) ticks = ticks.filter(tick => Number.isInteger(+Math.log10(tick).toFixed(9)));
  while (ticks.length > 9) ticks = ticks.filter((_, i) => i % 2 === 0);
  return { domain, ticks };
}
const plain = value => value >= 1000 ? int(value) : String(+value.toPrecision(3)).includes('e') ? value.toExponential(0).replace('-', '−') : String(+value.toPrecision(3));
// Labels of places that fit beside each other; the last place always has one.
function placeTicks(x, y, right) {
  const items = D.labels.map((label, place) => ({ label: short(label, 16), X: x(D.xs[place]) }));
  const kept = []; let limit = Infinity;
  for (const item of [...items].reverse()) {
    const half = letters(item.label) / 2, end = Math.min(item.X + half, right);
    if (end < limit - 6 && (kept.length === 0 || item.X < kept[kept.length - 1].X)) { kept.push({ ...item, end }); limit = end - 2 * half; }
  }
  const every = items.length <= 60 ? items.map(item => line(item.X, y, item.X, y + 4, 'var(--rule)')).join('') : '';
  return every + kept.map(item => line(item.X, y, item.X, y + 4, 'var(--muted)') + text(item.end, y + 17, item.label, 'muted', 'end')).join('');
}
// Puts labels where no other label lies: each moves up and down from where it wants to be.
function placed(labels, top, bottom, obstacles = []) {
  const boxes = [...obstacles];
  return labels.map(label => {
    const w = letters(label.text), left = label.anchor === 'end' ? label.x - w : label.anchor === 'middle' ? label.x - w / 2 : label.x;
    const free = y => y >= top + 10 && y <= bottom && boxes.every(box => left > box.right || left + w < box.left || Math.abs(y - box.y) >= 14);
    let y = label.y;
    for (let step = 0; step < 60 && !free(y); step++) y = label.y + (step % 2 ? 1 : -1) * 4 * Math.ceil((step + 1) / 2);
    boxes.push({ left, right: left + w, y });
    return `<text x="${label.x}" y="${y}" text-anchor="${label.anchor}" class="bold halo" style="fill:${label.color}">${esc(label.text)}</text>`;
  }).join('');
}
const pinned = query => document.querySelectorAll('.pin').forEach(element => { element.innerHTML = `<b>${esc(at(D, pin))}</b>`; });
const hide = (id, is) => { $('#' + id).hidden = is; };

// ── latency, with what was not run above and the signed error below ──
const extent = values => [Math.min(...values), Math.max(...values)];
function latencies(panel) {
  const values = [];
  for (const s of panel.series) for (const { p, place } of ok(s)) values.push(p.latency_ms, p.latency_lo_ms ?? p.latency_ms, p.latency_hi_ms ?? p.latency_ms, ...s.measured[place].map(m => m.latency_ms));
  return values.concat(panel.loose.map(m => m.latency_ms));
}
function drawLatency() {
  $('#h-latency').textContent = D.count > 1 ? `Latency against ${D.axis.title}` : `Latency at ${at(D, 0)}`;
  const hasMeasured = shown.some(s => s.measured.some(m => m.length)) || D.loose.length > 0;
  const hasBand = shown.some(s => ok(s).some(({ p }) => p.latency_lo_ms !== null));
  const legend = [D.axis.is_line ? 'lines are simulated' : 'filled shapes are simulated', hasBand ? 'their error band shaded' : '', hasMeasured ? 'open shapes measured' : ''].filter(Boolean).join(', ');
  if (D.count === 1) { drawBars(hasMeasured); return; }
  $('#latency-sub').textContent = `Milliseconds, both axes logarithmic; ${legend}. ${hasMeasured ? 'Below, on the same axis, the signed error. ' : ''}Point, tap or use ← → to read a place.`;
  $('#latency-legend').innerHTML = shown.map(s => `<span>${key(s)}${esc(s.name)}</span>`).join('');
  const W = width('#latency'), small = W < 560, names = shown.map(s => short(s.name, MOST_LETTERS));
  const L = 50, right = small ? 14 : Math.max(...names.map(letters)) + 22, all = latencies(D);
  const xs = D.xs.concat(D.loose.map(m => m.x)), [x0, x1] = extent(xs), x = log(x0, x1, L + 18, W - right - 18);
  let out = '', y = 4;
  for (const s of shown) {
    const bad = s.points.map((p, place) => ({ p, place })).filter(item => item.p && !item.p.ok);
    if (!bad.length) continue;
    const everywhere = bad.length === s.points.filter(Boolean).length && bad.length > 1;
    const label = short(`${s.name}: ${words(bad[0].p.status)}${everywhere ? ' everywhere' : ''}`, Math.floor((W - L) / 7));
    out += text(L, y + 12, label, 'muted');
    if (x(D.xs[bad[0].place]) < L + letters(label) + 20) y += 17;
    if (bad.length > 1) out += line(x(D.xs[bad[0].place]), y + 8, x(D.xs[bad[bad.length - 1].place]), y + 8, 'var(--rule)', 1.5);
    out += bad.map(({ p, place }) => sign(p.status, x(D.xs[place]), y + 8)).join('');
    y += 21;
  }
  const T = y + 8, B = T + (small ? 250 : 330), { domain, ticks } = all.length ? logTicks(...extent(all)) : { domain: [0.1, 1], ticks: [] }, ly = log(...domain, B, T);
  out += line(L, T, W - right, T, 'var(--rule)') + line(L, B, W - right, B, 'var(--rule)');
  for (const tick of ticks) out += line(L, ly(tick), W - right, ly(tick)) + text(L - 7, ly(tick) + 4, plain(tick), 'muted', 'end');
  out += text(0, T - 5 + (ticks.length && ly(ticks[ticks.length - 1]) - T < 14 ? 24 : 12), 'ms', 'muted bold');
  for (const s of shown) {
    const band = ok(s).filter(({ p }) => p.latency_lo_ms !== null);
    if (!band.length) continue;
    const up = ({ p, place }) => `${x(D.xs[place])} ${ly(p.latency_hi_ms)}`, down = ({ p, place }) => `${x(D.xs[place])} ${ly(p.latency_lo_ms)}`;
    if (D.axis.is_line && band.length > 1) out += `<path class="band" d="M${band.map(up).join('L')}L${[...band].reverse().map(down).join('L')}z" fill="${s.color}" fill-opacity=".2"/>`;
    else out += band.map(item => `<path class="band" d="M${up(item)}L${down(item)}" stroke="${s.color}" stroke-width="5" stroke-opacity=".25"/>`).join('');
  }
  const many = D.count > 200;
  for (const s of shown) {
    if (D.axis.is_line) out += path(s, x, ly, p => p.latency_ms);
    if (!D.axis.is_line || ok(s).length === 1) out += ok(s).map(({ p, place }) => mark(s.look.shape, x(D.xs[place]), ly(p.latency_ms), 2.4, s.color, s.color)).join('');
    s.measured.forEach((list, place) => list.forEach(m => { out += `<g class="measured">${mark(s.look.shape, x(D.xs[place]), ly(m.latency_ms), many ? 3 : 4.4, D.axis.is_line ? 'var(--bg)' : 'none', s.color)}</g>`; }));
  }
  for (const m of D.loose) if (shown.includes(m.s)) out += `<g class="measured">${mark(m.s.look.shape, x(m.x), ly(m.latency_ms), 4.4, 'var(--bg)', m.s.color)}</g>`;
  if (!small && D.axis.is_line) {
    const ends = shown.filter(s => ok(s).length).map(s => {
      const last = ok(s)[ok(s).length - 1], isEarly = last.place < D.count - 1;
      return { text: short(s.name, MOST_LETTERS), color: s.color, anchor: isEarly ? 'end' : 'start', x: x(D.xs[last.place]) + (isEarly ? -8 : 14), y: ly(last.p.latency_ms) + (isEarly ? -12 : 4) };
    });
    out += placed(ends, T - 6, B);
  }
  let bottom = B;
  if (shown.some(s => s.measured.some(m => m.length))) {
    const T2 = B + 28, B2 = T2 + 92, largest = Math.max(...shown.flatMap(s => s.measured.flat().map(m => Math.abs(m.error))));
    const limit = [0.05, 0.1, 0.2, 0.5, 1].find(step => step >= largest) ?? 1, ey = lin(-limit, limit, B2, T2), clip = e => Math.max(-limit, Math.min(limit, e));
    const shade = Math.min(0.1, limit);
    out += `<rect x="${L}" y="${ey(shade)}" width="${W - right - L}" height="${ey(-shade) - ey(shade)}" fill="var(--sunk)"/>`;
    for (const e of [-limit, -limit / 2, 0, limit / 2, limit]) out += line(L, ey(e), W - right, ey(e), e ? 'var(--grid)' : 'var(--muted)') + text(L - 7, ey(e) + 4, (e > 0 ? '+' : e < 0 ? '−' : '') + +(Math.abs(e) * 100).toPrecision(3), 'muted', 'end');
    out += text(L, T2 - 8, `${small ? 'signed error' : 'signed error of simulated against measured'}, % (shaded: ±${shade * 100} %)`, 'muted');
    shown.forEach((s, n) => s.measured.forEach((list, place) => list.forEach(m => {
      const X = x(D.xs[place]) + (many || !D.axis.is_line ? 0 : (n - (shown.length - 1) / 2) * 8);
      out += `<g class="residual">${line(X, ey(0), X, ey(clip(m.error)), s.color, 2)}${mark(s.look.shape, X, ey(clip(m.error)), 3.6, 'var(--bg)', s.color)}</g>`;
    })));
    bottom = B2 + 4;
    out += line(L, bottom, W - right, bottom, 'var(--rule)');
  }
  out += placeTicks(x, bottom, W - 2) + text(W - right, bottom + 36, D.axis.label, 'muted', 'end') + '<g id="cursor"></g>';
  put('#latency', W, bottom + 42, out);
  Object.assign($('#latency'), { xOf: x, geometry: { T, B, bottom, ly } });
  drawCursor();
}
// One place has no axis: latencies as bars, with band and measurement on them.
function drawBars(hasMeasured) {
  $('#latency-sub').textContent = `Bars are simulated, with their error band as a whisker${hasMeasured ? '; open shapes are measured' : ''}.`;
  $('#latency-legend').innerHTML = '';
  const W = width('#latency'), rows = D.series.slice(0, 40), above = Math.max(...rows.map(s => letters(s.name))) > W * 0.34, L = above ? 0 : Math.max(...rows.map(s => letters(s.name))) + 12;
  const top = Math.max(...latencies(D), 1e-9), x = lin(0, top, 0, W - L - 92);
  let out = '', y = 2;
  for (const s of rows) {
    const p = s.points[0];
    out += text(0, y + 15, above ? short(s.name, Math.floor(W / 7)) : s.name, s.i === subject ? 'bold' : '');
    if (above) y += 20;
    if (!p || !p.ok) out += p ? text(L, y + 15, `${SIGNS[p.status]} ${words(p.status)}`, 'muted') : '';
    else {
      out += `<rect class="bar" x="${L}" y="${y + 2}" width="${Math.max(1, x(p.latency_ms))}" height="18" fill="${s.color}"/>`;
      let end = p.latency_ms;
      if (p.latency_lo_ms !== null) { out += line(L + x(p.latency_lo_ms), y + 11, L + x(p.latency_hi_ms), y + 11, 'var(--muted)', 3); end = Math.max(end, p.latency_hi_ms); }
      for (const m of s.measured[0]) { out += `<g class="measured">${mark(s.look.shape, L + x(m.latency_ms), y + 11, 4.4, 'var(--bg)', s.color)}</g>`; end = Math.max(end, m.latency_ms); }
      out += text(L + x(end) + 10, y + 16, duration(p.latency_ms));
    }
    y += 30;
  }
  put('#latency', W, y, out, `Latency at ${at(D, 0)}`);
  $('#latency').geometry = null;
  speak();
}
function drawCursor() {
  const svg = $('#latency'), cursor = $('#cursor');
  if (cursor && svg.geometry) {
    const { T, bottom, ly } = svg.geometry, X = svg.xOf(D.xs[over ?? pin]);
    cursor.innerHTML = line(X, T, X, bottom, 'var(--muted)', 1, over === null ? '' : '3 3') + shown.map(s => s.points[over ?? pin]).map((p, n) => p && p.ok ? `<circle cx="${X}" cy="${ly(p.latency_ms)}" r="3" fill="${shown[n].color}"/>` : '').join('');
  }
  speak();
}
const spoken = () => { const place = over ?? pin; return `${at(D, place)}: ` + shown.map(s => { const p = s.points[place]; return `${s.name} ${!p ? 'not asked' : p.ok ? duration(p.latency_ms) : words(p.status)}`; }).join(', '); };
function speak() {
  const svg = $('#latency');
  svg.setAttribute('aria-valuemin', 1);
  svg.setAttribute('aria-valuemax', D.count);
  svg.setAttribute('aria-valuenow', (over ?? pin) + 1);
  svg.setAttribute('aria-valuetext', spoken());
}
function drawRead() {
  const place = over ?? pin, note = shown.map(s => s.points[place]?.note).find(Boolean);
  const rate = p => p.tflops ? flops(p.tflops) : p.gb_per_s ? `${sig(p.gb_per_s)} GB/s` : '';
  const row = s => {
    const p = s.points[place], m = s.measured[place], head = `<th scope="row">${key(s)}${esc(s.name)}</th>`;
    if (!p) return `<tr>${head}<td colspan="3">–</td></tr>`;
    if (!p.ok) return `<tr>${head}<td colspan="3" class="wrap">${SIGNS[p.status]} ${words(p.status)}<small>${esc(p.reason ?? '')}</small></td></tr>`;
    const band = p.latency_lo_ms === null ? 'no error band' : `${duration(p.latency_lo_ms)} – ${duration(p.latency_hi_ms)}`;
    return `<tr>${head}<td>${duration(p.latency_ms)}<small>${band}</small><small>${rate(p)}</small></td><td>${m.length ? m.map(one => duration(one.latency_ms)).join('<br>') : '–'}</td><td>${m.length ? m.map(one => pct(one.error)).join('<br>') : '–'}</td></tr>`;
  };
  const best = D.series[subject], p = best.points[place];
  const why = p && p.ok ? `${best.name} is ${p.bottleneck === 'latency' ? 'limited by latency' : `limited by ${BOTTLENECKS[p.bottleneck] ?? p.bottleneck}`}${p.bound_ms ? `; its closed-form bound is ${duration(p.bound_ms)}` : ''}${p.hbm_bytes === null ? '' : `. HBM: ${bytes(p.hbm_bytes)}`}${p.extra_memory_bytes === null ? '' : `, extra memory: ${bytes(p.extra_memory_bytes)}`}.` : '';
  const steps = D.count > 1 ? '<button type="button" data-step="-1" aria-label="Previous place">◂</button><button type="button" data-step="1" aria-label="Next place">▸</button>' : '';
  const rest = D.series.length - shown.length;
  $('#read').innerHTML = `<div class="at"><b>${esc(at(D, place))}</b>${steps}</div>${note ? `<p class="sub">${esc(note)}</p>` : ''}<table><thead><tr><th scope="col">series</th><th scope="col">simulated</th><th scope="col">measured</th><th scope="col">error</th></tr></thead><tbody>${shown.map(row).join('')}</tbody></table><p class="sub">${esc(why)}${rest > 0 ? ` ${rest} more series in the table and below.` : ''}</p>`;
}
const BOTTLENECKS = { 'compute pipe': 'the compute pipe', hbm: 'HBM bandwidth', l2: 'L2 bandwidth', launch: 'its launches' };

// ── small multiples ──
function mini(panel, lines, domain) {
  const W = 196, H = 92, [x0, x1] = extent(panel.xs), x = log(x0, x1, 6, W - 6), y = log(...domain, H - 20, 6);
  const draw = ({ s, color, stroke, isMain }) => {
    const d = ok(s);
    if (!d.length) return isMain ? text(6, 66, words(s.points.find(Boolean)?.status ?? 'no point'), 'muted') : '';
    if (d.length === 1 || !panel.axis.is_line) return d.map(({ p, place }) => `<circle cx="${x(panel.xs[place])}" cy="${y(p.latency_ms)}" r="${stroke}" fill="${color}"/>`).join('');
    return `<path d="M${d.map(({ p, place }) => `${x(panel.xs[place]).toFixed(1)} ${y(p.latency_ms).toFixed(1)}`).join('L')}" fill="none" stroke="${color}" stroke-width="${stroke}"/>`;
  };
  const first = short(panel.labels[0], 12), last = short(panel.labels[panel.count - 1], 12);
  return `<svg viewBox="0 0 ${W} ${H}" aria-hidden="true">${line(0, H - 18, W, H - 18, 'var(--rule)')}${lines.map(draw).join('')}${text(0, H - 4, first, 'muted')}${panel.count > 1 ? text(W, H - 4, last, 'muted', 'end') : ''}</svg>`;
}
const MOST_MULTIPLES = 24;
function drawPanels() {
  if (R.panels.length < 2) return;
  const few = R.panels.slice(0, MOST_MULTIPLES).map((_, number) => open(number)), values = few.flatMap(latencies);
  const domain = values.length ? logTicks(...extent(values)).domain : [0.1, 1];
  const left = R.panels.length - few.length;
  $('#panels-sub').textContent = `${R.panels.length} settings, latency from ${duration(domain[0])} to ${duration(domain[1])} on one logarithmic scale: the baseline in ink, the fastest in colour. Choose one to see it below${left > 0 ? `; ${left} more in the list` : ''}.`;
  $('#multiples').innerHTML = few.map(panel => {
    const lines = [...panel.series.filter(s => s.i !== panel.baseline && s.i !== panel.subject).map(s => ({ s, color: 'var(--series-1)', stroke: 1.2 })), { s: panel.series[panel.baseline], color: 'var(--series-0)', stroke: 2 }];
    if (panel.subject !== panel.baseline) lines.push({ s: panel.series[panel.subject], color: 'var(--series-2)', stroke: 2.2 });
    const p = panel.place === null ? null : panel.series[panel.subject].points[panel.place];
    const says = p ? `${panel.series[panel.subject].name} ${duration(p.latency_ms)} at ${at(panel, panel.place)}` : 'nothing simulated';
    return `<button type="button" data-panel="${panel.number}" aria-pressed="${panel === D}">${esc(panel.title || panel.gpu)}<small>${esc(says)}</small>${mini(panel, lines, domain)}</button>`;
  }).join('');
  $('#panel').innerHTML = R.panels.map((panel, number) => `<option value="${number}"${number === D.number ? ' selected' : ''}>${esc(panel.title || panel.gpu)}</option>`).join('');
}
function drawEach() {
  const many = D.series.length > MOST_SHOWN && D.count > 1;
  hide('s-each', !many);
  if (!many) return;
  const values = latencies(D), domain = values.length ? logTicks(...extent(values)).domain : [0.1, 1], base = D.series[D.baseline];
  $('#each').innerHTML = D.series.map(s => {
    const lines = [...D.series.filter(other => other !== s && other !== base).map(other => ({ s: other, color: 'var(--rule)', stroke: 1 })), { s: base, color: 'var(--series-0)', stroke: 1.6 }];
    if (s !== base) lines.push({ s, color: 'var(--series-2)', stroke: 2.2, isMain: true });
    const place = D.place ?? 0, p = s.points[place];
    return `<button type="button" data-series="${s.i}" aria-pressed="${s.i === subject}">${esc(s.name)}<small>${p ? (p.ok ? duration(p.latency_ms) : words(p.status)) : 'not asked'} at ${esc(at(D, place))}</small>${mini(D, lines, domain)}</button>`;
  }).join('');
}

// ── errors by series ──
const ROLES = { held_out: 'held out: not used to fit', fitted: 'fitted: constants saw it' };
function drawErrors() {
  hide('s-errors', !D.errors.length);
  if (!D.errors.length) return;
  const limit = Math.max(0.05, ...D.errors.map(e => Math.abs(e.worst)));
  $('#errors-sub').textContent = `Error = simulated / measured − 1. ${D.count > 1 ? `Bars run from ${at(D, 0)} to ${D.labels[D.count - 1]}, all on one scale of ±${sig(limit * 100, 2)} %.` : ''}`;
  const look = e => D.series[e.series], bars = e => {
    const s = look(e), w = 200, h = 36, step = w / D.count, y = lin(-limit, limit, h, 0), found = s.measured.flatMap((list, place) => list.filter(m => m.source === e.source).map(m => ({ place, error: m.error })));
    return `<svg class="error-bars" viewBox="0 0 ${w} ${h}" preserveAspectRatio="none" role="img" aria-label="${esc(found.slice(0, 40).map(m => `${D.labels[m.place]}: ${pct(m.error)}`).join(', '))}">${line(0, h / 2, w, h / 2, 'var(--muted)')}${found.map(m => `<rect x="${m.place * step + step * 0.12}" y="${y(Math.max(0, m.error))}" width="${step * 0.76}" height="${Math.max(1, Math.abs(y(m.error) - y(0)))}" fill="${s.color}"/>`).join('')}</svg>`;
  };
  const rows = D.errors.map(e => `<tr><th scope="row">${key(look(e))}${esc(look(e).name)}<small>${esc(e.source)}</small><small>${ROLES[e.role] ?? esc(e.role)}</small></th><td class="optional">${e.n}</td><td><b>${pct(e.mean, false)}</b></td><td class="optional">${pct(e.bias)}</td><td>${pct(e.worst)}<small>${esc(at(D, e.place))}</small></td><td>${bars(e)}</td></tr>`);
  const seen = new Set(D.errors.map(e => e.series));
  for (const s of D.series) if (!seen.has(s.i)) rows.push(`<tr><th scope="row">${key(s)}${esc(s.name)}<small>${ok(s).length ? 'no measurement' : 'not run'}${s.band ? `; error band up to ±${(s.band * 100).toFixed(1)} %` : ''}</small></th><td class="optional">0</td><td>–</td><td class="optional">–</td><td>–</td><td></td></tr>`);
  $('#errors').innerHTML = `<table><thead><tr><th scope="col">series</th><th scope="col" class="optional">points</th><th scope="col">mean |error|</th><th scope="col" class="optional">bias</th><th scope="col">worst</th><th scope="col">by ${esc(D.axis.symbol || D.axis.title)}</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

// ── traffic ──
const LEVELS = [['hbm', 'HBM'], ['l2', 'L2, asked by the SMs'], ['smem', 'shared memory']];
function levels() {
  const found = LEVELS.map(([id, name]) => ({ name, read: p => p[`${id}_read_bytes`], write: p => p[`${id}_write_bytes`] }));
  if (D.count === 1) found.push({ name: 'extra device memory', read: p => p.extra_memory_bytes, write: () => 0, isOne: true });
  return found.filter(level => shown.some(s => { const p = s.points[pin]; return p && p.ok && (level.read(p) ?? 0) + (level.write(p) ?? 0) > 0; }));
}
function drawTraffic() {
  const list = levels();
  hide('s-traffic', !list.length);
  if (!list.length) return;
  const W = width('#traffic'), names = shown.map(s => s.name), above = Math.max(...names.map(letters)) > W * 0.32, L = above ? 0 : Math.max(...names.map(letters)) + 10, right = 76;
  let out = '', y = 0; const said = [];
  for (const level of list) {
    const total = p => p && p.ok ? level.read(p) + level.write(p) : 0, most = Math.max(...shown.map(s => total(s.points[pin]))), x = lin(0, most, 0, W - L - right);
    out += text(0, y + 14, level.name, 'bold') + line(0, y + 20, W, y + 20, 'var(--rule)');
    y += 26;
    for (const s of shown) {
      const p = s.points[pin];
      out += text(0, y + 13, above ? short(s.name, Math.floor(W / 7)) : s.name, 'muted');
      if (above) y += 18;
      if (!p || !p.ok) out += text(L, y + 13, p ? `${SIGNS[p.status]} ${words(p.status)}` : '–', 'muted');
      else {
        const a = x(level.read(p)), b = x(level.write(p));
        out += `<g class="bar"><rect x="${L}" y="${y + 2}" width="${Math.max(a, 0.5)}" height="14" fill="${s.color}"/>${b > 0 ? `<rect x="${L + a}" y="${y + 2.6}" width="${Math.max(0.5, b)}" height="12.8" fill="url(#write-${s.look.tone})" stroke="${s.color}" stroke-width="1.2"/>` : ''}</g>` + text(L + a + b + 7, y + 13, like(total(p), most));
        said.push(`${level.name} ${s.name} ${bytes(total(p))}`);
      }
      y += 20;
    }
    y += 12;
  }
  put('#traffic', W, y, out, said.join('; '));
  const swatch = (fill, more) => `<svg class="swatch" viewBox="0 0 14 12" aria-hidden="true"><rect x=".6" y=".6" width="12.8" height="10.8" fill="${fill}" ${more}/></svg>`;
  $('#traffic-legend').innerHTML = `<span>${swatch('var(--ink)', '')}read</span><span>${swatch('url(#write-0)', 'stroke="var(--ink)" stroke-width="1.2"')}written</span>`;
}

// ── roofline ──
function kernelPoints() {
  return shown.flatMap(s => {
    const p = s.points[pin];
    if (!p || !p.ok) return [];
    return p.kernels.filter(k => k.flops > 0).map(k => ({ s, k, share: k.latency_ms / p.latency_ms, rate: k.flops / k.latency_ms / 1e9, hbm: k.hbm_bytes ? k.flops / k.hbm_bytes : null, l2: k.l2_bytes ? k.flops / k.l2_bytes : null }));
  });
}
function drawRoofline() {
  const roofs = D.roofs, marks = roofs.tensor_tflops ? kernelPoints() : [];
  hide('s-roofline', !marks.length);
  if (!marks.length) return;
  $('#roofline-sub').innerHTML = `Each kernel at <span class="pin"></span>: attained TFLOP/s against FLOP per byte, both logarithmic. Filled: bytes of HBM; open: bytes asked of L2.`;
  const W = width('#roofline'), H = 350, L = 48, B = H - 36, T = 24, edge = W - 8;
  const across = marks.flatMap(m => [m.hbm, m.l2]).filter(Boolean), ridge = roofs.tensor_tflops * 1e3 / roofs.hbm_gb_per_s;
  const [i0, i1] = extent([...across, ridge]), x = log(i0 / 10, i1 * 4, L, edge);
  const [r0, r1] = extent([...marks.map(m => m.rate), roofs.tensor_tflops]), low = Math.min(r0 / 2.5, roofs.tensor_tflops / 40), high = Math.max(r1, (roofs.sfu_tflops ?? 0) < 4 * r1 ? roofs.sfu_tflops ?? 0 : 0) * 1.7, y = log(low, high, B, T);
  let out = '';
  const decades = (from, to) => { const found = []; for (let e = Math.ceil(Math.log10(from)); e <= Math.floor(Math.log10(to)); e++) found.push(10 ** e); return found; };
  for (const tick of decades(low, high)) out += line(L, y(tick), edge, y(tick)) + text(L - 6, y(tick) + 4, plain(tick), 'muted', 'end');
  for (const tick of decades(i0 / 10, i1 * 4)) out += line(x(tick), B, x(tick), B + 4, 'var(--muted)') + (x(tick) < edge - 12 ? text(x(tick), B + 17, plain(tick), 'muted', 'middle') : '');
  out += line(L, B, edge, B, 'var(--rule)') + text(0, 11, 'TFLOP/s', 'muted bold') + text(edge, B + 32, 'FLOP per byte', 'muted', 'end');
  const labels = [];
  const slope = (rate, name, color, stroke, dash, along, anchor) => {
    if (!rate) return;
    const from = Math.max(i0 / 10, low / rate * 1e3), to = Math.min(i1 * 4, roofs.tensor_tflops * 1e3 / rate);
    if (from >= to) return;
    out += `<path class="roof" d="M${x(from)} ${y(from * rate / 1e3)}L${x(to)} ${y(to * rate / 1e3)}" stroke="${color}" stroke-width="${stroke}" stroke-dasharray="${dash}" fill="none"/>`;
    const there = from * (to / from) ** along;
    if (name) labels.push({ text: name, x: x(there) + (anchor === 'end' ? -8 : 8), y: y(there * rate / 1e3) + (anchor === 'end' ? 0 : 12), anchor, color: 'var(--muted)' });
  };
  const level = (rate, name, color, stroke, dash) => {
    if (!rate || rate > high) return;
    const from = Math.max(L, x(rate * 1e3 / (roofs.l2_gb_per_s ?? roofs.hbm_gb_per_s)));
    out += `<path class="roof" d="M${from} ${y(rate)}H${edge}" stroke="${color}" stroke-width="${stroke}" stroke-dasharray="${dash}" fill="none"/>`;
    labels.push({ text: name, x: edge, y: y(rate) - 6, anchor: 'end', color: 'var(--ink)' });
  };
  level(roofs.tensor_tflops, `peak ${flops(roofs.tensor_tflops)}`, 'var(--ink)', 2.2, '');
  level(roofs.sfu_tflops, `special functions ${flops(roofs.sfu_tflops ?? 0)}`, 'var(--softmax)', 1.6, '7 3');
  slope(roofs.hbm_gb_per_s, `HBM ${sig(roofs.hbm_gb_per_s)} GB/s`, 'var(--ink)', 2.2, '', 0.12, 'start');
  slope(roofs.hbm_stream_gb_per_s, '', 'var(--muted)', 1.2, '4 3', 0, 'start');
  slope(roofs.l2_gb_per_s, `L2 ${sig(roofs.l2_gb_per_s ?? 0)} GB/s`, 'var(--muted)', 1.6, '', 0.75, 'end');
  for (const m of marks) {
    if (m.hbm && m.l2) out += line(x(m.hbm), y(m.rate), x(m.l2), y(m.rate), m.s.color, 1, '1 3');
    if (m.l2) out += `<g class="l2-mark">${mark(m.s.look.shape, x(m.l2), y(m.rate), 3.6, 'var(--bg)', m.s.color)}</g>`;
    if (m.hbm) out += `<g class="hbm-mark">${mark(m.s.look.shape, x(m.hbm), y(m.rate), 4.6, m.s.color, m.s.color)}</g>`;
    const where = x(m.hbm ?? m.l2), isRight = where > W * 0.6;
    if (m.share >= 0.05) labels.push({ text: short(m.k.name, MOST_LETTERS), x: where + (isRight ? 0 : 9), y: y(m.rate) + (isRight ? 20 : 4), anchor: isRight ? 'middle' : 'start', color: m.s.color });
  }
  const obstacles = marks.flatMap(m => [m.hbm, m.l2].filter(Boolean).map(i => ({ left: x(i) - 6, right: x(i) + 6, y: y(m.rate) + 4 })));
  const fitted = labels.map(label => { const half = letters(label.text) / 2; return label.anchor === 'middle' ? { ...label, x: Math.min(edge - half, Math.max(L + half, label.x)) } : label; });
  put('#roofline', W, H, out + placed(fitted, T, B - 4, obstacles), marks.map(m => `${m.s.name} ${m.k.name}: ${m.hbm ? `${sig(m.hbm)} FLOP per HBM byte, ` : ''}${flops(m.rate)}`).join('; '));
}

// ── where the time goes ──
const REASONS = {
  compute: ['on the compute pipe', 'var(--mma)', ''], pipe: ['waiting for the compute pipe', 'url(#wait-mma)', 'var(--mma)'],
  load: ['waiting for tiles', 'var(--load)', ''], store: ['waiting for writes', 'var(--store)', ''],
  sync: ['latency of steps', 'var(--bg)', 'var(--muted)'], launch: ['launches', 'var(--idle)', ''], idle: ['no CTA left: waves, tails', 'url(#wait-idle)', 'var(--idle)'],
};
const reasonOf = name => REASONS[name] ?? [words(name), 'var(--sunk)', 'var(--muted)'];
const MOST_KERNELS = 12;
function drawTime() {
  const rows = shown.map(s => ({ s, p: s.points[pin] })), has = rows.some(({ p }) => p && p.ok && p.kernels.length);
  hide('s-time', !has);
  if (!has) return;
  const W = width('#time'), most = Math.max(...rows.flatMap(({ p }) => p && p.ok ? p.kernels.map(k => k.latency_ms) : [0]));
  const kept = p => [...p.kernels].map((k, order) => ({ k, order })).sort((a, b) => b.k.latency_ms - a.k.latency_ms).slice(0, MOST_KERNELS).sort((a, b) => a.order - b.order).map(item => item.k);
  const names = rows.flatMap(({ p }) => p && p.ok ? kept(p).map(k => short(k.name, 22)) : []), above = Math.max(...names.map(letters)) > W * 0.34, L = above ? 0 : Math.max(...names.map(letters)) + 10, x = lin(0, most, 0, W - L - 70);
  let out = '', y = 0; const said = [], used = new Set();
  for (const { s, p } of rows) {
    const note = !p ? '–' : !p.ok ? `${SIGNS[p.status]} ${words(p.status)}` : `${duration(p.latency_ms)} in ${p.kernels.length} kernel${p.kernels.length === 1 ? '' : 's'}`;
    out += text(0, y + 13, short(s.name, Math.floor((W - letters(note)) / 7.4)), 'bold') + text(W, y + 13, note, 'muted', 'end') + line(0, y + 19, W, y + 19, 'var(--rule)');
    y += 25;
    if (p && p.ok) {
      const list = kept(p);
      for (const k of list) {
        out += text(0, y + 14, short(k.name, 22), 'muted');
        if (above) y += 18;
        let from = L;
        k.stalls.forEach((share, reason) => {
          const name = R.stalls[reason], [label, fill, stroke] = reasonOf(name), w = x(k.latency_ms) * share / 1000;
          if (w <= 0) return;
          used.add(name);
          const solid = !stroke;
          out += `<g class="part"><title>${esc(label)}: ${sig(share / 10, 2)} %</title><rect x="${from + (solid ? 0 : 0.5)}" y="${y + (solid ? 1 : 1.5)}" width="${Math.max(0.2, w - (solid ? 0.8 : 1.6))}" height="${solid ? 18 : 17}" fill="${fill}"${stroke ? ` stroke="${stroke}" stroke-width="1"` : ''}/>${w > 40 ? `<text x="${from + w / 2}" y="${y + 14}" text-anchor="middle" class="bold${solid ? '' : ' halo'}" style="fill:var(--${solid ? 'bg' : 'ink'})">${Math.round(share / 10)} %</text>` : ''}</g>`;
          from += w;
        });
        out += text(L + x(k.latency_ms) + 7, y + 14, duration(k.latency_ms));
        said.push(`${s.name} ${k.name} ${duration(k.latency_ms)}: ` + k.stalls.map((share, reason) => share ? `${reasonOf(R.stalls[reason])[0]} ${sig(share / 10, 2)} %` : '').filter(Boolean).join(', '));
        y += 23;
      }
      if (p.kernels.length > list.length) { out += text(L, y + 14, `and ${p.kernels.length - list.length} shorter ones`, 'muted'); y += 23; }
    }
    y += 9;
  }
  put('#time', W, y, out, said.join('; '));
  $('#time-legend').innerHTML = R.stalls.filter(name => used.has(name)).map(name => { const [label, fill, stroke] = reasonOf(name); return `<span><svg class="swatch" viewBox="0 0 14 12" aria-hidden="true"><rect x=".6" y=".6" width="12.8" height="10.8" fill="${fill}"${stroke ? ` stroke="${stroke}"` : ''}/></svg>${esc(label)}</span>`; }).join('');
}

// ── speed-up over the baseline ──
const speedups = s => ok(s).map(({ p, place }) => ({ place, base: D.series[D.baseline].points[place], p })).filter(item => item.base && item.base.ok).map(item => ({ place: item.place, value: item.base.latency_ms / item.p.latency_ms }));
function crossings(s, found) {
  const list = [];
  for (let i = 1; i < found.length; i++) {
    const a = found[i - 1], b = found[i];
    if ((a.value - 1) * (b.value - 1) >= 0) continue;
    const t = -Math.log(a.value) / Math.log(b.value / a.value), at = Math.exp(Math.log(D.xs[a.place]) * (1 - t) + Math.log(D.xs[b.place]) * t);
    list.push({ at, s, rises: b.value > 1 });
  }
  return list;
}
function drawSpeedup() {
  const base = D.series[D.baseline], others = shown.filter(s => s !== base && speedups(s).length), possible = D.axis.is_line && D.count > 1 && others.length > 0;
  hide('s-speedup', !possible);
  if (!possible) return;
  $('#h-speedup').textContent = `Speed-up over ${base.name}`;
  const W = width('#speedup'), isWide = W >= 480, says = s => `${short(s.name, MOST_LETTERS)} ${sig(speedups(s).at(-1).value, 2)}×`;
  const H = 280, L = 40, right = isWide ? Math.max(...others.map(s => letters(says(s)))) + 12 : 14, B = H - 38, T = 16, [x0, x1] = extent(D.xs), x = log(x0, x1, L + 12, W - right - 12);
  const values = others.flatMap(s => speedups(s).map(item => item.value)), { domain, ticks } = logTicks(Math.min(0.9, ...values), Math.max(1.5, ...values)), y = log(...domain, B, T);
  let out = '';
  const gone = base.points.findIndex(p => p && !p.ok);
  if (gone > 0 && base.points.slice(gone).every(p => !p || !p.ok)) {
    const from = (x(D.xs[gone - 1]) + x(D.xs[gone])) / 2;
    out += `<rect x="${from}" y="${T}" width="${W - right - from}" height="${B - T}" fill="url(#no-base)"/>` + text(from - 6, T + 12, short(`${base.name} ${words(base.points[gone].status)}`, 34) + ' →', 'muted halo', 'end');
  }
  for (const tick of ticks) out += line(L, y(tick), W - right, y(tick)) + text(L - 6, y(tick) + 4, `${plain(tick)}×`, 'muted', 'end');
  out += line(L, y(1), W - right, y(1), 'var(--ink)', 1.5);
  const crossed = [], labels = [{ text: `1×: as fast as ${short(base.name, 20)}`, x: L + 6, y: y(1) + 15, anchor: 'start', color: 'var(--muted)' }];
  for (const s of others) {
    const found = speedups(s), last = found[found.length - 1];
    out += `<path class="line" d="M${found.map(item => `${x(D.xs[item.place]).toFixed(1)} ${y(item.value).toFixed(1)}`).join('L')}" fill="none" stroke="${s.color}" stroke-width="2.2" stroke-dasharray="${s.look.dash}" stroke-linejoin="round"/>`;
    s.measured.forEach((list, place) => { const [own] = list, [theirs] = base.measured[place]; if (own && theirs) out += `<g class="measured">${mark(s.look.shape, x(D.xs[place]), y(Math.max(domain[0], Math.min(domain[1], theirs.latency_ms / own.latency_ms))), 4.2, 'var(--bg)', s.color)}</g>`; });
    labels.push({ text: says(s), x: isWide ? W - right + 2 : Math.min(W - right, x(D.xs[last.place]) + 8), y: y(last.value) + (isWide ? 4 : -10), anchor: isWide ? 'start' : 'end', color: s.color });
    for (const c of crossings(s, found)) { crossed.push(c); out += `<circle class="crossover" cx="${x(c.at)}" cy="${y(1)}" r="6" fill="none" stroke="${s.color}" stroke-width="2"/>`; }
  }
  out += placeTicks(x, B, W - 2) + text(W - right, B + 34, D.axis.label, 'muted', 'end') + placed(labels, T + 14, B);
  const never = others.filter(s => speedups(s).every(item => item.value > 1)).map(s => s.name);
  const sentences = crossed.map(c => `${c.s.name} ${c.rises ? 'overtakes' : 'falls behind'} ${base.name} near ${D.axis.symbol} = ${int(c.at)}`);
  if (never.length) sentences.push(`${listed(never)} ${never.length === 1 ? 'is' : 'are'} faster at every ${D.axis.symbol} that both ran, so there is no crossover`);
  if (!sentences.length) sentences.push(`${base.name} is faster at every ${D.axis.symbol} that both ran, so there is no crossover`);
  put('#speedup', W, H, out, sentences.join('; '));
  $('#speedup-sub').textContent = `${base.name}'s time / the series' time; lines simulated, open shapes measured, both axes logarithmic. ${sentences.join('; ')}.`;
}

// ── extra memory ──
function drawMemory() {
  const found = shown.map(s => ({ s, items: s.points.map((p, place) => ({ p, place })).filter(item => item.p && item.p.extra_memory_bytes !== null) })).filter(item => item.items.length);
  const values = found.flatMap(({ items }) => items.map(({ p }) => p.extra_memory_bytes)).filter(value => value > 0), possible = D.axis.is_line && D.count > 1 && values.length > 0;
  hide('s-memory', !possible);
  if (!possible) return;
  const capacity = R.gpus[D.gpu]?.capacity_bytes, W = width('#memory'), H = 270, L = 62, right = 14, B = H - 38, T = 16, zero = B - 4, [x0, x1] = extent(D.xs), x = log(x0, x1, L + 12, W - right - 12);
  const [v0, v1] = extent(values), hasCapacity = capacity && v1 > capacity / 300, domain = logTicks(v0, Math.max(v1, hasCapacity ? capacity * 1.3 : v1)).domain, y = log(...domain, B - 26, T), height = value => value > 0 ? y(value) : zero;
  let out = line(L, zero, W - right, zero) + text(L - 6, zero + 4, '0 B', 'muted', 'end');
  for (let e = Math.ceil(Math.log10(domain[0])); e <= Math.log10(domain[1]) + 1e-9; e++) out += line(L, y(10 ** e), W - right, y(10 ** e)) + (e % 2 === 0 || domain[1] / domain[0] < 1e4 ? text(L - 6, y(10 ** e) + 4, round(10 ** e), 'muted', 'end') : '');
  const labels = [];
  if (hasCapacity) { out += line(L, y(capacity), W - right, y(capacity), 'var(--bad)', 1.5, '6 3'); labels.push({ text: `device memory ${bytes(capacity)}`, x: L + 8, y: y(capacity) - 6, anchor: 'start', color: 'var(--ink)' }); }
  for (const { s, items } of found) {
    out += `<path class="line" d="M${items.map(({ p, place }) => `${x(D.xs[place]).toFixed(1)} ${height(p.extra_memory_bytes).toFixed(1)}`).join('L')}" fill="none" stroke="${s.color}" stroke-width="2.2" stroke-dasharray="${s.look.dash}"/>`;
    out += items.filter(({ p }) => !p.ok).map(({ p, place }) => sign(p.status, x(D.xs[place]), height(p.extra_memory_bytes))).join('');
    const last = items[items.length - 1];
    labels.push({ text: `${short(s.name, MOST_LETTERS)} ${bytes(last.p.extra_memory_bytes)}`, x: W - right - 20, y: height(last.p.extra_memory_bytes) - 10, anchor: 'end', color: s.color });
  }
  out += placeTicks(x, B, W - 2) + text(W - right, B + 34, D.axis.label, 'muted', 'end') + placed(labels, T - 12, B);
  put('#memory', W, H, out, found.map(({ s, items }) => `${s.name} ${bytes(items[items.length - 1].p.extra_memory_bytes)} at ${at(D, items[items.length - 1].place)}`).join('; '));
}

// ── what was not run ──
function drawNotRun() {
  const rows = [];
  for (const s of D.series) {
    const groups = new Map();
    s.points.forEach((p, place) => { if (p && !p.ok) { const why = `${p.status}\n${p.fix ?? ''}\n${p.status === 'out_of_memory' ? '' : p.reason}`; groups.set(why, [...(groups.get(why) ?? []), { p, place }]); } });
    const asked = s.points.filter(Boolean).length;
    for (const items of groups.values()) {
      const where = items.length === asked && asked > 1 ? `every ${D.axis.symbol || 'shape'}` : items.slice(0, 8).map(item => at(D, item.place)).join(', ') + (items.length > 8 ? ` and ${items.length - 8} more` : '');
      rows.push(`<tr><th scope="row">${SIGNS[items[0].p.status]} ${esc(s.name)}</th><td class="left">${esc(where)}</td><td class="left wrap">${words(items[0].p.status)}: ${esc(items[0].p.reason ?? '')}</td><td class="left wrap">${esc(items[0].p.fix ?? '–')}</td></tr>`);
    }
  }
  hide('s-not-run', !rows.length);
  $('#not-run').innerHTML = `<table><thead><tr><th scope="col">series</th><th scope="col" class="left">where</th><th scope="col" class="left">why</th><th scope="col" class="left">what would help</th></tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

// ── tables behind the charts: a cell is what stands in the CSV, and how it reads ──
const cell = (value, reads) => ({ value: value ?? '', reads: value === null || value === undefined ? '–' : reads ?? String(value) });
const num = (value, show = sig) => cell(value, value === null || value === undefined ? '' : show(value));
const TABLES = {
  points: () => ({
    head: ['series', D.axis.symbol || D.axis.title, 'status', 'simulated, ms', 'from, ms', 'to, ms', 'measured, ms', 'error', 'TFLOP/s', 'GB/s', 'HBM bytes', 'extra memory, bytes', 'bound, ms', 'bottleneck', 'reason'],
    rows: D.series.flatMap(s => s.points.map((p, place) => p && [cell(s.name), cell(D.labels[place]), cell(p.status, words(p.status)), num(p.latency_ms), num(p.latency_lo_ms), num(p.latency_hi_ms), num(s.measured[place][0]?.latency_ms), num(s.measured[place][0]?.error, pct), num(p.tflops), num(p.gb_per_s), num(p.hbm_bytes, bytes), num(p.extra_memory_bytes, bytes), num(p.bound_ms), cell(p.bottleneck), cell(p.reason)]).filter(Boolean)),
  }),
  traffic: () => ({
    head: ['series', 'level', 'read, bytes', 'written, bytes'],
    rows: levels().flatMap(level => D.series.map(s => ({ s, p: s.points[pin] })).filter(({ p }) => p && p.ok).map(({ s, p }) => [cell(s.name), cell(level.name), num(level.read(p), bytes), num(level.isOne ? null : level.write(p), bytes)])),
  }),
  roofline: () => ({
    head: ['series', 'kernel', 'TFLOP/s', 'FLOP per HBM byte', 'FLOP per L2 byte', 'FLOP'],
    rows: [...kernelPoints().map(m => [cell(m.s.name), cell(m.k.name), num(m.rate), num(m.hbm), num(m.l2), num(m.k.flops, int)]), ...Object.entries(D.roofs).filter(([, value]) => value !== null).map(([name, value]) => [cell('ceiling'), cell(words(name)), num(value), cell(null), cell(null), cell(null)])],
  }),
  time: () => ({
    head: ['series', 'kernel', 'ms', ...R.stalls.map(name => `${reasonOf(name)[0]}, %`), ...R.busy.map(name => `${name} busy, %`), 'sustained clock, MHz', 'power, W'],
    rows: D.series.map(s => ({ s, p: s.points[pin] })).filter(({ p }) => p && p.ok).flatMap(({ s, p }) => p.kernels.map(k => [cell(s.name), cell(k.name), num(k.latency_ms), ...k.stalls.map(share => num(share / 10)), ...k.busy.map(share => num(share / 10)), num(k.clock_mhz, int), num(k.power_w, int)])),
  }),
  speedup: () => ({
    head: ['series', D.axis.symbol, 'speed-up'],
    rows: D.series.filter(s => s.i !== D.baseline).flatMap(s => speedups(s).map(item => [cell(s.name), cell(D.labels[item.place]), num(item.value)])),
  }),
  memory: () => ({
    head: ['series', D.axis.symbol, 'status', 'extra memory, bytes', 'peak memory, bytes'],
    rows: D.series.flatMap(s => s.points.map((p, place) => p && [cell(s.name), cell(D.labels[place]), cell(p.status, words(p.status)), num(p.extra_memory_bytes, bytes), num(p.peak_memory_bytes, bytes)]).filter(Boolean)),
  }),
};
const MOST_ROWS = 1000;
function tableHtml({ head, rows }) {
  const isNumber = column => rows.every(row => row[column].value === '' || typeof row[column].value === 'number');
  const style = head.map((_, column) => isNumber(column) ? '' : ' class="left"');
  const more = rows.length > MOST_ROWS ? `<p class="sub">The first ${int(MOST_ROWS)} of ${int(rows.length)} rows; the CSV has all.</p>` : '';
  return `<table><thead><tr>${head.map((name, column) => `<th scope="col"${style[column]}>${esc(name)}</th>`).join('')}</tr></thead><tbody>${rows.slice(0, MOST_ROWS).map(row => `<tr>${row.map((item, column) => `<td${style[column]}>${esc(item.reads)}</td>`).join('')}</tr>`).join('')}</tbody></table>${more}`;
}
// What a spreadsheet would run as a formula gets an apostrophe, as in results.csv.
const csvCell = value => { const content = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value); return /[",\r\n]/.test(content) ? `"${content.replace(/"/g, '""')}"` : content; };
const csv = ({ head, rows }) => [head, ...rows.map(row => row.map(item => item.value))].map(row => row.map(csvCell).join(',') + '\n').join('');
function save(name, content) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type: 'text/csv' }));
  link.download = `${name}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function fill(details, table, name) {
  details.querySelectorAll('.filled').forEach(element => element.remove());
  if (!details.open) return;
  const box = document.createElement('div');
  box.className = 'filled';
  box.innerHTML = `<button type="button">Save as CSV</button><div class="scroll" tabindex="0" role="region" aria-label="${esc(details.querySelector('summary').textContent)}">${tableHtml(table)}</div>`;
  box.querySelector('button').onclick = () => save(name, csv(table));
  details.append(box);
}
function drawTables() { document.querySelectorAll('details[data-table]').forEach(details => fill(details, TABLES[details.dataset.table](), details.dataset.table)); }

// ── what follows the charts: tables of a comparison, GPUs ──
function once() {
  document.querySelectorAll('details[data-table]').forEach(details => details.addEventListener('toggle', () => fill(details, TABLES[details.dataset.table](), details.dataset.table)));
  $('#tables').innerHTML = R.tables.map((table, number) => `<section aria-labelledby="t-${number}"><h2 id="t-${number}">${esc(table.heading)}</h2><p class="sub">${esc(table.note)}</p><details data-given="${number}"${table.rows.length <= 30 ? ' open' : ''}><summary>${int(table.rows.length)} row${table.rows.length === 1 ? '' : 's'}</summary></details></section>`).join('');
  const given = table => ({ head: table.columns, rows: table.rows.map(row => row.map(value => cell(value, typeof value !== 'number' ? undefined : Number.isInteger(value) ? int(value) : sig(value)))) });
  document.querySelectorAll('details[data-given]').forEach(details => {
    const table = R.tables[+details.dataset.given], draw = () => fill(details, given(table), table.heading);
    details.addEventListener('toggle', draw);
    draw();
  });
  $('#gpus').innerHTML = Object.entries(R.gpus).map(([name, gpu], number) => `<details data-gpu="${number}"><summary>${esc(gpu.product)} (${esc(name)}): ${gpu.numbers.length} numbers</summary></details>`).join('');
  document.querySelectorAll('details[data-gpu]').forEach(details => {
    const [name, gpu] = Object.entries(R.gpus)[+details.dataset.gpu];
    details.addEventListener('toggle', () => fill(details, { head: ['number', 'value', 'how', 'where from'], rows: gpu.numbers.map(([path, value, kind, source]) => [cell(path), cell(value, typeof value === 'number' ? plainNumber(value) : String(value)), cell(kind || null), cell(source || null)]) }, name));
  });
}
const plainNumber = value => Math.abs(value) >= 1e6 ? value.toLocaleString('en-US') : String(value);

// ── control ──
function details() {
  drawTraffic(); drawRoofline(); drawTime(); drawTables(); pinned();
}
function draw() { drawLatency(); drawRead(); drawErrors(); drawNotRun(); drawEach(); drawSpeedup(); drawMemory(); details(); }
function show(number) {
  D = open(number);
  subject = D.subject;
  pin = D.place ?? 0;
  over = null;
  choose(D);
  draw();
}
function say(panel) {
  if ($('#answer')) $('#answer').textContent = panel.answer;
  $('#facts').innerHTML = panel.facts.map(([question, fact]) => `<div><dt>${esc(question)}</dt><dd>${esc(fact)}</dd></div>`).join('');
}
function move(to, isSpoken) {
  pin = Math.max(0, Math.min(D.count - 1, to));
  over = null;
  drawCursor(); drawRead(); details();
  if (isSpoken) $('#spoken').textContent = spoken();
}
const near = event => {
  const svg = $('#latency'), box = svg.getBoundingClientRect(), X = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  let best = 0;
  D.xs.forEach((x, place) => { if (Math.abs(svg.xOf(x) - X) < Math.abs(svg.xOf(D.xs[best]) - X)) best = place; });
  return best;
};
function listen() {
  const svg = $('#latency');
  svg.addEventListener('pointermove', event => { if (event.pointerType === 'touch' || !svg.geometry) return; const place = near(event); if (place !== over) { over = place; drawCursor(); drawRead(); } });
  svg.addEventListener('pointerleave', () => { if (over !== null) { over = null; drawCursor(); drawRead(); } });
  svg.addEventListener('click', event => { if (svg.geometry) move(near(event)); });
  svg.addEventListener('keydown', event => {
    const to = { ArrowRight: pin + 1, ArrowUp: pin + 1, ArrowLeft: pin - 1, ArrowDown: pin - 1, PageUp: pin + 10, PageDown: pin - 10, Home: 0, End: D.count - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); move(to); }
  });
  $('#read').addEventListener('click', event => {
    const button = event.target.closest('button');
    if (button) { const step = button.dataset.step; move(pin + +step, true); $(`#read [data-step="${step}"]`).focus(); }
  });
  $('#each').addEventListener('click', event => {
    const button = event.target.closest('button');
    if (button) { subject = +button.dataset.series; choose(D); draw(); $(`#each [data-series="${subject}"]`).focus(); }
  });
  const change = number => { show(number); say(R.panels[number]); drawPanels(); };
  $('#multiples')?.addEventListener('click', event => { const button = event.target.closest('button'); if (button) { change(+button.dataset.panel); $(`#multiples [data-panel="${D.number}"]`).focus(); } });
  $('#panel')?.addEventListener('change', event => change(+event.target.value));
  let last = innerWidth;
  addEventListener('resize', () => { if (innerWidth !== last) { last = innerWidth; draw(); } });
  addEventListener('beforeprint', draw);
}
const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
const nameTheme = () => { $('#theme').textContent = isDark() ? 'Light' : 'Dark'; };
$('#theme').onclick = () => { document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'; nameTheme(); };
$('#copy').onclick = async event => {
  const command = $('#command');
  try { await navigator.clipboard.writeText(command.textContent); event.target.textContent = 'Copied'; }
  catch { getSelection().selectAllChildren(command); event.target.textContent = 'Selected'; }
};
nameTheme();
once();
if (R.panels.length) { listen(); show(0); drawPanels(); }
