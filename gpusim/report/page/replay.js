'use strict';
// Draws the data block. Nothing is simulated here: state follows from events, totals from adding them up.
const DATA = JSON.parse(document.getElementById('data').textContent);
const DRAWN = ['Q', 'K', 'V', 'S', 'P', 'O']; // always; FA-1 keeps m and ℓ in HBM as well
const $ = selector => document.querySelector(selector);
const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);
const esc = text => String(text).replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');
const value = x => x === '-inf' ? -Infinity : x;
const fmt = (x, digits = 2) => x == null ? '' : x === -Infinity ? '−∞' : (x < 0 && Number((-x).toFixed(digits)) ? '−' : '') + Math.abs(x).toFixed(digits);
const count = n => n.toLocaleString('en-US');
const sci = x => x === 0 ? '0' : x.toExponential(1).replace(/e([+-])(\d+)/, (_, sign, n) => ' × 10' + (sign === '-' ? '⁻' : '') + [...n].map(c => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]).join(''));
const shown = name => name === 'l' ? 'ℓ' : name;
const rowsOf = (a, b) => a === b - 1 ? `row ${a}` : `rows ${a}–${b - 1}`;
const isNarrow = () => innerWidth <= 700;
const isPair = () => DATA.demos[demo].lanes.length > 1;
const exampleOf = lane => DATA.examples[lane.example];

// ── state of a lane after its first n events ──
function stateAt(lane, n) {
  const example = exampleOf(lane), state = {
    event: n ? lane.events[n - 1] : null, sram: lane.groups.map(() => ({})), hbm: {}, reads: {}, writes: {}, bytes: {},
    readBytes: 0, writtenBytes: 0, done: [], skip: [], reserved: 0,
    rows: range(0, example.rows).map(() => ({ m: -Infinity, l: 0, seen: [], now: [], known: false, fresh: false, final: false })),
  };
  for (const matrix of lane.matrices) state.hbm[matrix.name] = example[matrix.name] || Array(matrix.rows * matrix.cols).fill(null);
  for (const event of lane.events.slice(0, n)) apply(lane, state, event);
  return state;
}
function apply(lane, state, event) {
  const sram = state.sram[event.group];
  for (const content of event.contents) {
    sram[content.buffer] = { ...content, values: content.values && content.values.map(value), spent: false };
    if (!content.values) state.reserved += lane.groups[event.group].plan.filter(p => p.buffer === content.buffer).reduce((sum, p) => sum + p.rows * p.cols, 0);
  }
  for (const buffer of event.spent) if (sram[buffer]) sram[buffer].spent = true;
  if (event.hbm) count_access(lane, state, event.hbm);
  if (event.softmax.length) {
    for (const row of state.rows) row.fresh = false;
    for (const found of event.softmax) update_row(state.rows[found.row], found);
  }
  if (event.finished) for (let i = event.finished[0]; i < event.finished[1]; i++) Object.assign(state.rows[i], { final: true, fresh: false });
  if (event.done) state.done.push(event.tile);
  if (event.skip) state.skip.push(event.tile);
}
function count_access(lane, state, access) {
  const { row0, row1, col0, col1 } = access.region, name = access.matrix, numbers = (row1 - row0) * (col1 - col0);
  const tally = access.direction === 'read' ? state.reads : state.writes;
  tally[name] = (tally[name] || 0) + numbers;
  state.bytes[name] = (state.bytes[name] || 0) + access.bytes;
  state[access.direction === 'read' ? 'readBytes' : 'writtenBytes'] += access.bytes;
  if (!access.values) return;
  const cols = lane.matrices.find(m => m.name === name).cols;
  access.values.forEach((x, k) => { state.hbm[name][(row0 + Math.floor(k / (col1 - col0))) * cols + col0 + k % (col1 - col0)] = value(x); });
}
function update_row(row, found) {
  const scores = found.scores.map(value).filter(isFinite);
  const starts = found.alpha === null || found.l_old === 0;
  Object.assign(row, { seen: starts ? [] : row.seen.concat(row.now), now: scores, mOld: value(found.m_old), m: value(found.m), alpha: found.alpha, lOld: found.l_old, l: found.l, known: true, fresh: true });
}
const grew = row => row.fresh && row.alpha !== null && row.lOld > 0 && row.m > row.mOld;

// ── the reference: full softmax, computed here ──
function fullSoftmax(lane) {
  const e = exampleOf(lane), out = [];
  for (let i = 0; i < e.rows; i++) {
    const scores = range(0, e.keys).map(j => lane.causal && j > i ? -Infinity : range(0, e.head_dim).reduce((sum, c) => sum + e.Q[i * e.head_dim + c] * e.K[j * e.head_dim + c], 0) / Math.sqrt(e.head_dim));
    const m = Math.max(...scores), p = scores.map(s => Math.exp(s - m)), l = p.reduce((a, b) => a + b);
    for (let c = 0; c < e.head_dim_v; c++) out.push(p.reduce((sum, x, j) => sum + x * e.V[j * e.head_dim_v + c], 0) / l);
  }
  return out;
}
const gap = (a, b) => Math.max(...a.map((x, i) => Math.abs(x - b[i])));
const sameOutput = (a, b) => gap(a, b) ? `Same O to within ${sci(gap(a, b))}` : `Same O, to all ${DATA.digits} digits`;
const outputOf = lane => stateAt(lane, lane.events.length).hbm.O;

// ── drawing: one panel a function ──
const UNITS = [['load', 'load'], ['mma', 'MMA'], ['softmax', 'softmax'], ['store', 'store']];
const hatches = ['store', 'mma', 'softmax', 'load', 'bad', 'note'].map(u => {
  const hue = u === 'note' ? 'muted' : u;
  return `<pattern id="h-${u}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="color-mix(in srgb,var(--${hue}) 12%,var(--bg))"/><rect width="1.6" height="6" fill="color-mix(in srgb,var(--${hue}) 34%,var(--bg))"/></pattern>`;
}).join('') + '<pattern id="h-skip" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="1" height="6" fill="var(--muted)"/></pattern>';
document.body.insertAdjacentHTML('afterbegin', `<svg aria-hidden="true" style="position:absolute;width:0;height:0"><defs>${hatches}</defs></svg>`);

const cellWidth = cols => cols <= 4 ? 34 : cols <= 8 ? 32.5 : 17;
const cellHeight = rows => rows <= 8 ? 20 : 11;
const LEFT = 15, TOP = 12;
function drawMatrix(lane, state, matrix) {
  const { name, rows, cols, stored } = matrix, cw = cellWidth(cols), ch = cellHeight(rows), event = state.event;
  const access = event && event.hbm && event.hbm.matrix === name ? event.hbm : null, cells = state.hbm[name];
  const box = (r, cls, style = '') => `<rect class="${cls}" style="${style}" x="${LEFT + r.col0 * cw}" y="${TOP + r.row0 * ch}" width="${(r.col1 - r.col0) * cw}" height="${(r.row1 - r.row0) * ch}"/>`;
  const inside = (r, i, j) => i >= r.row0 && i < r.row1 && j >= r.col0 && j < r.col1;
  let s = '';
  for (let i = 0; i < rows; i++) {
    if (rows <= 8) s += `<text class="ix" x="6" y="${TOP + i * ch + 14}">${i}</text>`;
    for (let j = 0; j < cols; j++) {
      if (i === 0 && cols > 1 && cols <= 8) s += `<text class="ix" x="${LEFT + j * cw + cw / 2}" y="8">${j}</text>`;
      const x = cells[i * cols + j], hot = access && inside(access.region, i, j);
      const cls = hot && access.direction === 'read' ? 'c tint-load' : x === null ? 'c none' : 'c';
      const fill = hot && access.direction === 'write' ? ' style="fill:url(#h-store)"' : '';
      s += `<rect class="${cls}"${fill} x="${LEFT + j * cw}" y="${TOP + i * ch}" width="${cw}" height="${ch}"/>`;
      if (x !== null && rows <= 8 && cols <= 8) s += `<text class="v" x="${LEFT + j * cw + cw / 2}" y="${TOP + i * ch + 14}">${fmt(x)}</text>`;
    }
  }
  if (!stored && name === 'S') s += drawTiles(state, box, cw, ch);
  if (access) s += box(access.region, `ring hot ring-${access.direction === 'read' ? 'load' : 'store'}`);
  const size = exampleOf(lane).bytes_per_number;
  return `<div class="mat ${name}"><div class="cap"><b>${esc(shown(name))}</b>${cols > 1 ? `<i>${rows}×${cols} = ${rows * cols * size} B</i>` : ''}</div><svg viewBox="0 0 ${LEFT + cols * cw + 1} ${TOP + rows * ch + 1}" aria-hidden="true">${s}</svg><div class="cnt">${tally(lane, state, matrix)}</div></div>`;
}
function drawTiles(state, box, cw, ch) {
  const event = state.event, current = event && event.tile && !event.skip ? event.tile : null;
  const size = isNarrow() ? 22 : isPair() || innerWidth <= 1000 ? 19 : 12; // as in the style sheet
  const hasRoom = (r, text) => (r.col1 - r.col0) * cw > text.length * size * .56 && (r.row1 - r.row0) * ch >= size;
  const label = (r, text, cls) => !hasRoom(r, text) ? '' : `<text class="halo tag ${cls}" text-anchor="middle" x="${LEFT + (r.col0 + r.col1) / 2 * cw}" y="${TOP + (r.row0 + r.row1) / 2 * ch + 4}">${text}</text>`;
  const same = (a, b) => a && b && a.row0 === b.row0 && a.col0 === b.col0;
  let s = '';
  for (const r of state.skip) s += box(r, 'box', 'fill:url(#h-skip);fill-opacity:.5') + label(r, 'skipped', 'dim');
  for (const r of state.done) s += box(r, 'box dash') + (same(r, current) ? '' : label(r, 'done', 'dim'));
  if (current) s += box(current, `ring ring-${event.unit}`) + label(current, hasRoom(current, 'now in SRAM') ? 'now in SRAM' : 'now', `t-${event.unit}`);
  return s;
}
function tally(lane, state, { name, rows, cols, stored }) {
  if (!stored) return name === 'S' ? '0 B in HBM: tiles live in SRAM' : '0 B in HBM: replaces S in place';
  const read = state.reads[name] || 0, written = state.writes[name] || 0, size = exampleOf(lane).bytes_per_number;
  const times = read ? ` (${String(+(read / (rows * cols)).toFixed(2))}×)` : '';
  if (cols === 1 && (read || written)) return `${read * size} B in, ${written * size} B out`;
  const parts = [read && `read ${count(read * size)} B${times}`, written && `written ${count(written * size)} B`].filter(Boolean);
  return parts.join(' · ') || (exampleOf(lane)[name] ? 'not read yet' : 'not written yet');
}
function drawHbm(lane, state) {
  const group = state.event && !lane.refused ? lane.groups[state.event.group].name : '';
  const widths = lane.matrices.map(m => `${Math.max(60, LEFT + m.cols * cellWidth(m.cols))}fr`).join(' ');
  return `<div class="head"><h2>HBM<small>off chip: large and slow</small></h2><span class="r">${esc(group)}</span></div><div class="mats ${lane.matrices.length > DRAWN.length ? 'many' : ''}" style="grid-template-columns:${widths}">${lane.matrices.map(m => drawMatrix(lane, state, m)).join('')}</div>`;
}

const SLOTS = 16;
function drawSram(lane, state) {
  const example = exampleOf(lane), have = example.sram_numbers, event = state.event, number = event ? event.group : 0;
  const plan = lane.groups[number].plan, held = state.sram[number], flat = lane.refused || isPair(), narrow = isNarrow();
  const cw = 36, ch = flat ? 14 : narrow ? 22 : 25, top = narrow ? 24 : 16, pitch = ch + top + (flat || narrow ? 1 : 3), x0 = 30;
  const end = p => p.start_slot + p.rows * p.cols, need = Math.max(...plan.map(end)), lines = Math.ceil(Math.max(have, lane.refused ? need : have) / SLOTS);
  const place = slot => ({ x: x0 + slot % SLOTS * cw, y: Math.floor(slot / SLOTS) * pitch + top });
  const acts = p => !event ? '' : event.writes.includes(p.buffer) ? 'w' : event.reads.includes(p.buffer) ? 'r' : '';
  let s = '', tags = '';
  for (let line = 0; line < Math.ceil(have / SLOTS); line++) s += `<text class="ix" style="text-anchor:end" x="${x0 - 6}" y="${line * pitch + top + ch / 2 + 4}">${line * SLOTS}</text>`;
  for (let slot = 0; slot < lines * SLOTS; slot++) {
    const p = plan.find(q => slot >= q.start_slot && slot < end(q)), content = p && held[p.buffer], over = slot >= have, { x, y } = place(slot);
    if (over && !content) continue;
    const act = content ? acts(p) : '', number_ = content && content.values ? content.values[slot - p.start_slot] : undefined;
    const fill = over ? 'url(#h-bad)' : act === 'w' && !lane.refused ? `url(#h-${event.unit})` : '';
    s += `<rect class="c ${p ? '' : 'none'} ${act === 'r' ? `tint-${event.unit}` : ''}" ${fill ? `style="fill:${fill}"` : ''} x="${x}" y="${y}" width="${cw}" height="${ch}"/>`;
    if (!p) s += `<circle cx="${x + cw / 2}" cy="${y + ch / 2}" r="1.6" fill="var(--rule)"/>`;
    if (number_ !== undefined) s += `<text class="v ${content.spent && !act ? 'spent' : ''}" x="${x + cw / 2}" y="${y + ch / 2 + 4}">${fmt(number_)}</text>`;
  }
  for (const p of plan) {
    const content = held[p.buffer], act = content ? acts(p) : '';
    if (lane.refused && !content) continue;
    for (let slot = p.start_slot; slot < end(p);) {
      const until = Math.min(end(p), (Math.floor(slot / SLOTS) + 1) * SLOTS), over = slot >= have, { x, y } = place(slot);
      s += `<rect class="${over ? 'ring ring-bad' : act ? `ring hot ring-${event.unit}` : content ? 'box' : 'box dash'}" data-b="${esc(p.buffer)}" x="${x}" y="${y}" width="${(until - slot) * cw}" height="${ch}"/>`;
      if (slot === p.start_slot) tags += `<text class="tag ${!content || (content.spent && !act) ? 'dim' : over ? 't-bad' : act ? `t-${event.unit}` : ''}" x="${x + 1}" y="${y - 4}">${esc(tagOf(p, content, act, (until - slot) * cw / (narrow ? 10.4 : 6.5)))}</text>`;
      slot = until;
    }
  }
  const { x, y } = place(need);
  if (need < have) tags += `<text class="tag dim" x="${x + 4}" y="${y - 4}">${have - need} free</text>`;
  if (state.reserved > have) s += `<line x1="0" x2="${x0 + SLOTS * cw}" y1="${have / SLOTS * pitch}" y2="${have / SLOTS * pitch}" stroke="var(--bad)" stroke-width="3"/><text class="tag t-bad" style="text-anchor:end" x="${x0 + SLOTS * cw}" y="${have / SLOTS * pitch + 13}">SRAM ends here: ${have}</text>`;
  const sizes = plan.map(p => [p, p.rows * p.cols]), live = sizes.filter(([p]) => held[p.buffer] && !held[p.buffer].spent).reduce((sum, [, n]) => sum + n, 0);
  const head = lane.refused ? `<span class="${state.reserved > have ? 't-bad' : ''}"><b>${state.reserved}</b> asked of ${have}</span>` : `<b>${live}</b> in use, <b>${need}</b> reserved, ${have - need} free of ${have}`;
  const label = plan.map(p => held[p.buffer] ? held[p.buffer].label : `${p.name} empty`).join(', ');
  return `<div class="head"><h2>SRAM<small>on chip, ${have} numbers = ${have * example.bytes_per_number} B</small></h2><span class="r">${head}</span></div><svg viewBox="0 0 ${x0 + SLOTS * cw + 2} ${lines * pitch + 2}" role="img" aria-label="SRAM: ${esc(label)}">${s}${tags}</svg>${flat ? '' : `<p class="closed">${fits(lane, plan, need, have)}</p>`}`;
}
function tagOf(p, content, act, letters) { // the longest text that has room
  const texts = !content ? [`${p.name} (empty)`, p.name] : [...(content.spent && !act ? [`${content.label} (no longer needed)`] : []), content.label, shown(content.name)];
  return texts.find(text => text.length <= letters) || texts[texts.length - 1];
}
function fits(lane, plan, need, have) {
  const [tile, other] = lane.tile, d = exampleOf(lane).head_dim;
  const terms = lane.schedule.startsWith('flash') && tile === other ? `4Bd + B² + 2B = ${4 * tile * d} + ${tile * tile} + ${2 * tile}` : plan.map(p => `${p.name} ${p.rows * p.cols}`).join(' + ');
  return `Fits: ${esc(terms)} = <b>${need}</b> ≤ ${have}.`;
}

function scoreRange(lane) {
  const all = lane.events.flatMap(e => e.softmax).flatMap(row => row.scores.map(value)).filter(isFinite);
  return [Math.min(...all) - .15, Math.max(...all) + .15];
}
function drawSoft(lane, state) {
  if (lane.refused) return drawFit(lane);
  const [low, high] = scoreRange(lane), width = isNarrow() ? 96 : 160, sx = v => 4 + (v - low) / (high - low) * (width - 8);
  const body = state.rows.map((row, i) => softmaxRow(lane, state, row, i, width, sx)).join('');
  return `<div class="head"><h2>Softmax state<small>per row</small></h2><span class="r keys"><span class="t-softmax">●</span> score in this tile <span class="x">&nbsp;○ seen before &nbsp;<b>|</b> running max</span></span></div><table><thead><tr><th scope="col">row</th><th scope="col" class="sc">scores ${fmt(low, 1)} to ${fmt(high, 1)}</th><th scope="col">max m</th><th scope="col">factor α</th><th scope="col">sum ℓ</th><th scope="col" class="o">row of O</th></tr></thead><tbody>${body}</tbody></table><p class="note">${softmaxNote(lane, state)}</p>`;
}
function softmaxRow(lane, state, row, i, width, sx) {
  const o = outputRow(lane, state, i).map(x => `<span>${fmt(x)}</span>`).join('');
  if (!row.known) return `<tr class="wait"><td>${i}</td><td class="strip"></td><td class="m">−∞</td><td class="a"></td><td class="l">0.00</td><td class="o">${o}</td></tr>`;
  const up = grew(row), first = row.lOld === 0, hue = row.fresh ? 'var(--softmax)' : 'var(--muted)';
  let s = `<line x1="0" x2="${width}" y1="15" y2="15" stroke="var(--grid)"/>`;
  for (const v of row.seen) s += `<circle cx="${sx(v)}" cy="15" r="2.6" fill="none" stroke="var(--muted)"/>`;
  for (const v of row.now) s += `<circle cx="${sx(v)}" cy="15" r="3.2" fill="${hue}"/>`;
  if (up) s += `<line x1="${sx(row.mOld)}" x2="${sx(row.mOld)}" y1="2" y2="20" stroke="var(--muted)" stroke-width="1.5" stroke-dasharray="2 2"/><path d="M${sx(row.mOld)} 5H${Math.max(sx(row.mOld), sx(row.m) - 5)}m-4 -3.5l5 3.5l-5 3.5" fill="none" stroke="var(--softmax)" stroke-width="1.5"/>`;
  s += `<line x1="${sx(row.m)}" x2="${sx(row.m)}" y1="2" y2="20" stroke="${row.fresh ? 'var(--ink)' : 'var(--muted)'}" stroke-width="2.5"/>`;
  const change = (before, after) => row.fresh && !first && fmt(before) !== fmt(after) ? `<span class="old">${fmt(before)} → </span>${fmt(after)}` : fmt(after);
  return `<tr class="${[row.fresh ? '' : 'past', up ? 'up' : '', row.final ? 'final' : ''].join(' ')}"><td>${i}${row.final ? ' ✓' : ''}</td><td class="strip"><svg viewBox="0 0 ${width} 20" aria-hidden="true">${s}</svg></td><td class="m">${change(row.mOld, row.m)}</td><td class="a">${first || row.alpha === null ? '' : fmt(row.alpha)}</td><td class="l">${change(row.lOld, row.l)}</td><td class="o">${o}</td></tr>`;
}
function outputRow(lane, state, i) {
  const cols = exampleOf(lane).head_dim_v, held = state.event ? Object.values(state.sram[state.event.group]).find(c => c.name === 'O' && c.region && i >= c.region.row0 && i < c.region.row1) : null;
  if (held) return held.values.slice((i - held.region.row0) * cols, (i - held.region.row0 + 1) * cols);
  const row = state.hbm.O.slice(i * cols, (i + 1) * cols);
  return row.includes(null) ? [] : row;
}
function softmaxNote(lane, state) {
  const grown = state.rows.map((row, i) => [row, i]).filter(([row]) => grew(row)).sort((a, b) => a[0].alpha - b[0].alpha)[0];
  if (!grown) return lane.events.some(e => e.softmax.some(row => row.alpha !== null)) ? 'When a tile brings a bigger score, m moves right, and ℓ and O shrink by α = e^(m old − m new).' : 'Whole rows are seen at once, so m and ℓ are final and there is no α.';
  const [row, i] = grown, alpha = fmt(row.alpha), signed = x => x < 0 ? `(${fmt(x)})` : fmt(x), added = row.l - row.alpha * row.lOld;
  return `Row ${i}: α = e^(${fmt(row.mOld)} − ${signed(row.m)}) = <b class="t-softmax">${alpha}</b>, so ℓ = ${alpha} × ${fmt(row.lOld)} + ${fmt(added)} = ${fmt(row.l)}, and row ${i} of O is multiplied by ${alpha} as well.`;
}
function drawFit(lane) {
  const { have, need, tiles, fix } = lane.refused, size = exampleOf(lane).bytes_per_number, most = Math.max(...tiles.map(t => t[1]), have), d = exampleOf(lane).head_dim;
  const line = ([tile, asked]) => `<tr><td>B = ${tile}</td><td class="strip"><svg viewBox="0 0 ${most} 22" preserveAspectRatio="none" aria-hidden="true"><rect x="0" y="5" width="${asked}" height="12" style="fill:${asked <= have ? 'var(--muted)' : 'url(#h-bad)'}" ${asked <= have ? '' : 'stroke="var(--bad)"'}/><line x1="${have}" x2="${have}" y1="0" y2="22" stroke="var(--ink)" stroke-width="2"/></svg></td><td class="opt">${4 * tile * d} + ${tile * tile} + ${2 * tile}</td><td><b>${asked}</b></td><td class="${asked <= have ? '' : 't-bad'}">${asked <= have ? 'fits' : 'refused'}</td></tr>`;
  const fitting = tiles.filter(t => t[1] <= have).reverse().map(([tile, asked]) => `tiles of ${tile} (${asked} numbers)`).join(' or ');
  return `<div class="head"><h2>Does the tile fit?<small>4Bd + B² + 2B ≤ ${have}</small></h2><span class="r"><b>|</b> ${have} numbers</span></div><table class="fit"><thead><tr><th scope="col">tile</th><th scope="col" class="sc">numbers needed</th><th scope="col" class="opt">Q K V O + S + m ℓ</th><th scope="col">total</th><th scope="col">verdict</th></tr></thead><tbody>${tiles.map(line).join('')}</tbody></table><p class="note">What would make it fit: ${fitting ? `${fitting}, or ` : ''}an SRAM of at least ${need} numbers (${need * size} B).</p><p class="closed">gpusim run says: ${esc(fix)}.</p>`;
}

function axisOf(lane) { return Math.max(...DATA.lanes.filter(l => exampleOf(l).rows === exampleOf(lane).rows).map(l => l.closed_form.total_bytes), 1); }
function drawBar(lane, state, width) {
  const most = axisOf(lane), x = bytes => bytes / most * width, tick = [64, 128, 256, 512, 1024, 2048, 4096, 8192].find(t => most / t <= (width < 400 ? 4 : 7)) || most;
  let s = `<rect x="0" y="3" width="${width}" height="16" fill="var(--sunk)"/><rect x="0" y="3" width="${x(state.readBytes)}" height="16" fill="var(--load)"/><rect x="${x(state.readBytes)}" y="3" width="${x(state.writtenBytes)}" height="16" fill="var(--store)"/>`;
  for (let t = 0; t <= most; t += tick) s += `<line x1="${x(t)}" x2="${x(t)}" y1="19" y2="23" stroke="var(--muted)"/><text class="ix" style="font-size:12px;text-anchor:${t === 0 ? 'start' : t === most ? 'end' : 'middle'}" x="${x(t)}" y="35">${count(t)}${t === most ? ' B' : ''}</text>`;
  if (lane.closed_form.total_bytes) s += `<path d="M${x(lane.closed_form.total_bytes)} 0v22" stroke="var(--ink)" stroke-width="2.5"/>`;
  return `<svg viewBox="-1 -1 ${width + 2} 40" aria-hidden="true">${s}</svg>`;
}
function drawBytes(lane, state, isLast) {
  const now = state.readBytes + state.writtenBytes, total = lane.closed_form.total_bytes;
  const ledger = lane.matrices.filter(m => state.bytes[m.name]).map(m => `<span>${esc(shown(m.name))} <b>${count(state.bytes[m.name])}</b></span>`).join('');
  const verdict = isLast && !lane.refused ? `<span class="ok"> Counted ${count(now)} B ${now === total ? '✓' : '✗'}</span>` : '';
  const more = isLast && !lane.refused ? `O against full softmax, computed here: max |difference| = ${sci(gap(state.hbm.O, fullSoftmax(lane)))}; the page holds ${DATA.digits} digits.` : `${esc(lane.closed_form.more.charAt(0).toUpperCase() + lane.closed_form.more.slice(1))}.`;
  const closed = lane.refused ? 'A refused tile moves nothing: 0 B.' : `Closed form: ${esc(lane.closed_form.text)} = <b>${count(total)} B</b>.${verdict}<br>${more}`;
  return `<div class="head"><h2>Bytes over the HBM bus</h2><span class="r keys"><span class="t-load">■</span> read ${count(state.readBytes)} B &nbsp;<span class="t-store">■</span> written ${count(state.writtenBytes)} B <span class="x">&nbsp;<b>|</b> closed form</span></span></div><div class="head" style="margin:-4px 0 0"><span class="big"><span class="now">${count(now)}</span> <small>B ${lane.refused ? '' : `of ${count(total)} B`}</small></span><span class="ledger">${ledger}</span></div>${drawBar(lane, state, isNarrow() ? 350 : 600)}<p class="closed">${closed}</p>`;
}
const ICONS = { load: 'M8 14L2 7h4V1h4v6h4z', store: 'M8 1l6 7h-4v7H6V8H2z', idle: 'M2 7h12v2H2z' };
function drawBus(lane, state) {
  const event = state.event, icon = (name, hue) => `<svg viewBox="0 0 16 16" aria-hidden="true" style="fill:var(--${hue})"><path d="${ICONS[name]}"/></svg>`, size = exampleOf(lane).bytes_per_number;
  if (lane.refused) return `${icon('idle', 'muted')}<span>HBM idle: nothing moves until the tile fits</span>`;
  if (!event) return `${icon('idle', 'muted')}<span>HBM idle</span>`;
  if (event.hbm) {
    const unit = event.unit, { row0, row1, col0, col1 } = event.hbm.region;
    return `${icon(unit, unit)}<span><b class="t-${unit}">${event.hbm.direction} ${esc(shown(event.hbm.matrix))} ${rowsOf(row0, row1)}</b>: ${(row1 - row0) * (col1 - col0)} numbers × ${size} B = <b>${event.hbm.bytes} B</b></span>`;
  }
  if (event.skip) return `${icon('idle', 'muted')}<span><b>skipped</b>: no traffic, no arithmetic</span>`;
  if (event.unit === 'note') return `${icon('idle', 'muted')}<span>no HBM traffic: start values are set in SRAM</span>`;
  return `${icon('idle', event.unit)}<span>no HBM traffic: the <b class="t-${event.unit}">${event.unit === 'mma' ? 'matrix unit' : 'softmax unit'}</b> works in SRAM</span>`;
}

// ── two lanes on one clock ──
function framesOf(lanes) {
  const at = lanes.map(() => 0), frames = [{ at: at.slice(), who: -1 }];
  lanes.flatMap((lane, who) => lane.events.map((event, i) => ({ who, i, t: event.t0_ps }))).sort((a, b) => a.t - b.t || a.who - b.who || a.i - b.i).forEach(({ who, i }) => { at[who] = i + 1; frames.push({ at: at.slice(), who }); });
  return frames;
}
function drawJoint(lanes, states, isEnd) {
  const [a, b] = lanes, totals = lanes.map(l => l.closed_form.total_bytes), now = states.map(s => count(s.readBytes + s.writtenBytes)), e = exampleOf(a);
  const scores = count(4 * e.rows * e.keys), again = b.closed_form.total_bytes / e.bytes_per_number - 4 * e.rows * e.head_dim;
  const compared = isEnd ? `${sameOutput(...states.map(s => s.hbm.O))}` : 'outputs are compared when both have finished';
  return `<div class="head"><h2>Same output, ${totals[0] === 2 * totals[1] ? 'half the' : 'fewer'} bytes</h2><span class="r">${compared}</span></div><p class="closed">So far: naive <b>${now[0]} B</b>, flash <b>${now[1]} B</b>. In the end ${count(totals[0])} B against ${count(totals[1])} B, a factor of ${(totals[0] / totals[1]).toFixed(1)}: naive moves 4N² = ${scores} numbers of S and P, flash reads ${count(again)} numbers of K and V again instead.</p><div class="narrow">${lanes.map((lane, i) => `<p class="closed">${esc(lane.name)}</p>${drawBar(lane, states[i], 330)}`).join('')}</div>`;
}

// ── the timeline ──
function drawTimeline(lanes, frame) {
  const svg = $('#tl'), width = Math.max(240, svg.parentNode.clientWidth), x0 = width < 600 ? 58 : 120, line = 17, end = Math.max(1, ...lanes.map(l => l.end_ps));
  const px = t => x0 + t / end * (width - x0 - 4);
  if (lanes[0].refused) {
    svg.setAttribute('viewBox', `0 0 ${width} 30`);
    svg.innerHTML = '<text class="lab" x="0" y="20">No events: the tile is refused before anything moves.</text>';
    svg.setAttribute('aria-label', 'No events: the tile is refused before anything moves.');
    return;
  }
  let y = 0, s = '';
  lanes.forEach((lane, who) => {
    s += lane.groups.map(group => groupMark(group, y, px)).join('');
    if (lanes.length > 1) s += `<text class="lab" style="font-weight:600" x="0" y="${y + 10}">${esc(lane.name)}</text>`;
    y += 20;
    UNITS.forEach(([, label], k) => { s += `<text class="lab" x="0" y="${y + k * line + 13}">${label}</text><line x1="${x0}" x2="${width - 4}" y1="${y + k * line + line - .5}" y2="${y + k * line + line - .5}" stroke="var(--grid)"/>`; });
    lane.events.forEach((event, i) => { s += eventMark(event, who, i, frame, y, line, px); });
    y += line * 4 + (who < lanes.length - 1 ? 6 : 2);
  });
  const ns = end / 1000, tick = [20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000].find(t => ns / t <= (width < 600 ? 5 : 14)) || 100000;
  for (let t = 0; t <= ns; t += tick) s += `<text class="ax" text-anchor="${t ? px(t * 1000) > width - 24 ? 'end' : 'middle' : 'start'}" x="${px(t * 1000)}" y="${y + 12}">${count(t)}</text>`;
  s += `<text class="ax" x="0" y="${y + 12}">${width < 600 ? 'ns' : 'simulated ns'}</text>`;
  svg.setAttribute('viewBox', `0 0 ${width} ${y + 16}`);
  svg.innerHTML = s;
  svg.setAttribute('aria-label', lanes.map(l => `${l.title}: ${l.events.length} events in ${count(Math.round(l.end_ps / 1000))} ns`).join('; '));
}
function groupMark(group, y, px) {
  const from = px(group.t0_ps), room = px(group.t1_ps) - from, text = room > group.name.length * 6.4 ? group.name : group.name.split(':')[0];
  return `<path d="M${from + 1} ${y + 17}v-4H${px(group.t1_ps) - 1}v4" fill="none" stroke="var(--muted)"/>` + (room > text.length * 6.4 ? `<text class="ax" x="${from + 1}" y="${y + 10}">${esc(text)}</text>` : '');
}
function eventMark(event, who, i, frame, y, line, px) {
  const row = UNITS.findIndex(([unit]) => unit === event.unit), from = px(event.t0_ps), isNow = i === frame.at[who] - 1;
  const cursor = isNow && frame.who === who ? `<path d="M${from} ${y - 3}v${line * 4 + 5}" stroke="var(--ink)"/>` : '';
  if (row < 0) return cursor + (event.skip ? `<path d="M${from} ${y}v${line * 4}" stroke="var(--muted)" stroke-dasharray="2 3"/>` : '');
  const until = event.hbm ? event.hbm.bus1_ps : event.t1_ps, width = Math.max(2, px(until) - from - 1), top = y + row * line;
  const flight = event.hbm && event.t1_ps > until ? `<path d="M${px(until)} ${top + line / 2}H${px(event.t1_ps) - 1}" stroke="var(--${event.unit})" stroke-dasharray="2 2"/>` : '';
  const title = `${event.unit}, ${count(Math.round(event.t0_ps / 1000))} to ${count(Math.round(event.t1_ps / 1000))} ns${event.hbm ? `, ${event.hbm.bytes} B` : ''}`;
  return `<g class="ev ${i < frame.at[who] ? '' : 'fut'}" data-l="${who}" data-q="${i}"><title>${title}</title>${flight}<rect x="${from}" y="${top + 2}" width="${width}" height="${line - 4}" fill="var(--${event.unit})"/>${isNow ? `<rect x="${from - 1}" y="${top}" width="${width + 2}" height="${line}" fill="none" stroke="var(--ink)" stroke-width="2"/>` : ''}</g>${cursor}`;
}
function drawTable(lanes) {
  const lines = lanes.flatMap(lane => lane.events.map((e, i) => `<tr><td>${i + 1}</td><td>${esc(lane.name)}</td><td>${(e.t0_ps / 1000).toFixed(1)}</td><td>${(e.t1_ps / 1000).toFixed(1)}</td><td>${e.unit}</td><td>${e.hbm ? e.hbm.bytes : ''}</td><td class="say">${esc(e.sentence)}</td></tr>`)).join('');
  return `<table><thead><tr><th scope="col">event</th><th scope="col">schedule</th><th scope="col">from, ns</th><th scope="col">to, ns</th><th scope="col">unit</th><th scope="col">HBM, B</th><th scope="col">what happens</th></tr></thead><tbody>${lines}</tbody></table>`;
}

// ── the page ──
let demo = 0, step = 0, playing = false, timer = 0, frames = [], lanes = [];
const reduced = matchMedia('(prefers-reduced-motion: reduce)');
function build() {
  lanes = DATA.demos[demo].lanes.map(i => DATA.lanes[i]);
  frames = framesOf(lanes);
  $('#stage').className = lanes.length > 1 ? 'two' : '';
  $('#stage').innerHTML = lanes.map((lane, i) => `<article class="lane" data-i="${i}" aria-label="${esc(lane.title)}"><h2 class="title">${esc(lane.title)}</h2><section class="hbm"></section><div class="bus"></div><section class="sram"></section><section class="soft"></section><section class="bytes"></section></article>`).join('');
  $('#scrub').max = frames.length - 1;
  $('#joint').hidden = lanes.length < 2;
  $('#table .scroll').innerHTML = drawTable(lanes);
  const e = exampleOf(lanes[0]), size = e.rows === e.keys ? `N = ${e.rows} tokens` : `${e.rows} queries, ${e.keys} keys`;
  $('#about').textContent = `One head, ${size}, head dim d = ${e.head_dim}, ${e.bytes_per_number} B a number, and on ${e.gpu} an SRAM with room for ${e.sram_numbers} numbers. Watch what crosses between HBM and SRAM.`;
  document.querySelectorAll('#demos input').forEach((radio, i) => { radio.checked = i === demo; });
  $('#pick').value = demo;
}
function render(fly) {
  const frame = frames[step], isEnd = step === frames.length - 1, states = lanes.map((lane, i) => stateAt(lane, frame.at[i]));
  lanes.forEach((lane, i) => {
    const article = document.querySelector(`.lane[data-i="${i}"]`), isLast = frame.at[i] === lane.events.length, part = name => article.querySelector(name);
    part('.hbm').innerHTML = drawHbm(lane, states[i]);
    part('.bus').innerHTML = isLast && lanes.length > 1 && !isEnd ? `<span>finished after ${count(Math.round(lane.end_ps / 1000))} ns</span>` : drawBus(lane, states[i]);
    part('.sram').innerHTML = drawSram(lane, states[i]);
    part('.soft').innerHTML = drawSoft(lane, states[i]);
    part('.bytes').innerHTML = drawBytes(lane, states[i], isLast);
  });
  const event = frame.who < 0 ? null : states[frame.who].event, say = sentenceOf(frame, event, isEnd);
  if (lanes.length > 1) $('#joint').innerHTML = drawJoint(lanes, states, isEnd);
  if ($('#say').textContent !== say) $('#say').textContent = say;
  $('#scrub').value = step;
  $('#scrub').setAttribute('aria-valuetext', `step ${step} of ${frames.length - 1}: ${say}`);
  $('#count').innerHTML = `<span class="w">step </span>${step} / ${frames.length - 1}`;
  $('#play').innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${playing ? 'M3 2h4v12H3zM9 2h4v12H9z' : 'M3 1v14l11-7z'}"/></svg>`;
  $('#play').setAttribute('aria-label', playing ? 'Pause' : 'Play');
  for (const [id, off] of [['first', !step], ['prev', !step], ['next', isEnd], ['last', isEnd]]) $('#' + id).setAttribute('aria-disabled', off);
  $('#say').setAttribute('aria-live', playing && +$('#speed').value > 1 ? 'off' : 'polite');
  drawTimeline(lanes, frame);
  try { history.replaceState(null, '', `#demo=${DATA.demos[demo].id}&step=${step}`); } catch (_) { /* a page inside another has no address to set */ }
  if (fly && event && event.hbm && !reduced.matches) flight(event, frame.who);
}
function sentenceOf(frame, event, isEnd) {
  if (!event) return DATA.demos[demo].intro;
  if (lanes.length < 2) return event.sentence;
  if (!isEnd) return `${lanes[frame.who].name}: ${event.sentence}`;
  const [a, b] = lanes.map(l => count(l.closed_form.total_bytes));
  return `${sameOutput(...lanes.map(outputOf))}, with ${b} B instead of ${a} B over the bus.`;
}
function flight(event, who) { // the tile travels, so that the eye keeps hold of it
  const article = document.querySelector(`.lane[data-i="${who}"]`), reads = event.hbm.direction === 'read', buffer = reads ? event.writes[0] : event.reads[0];
  const there = article.querySelector(`.mat.${CSS.escape(event.hbm.matrix)} .hot`), here = [...article.querySelectorAll('.sram [data-b]')].filter(x => x.dataset.b === buffer);
  if (!there || !here.length) return;
  const a = there.getBoundingClientRect(), boxes = here.map(x => x.getBoundingClientRect()), b = { left: boxes[0].left, top: boxes[0].top, width: boxes[0].width, height: boxes[boxes.length - 1].bottom - boxes[0].top };
  const [from, to] = reads ? [a, b] : [b, a], ghost = document.createElement('div'), css = r => ({ left: r.left + 'px', top: r.top + 'px', width: r.width + 'px', height: r.height + 'px' });
  ghost.className = 'fly';
  ghost.style.borderColor = `var(--${event.unit})`;
  document.body.append(ghost);
  ghost.animate([{ ...css(from), opacity: 1 }, { ...css(to), opacity: .5 }], { duration: Math.min(420, 600 / +$('#speed').value), easing: 'ease-in-out' }).finished.finally(() => ghost.remove());
}
function pause() { playing = false; clearTimeout(timer); }
function go(n, fly) {
  step = Math.max(0, Math.min(frames.length - 1, n));
  if (step === frames.length - 1 && playing) pause();
  render(fly);
}
function choose(i, n) { pause(); demo = i; build(); go(n ?? DATA.demos[i].start); }
function tick() { timer = setTimeout(() => { go(step + 1, true); if (playing) tick(); }, 1300 / +$('#speed').value); }
function toggle() {
  if (playing) { pause(); render(); return; }
  if (step === frames.length - 1) step = 0;
  playing = true;
  render();
  tick();
}
const back = () => { pause(); go(step - 1); }, forth = () => { pause(); go(step + 1, true); }, toStart = () => { pause(); go(0); }, toEnd = () => { pause(); go(Infinity); };

$('#demos').style.setProperty('--demos', DATA.demos.length);
$('#demos').insertAdjacentHTML('beforeend', DATA.demos.map((d, i) => `<label><input type="radio" name="demo" value="${i}"><b>${esc(d.title)}</b><span>${esc(d.subtitle)}</span></label>`).join(''));
$('#pick').innerHTML = DATA.demos.map((d, i) => `<option value="${i}">${i + 1}. ${esc(d.title)} (${esc(d.subtitle)})</option>`).join('');
$('#demos').addEventListener('change', e => choose(+e.target.value));
$('#pick').addEventListener('change', e => choose(+e.target.value));
$('#first').onclick = toStart; $('#last').onclick = toEnd; $('#prev').onclick = back; $('#next').onclick = forth; $('#play').onclick = toggle;
$('#scrub').oninput = e => { pause(); go(+e.target.value); };
$('#tl').addEventListener('click', e => {
  const mark = e.target.closest('.ev');
  if (mark) { pause(); go(frames.findIndex(f => f.who === +mark.dataset.l && f.at[f.who] === +mark.dataset.q + 1)); }
});
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const tag = e.target.tagName, slides = tag === 'SELECT' || (tag === 'INPUT' && e.target.type === 'range');
  if (/^[1-9]$/.test(e.key) && tag !== 'SELECT') { if (+e.key <= DATA.demos.length) choose(+e.key - 1); return; }
  if (slides || tag === 'SUMMARY' || e.target.closest('.scroll')) return;
  const keys = { ArrowRight: forth, ArrowLeft: back, Home: toStart, End: toEnd, ' ': tag === 'BUTTON' ? null : toggle };
  if (tag === 'INPUT' && e.key.startsWith('Arrow')) return;
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
});
const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
const nameTheme = () => { $('#theme').textContent = isDark() ? 'Light' : 'Dark'; };
$('#theme').onclick = () => { document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'; nameTheme(); };
nameTheme();
addEventListener('resize', () => render());
const wanted = new URLSearchParams(location.hash.slice(1)), found = DATA.demos.findIndex(d => d.id === wanted.get('demo'));
const opening = Math.max(0, DATA.demos.findIndex(d => d.lanes.length === 1 && DATA.lanes[d.lanes[0]].schedule.startsWith('flash')));
choose(found < 0 ? opening : found, wanted.has('step') ? +wanted.get('step') || 0 : undefined);
