// Replaces the server's SVG charts by uPlot, with axes and a cursor. Only pages with a
// .plot load this script, after the one of every page. Its data-chart has the data
// (chart.Data in the dashboard), its legend the colours and dashes. A live refresh changes
// only data-chart.

const height = 240;
const figure = (n) => n.toLocaleString('en-US');

// stamps formats the time axis in 24 hours, with the date where it changes. Each entry is
// the distance of ticks, the tick, and the second lines at a new year, month, day, hour
// and minute.
const date = '\n{YYYY}-{MM}-{DD}';
const stamps = [
  [31536000, '{YYYY}', null, null, null, null, null, null, 1],
  [86400, '{MM}-{DD}', '\n{YYYY}', null, null, null, null, null, 1],
  [60, '{HH}:{mm}', date, null, date, null, null, null, 1],
  [1, ':{ss}', `${date} {HH}:{mm}`, null, `${date} {HH}:{mm}`, null, '\n{HH}:{mm}', null, 1],
];

// A canvas has no CSS, and the theme may change, so styles are read at each use.
const styleOf = (element) => getComputedStyle(element);

function hatched(colour) {
  const tile = Object.assign(document.createElement('canvas'), { width: 6, height: 6 });
  const pen = tile.getContext('2d');
  pen.strokeStyle = colour;
  pen.lineWidth = 2.2;
  for (const x of [-6, 0, 6]) {
    pen.moveTo(x, 6);
    pen.lineTo(x + 6, 0);
  }
  pen.stroke();
  return pen.createPattern(tile, 'repeat');
}

class Chart {
  constructor(plot) {
    this.plot = plot;
    this.frame = plot.closest('figure');
    this.tip = Object.assign(document.createElement('div'), { className: 'tip', hidden: true, ariaHidden: 'true' });
    this.draw();
    if (this.data.select) this.addKeyboard();
    new MutationObserver(() => this.update()).observe(plot, { attributeFilter: ['data-chart'] });
    new ResizeObserver(() => this.drawn?.setSize(this.size())).observe(plot);
  }

  // span is the time from the first bar's begin to the last one's end.
  span() {
    const { begin, step, series } = this.data;
    return [begin, begin + step * series[0].length];
  }

  size() {
    return { width: this.plot.clientWidth, height };
  }

  read() {
    this.data = JSON.parse(this.plot.dataset.chart);
    const { begin, step, series, lines = 0 } = this.data;
    const x = series[0].map((_, i) => begin + i * step);
    // A bar also has the height of those below it, which are drawn in front of it. An empty
    // bar has no outline.
    const bars = series.slice(0, series.length - lines);
    const tops = bars.map((values, k) => values.map((n, i) => (n ? bars.slice(0, k + 1).reduce((sum, s) => sum + s[i], 0) : null)));
    return [x, ...tops.reverse(), ...series.slice(bars.length)];
  }

  // Builds a new chart when its series change, otherwise updates the figures.
  update() {
    const columns = this.read();
    if (columns.length !== this.drawn.data.length) this.draw();
    else this.drawn.setData(columns);
  }

  draw() {
    const columns = this.read();
    this.swatches = [...this.frame.querySelectorAll('.legend .swatch .line')].slice(0, this.data.series.length);
    this.drawn?.destroy();
    this.plot.replaceChildren(this.tip);
    this.drawn = new uPlot({ ...this.size(), ...this.options() }, columns, this.plot);
    const canvas = this.drawn.ctx.canvas;
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', this.frame.querySelector('figcaption').textContent.trim());
    if (this.data.select) this.addTouch(this.drawn.over);
  }

  addKeyboard() {
    this.plot.tabIndex = 0;
    this.plot.setAttribute('role', 'group');
    this.plot.setAttribute('aria-label', `${this.frame.querySelector('h2').textContent}, select a time`);
    this.plot.addEventListener('keydown', (event) => this.key(event));
  }

  // key moves the cursor from bar to bar. With Shift it extends a selection, which Enter
  // shows.
  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Enter' && this.anchor !== undefined) this.select(this.drawn);
    if (!move) return;
    event.preventDefault();
    const last = this.data.series[0].length - 1;
    const before = Math.min(this.at ?? last, last);
    this.at = Math.min(last, Math.max(0, before + move));
    this.anchor = event.shiftKey ? (this.anchor ?? before) : undefined;
    const position = (bar) => this.drawn.valToPos(this.data.begin + bar * this.data.step, 'x');
    const from = Math.min(this.at, this.anchor ?? this.at);
    const to = Math.max(this.at, this.anchor ?? this.at) + 1;
    const selected = { left: position(from), width: this.anchor === undefined ? 0 : position(to) - position(from) };
    this.drawn.setCursor({ left: position(this.at + 0.3), top: 1 });
    this.drawn.setSelect({ ...selected, top: 0, height: this.drawn.over.clientHeight }, false);
  }

  // addTouch passes sideways movements of a finger to uPlot as mouse events. Other
  // movements scroll.
  addTouch(over) {
    const mouseEvents = { pointerdown: 'mousedown', pointermove: 'mousemove', pointerup: 'mouseup', pointercancel: 'mouseup' };
    for (const [type, mouse] of Object.entries(mouseEvents)) {
      over.addEventListener(type, ({ pointerType, clientX, clientY }) => {
        if (pointerType !== 'touch') return;
        over.dispatchEvent(new MouseEvent(mouse, { clientX, clientY, movementX: 1, bubbles: true }));
      });
    }
  }

  options() {
    const axis = {
      stroke: () => styleOf(this.plot).color,
      font: `11px ${styleOf(this.plot).fontFamily}`,
      grid: { stroke: () => styleOf(this.plot).borderTopColor, width: 1 },
      ticks: { stroke: () => styleOf(this.plot).borderTopColor, width: 1 },
    };
    return {
      legend: { show: false },
      tzDate: (seconds) => (times.local() ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC')),
      scales: {
        x: { time: true, range: () => this.span() },
        y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.05)] },
      },
      axes: [
        { ...axis, values: stamps, space: 60 },
        { ...axis, size: 48, values: (_, at) => at.map((n) => (Number.isInteger(n) ? figure(n) : '')) },
      ],
      cursor: { points: { show: false }, drag: { setScale: false, x: Boolean(this.data.select), y: false }, y: false },
      series: [{}, ...this.bars()],
      hooks: { setCursor: [(u) => this.point(u)], setSelect: [(u) => this.select(u)], draw: [(u) => this.marks(u)] },
    };
  }

  lines(swatches) {
    return swatches.map((swatch) => ({
      stroke: () => styleOf(swatch).stroke,
      width: parseFloat(styleOf(swatch).strokeWidth),
      dash: styleOf(swatch).strokeDasharray.split(/[ ,]+/).map(parseFloat).filter(Boolean),
      paths: uPlot.paths.stepped({ align: 1 }),
      points: { show: false },
    }));
  }

  // bars are hatched unless they are allowed calls. The topmost ones are drawn first.
  bars() {
    const bars = this.swatches.slice(0, this.swatches.length - (this.data.lines ?? 0));
    const bar = (swatch) => {
      const colour = () => styleOf(swatch).stroke;
      const fill = swatch.matches('.allowed') ? colour : () => hatched(colour());
      return { stroke: colour, fill, width: 1, points: { show: false }, paths: uPlot.paths.bars({ size: [0.9], align: 1 }) };
    };
    return [...bars.map(bar).reverse(), ...this.lines(this.swatches.slice(bars.length))];
  }

  // point shows the figures under the cursor, and the changes in that step, beside it.
  point({ cursor: { idx, left }, over }) {
    const { begin, step, series, marks = [] } = this.data;
    this.tip.hidden = idx == null;
    if (idx == null) return;
    const at = begin + idx * step;
    const rows = this.swatches.map((swatch, i) => `${swatch.closest('li').textContent.trim()} ${figure(series[i][idx])}`);
    const changes = marks.flatMap((m, i) => (m.at >= at && m.at < at + step ? `${i + 1} ${m.text}` : []));
    this.tip.textContent = [times.short(new Date(at * 1000).toISOString()), ...rows, ...changes].join('\n');
    const beside = left > over.clientWidth / 2 ? left - this.tip.offsetWidth - 12 : left + 12;
    const most = this.plot.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(over.offsetLeft + beside, most))}px`;
  }

  select({ select }) {
    if (!this.data.select || select.width < 3) return;
    const time = (pixels) => `${new Date(this.drawn.posToVal(pixels, 'x') * 1000).toISOString().slice(0, 19)}Z`;
    const to = new URL(this.data.select, location.href);
    to.searchParams.set('from', time(select.left));
    to.searchParams.set('to', time(select.left + select.width));
    location.assign(to);
  }

  // marks draws at each change a line and a flag with its number.
  marks({ ctx, bbox: { top, height: tall } }) {
    const line = this.frame.querySelector('.legend .mark .line');
    if (!line) return;
    ctx.save();
    ctx.strokeStyle = styleOf(line).stroke;
    ctx.lineWidth = devicePixelRatio;
    ctx.font = `500 ${10 * devicePixelRatio}px ${styleOf(this.plot).fontFamily}`;
    ctx.textAlign = 'center';
    ctx.textBaseline = 'middle';
    const radius = 8 * devicePixelRatio;
    for (const [i, { at }] of (this.data.marks ?? []).entries()) {
      const x = Math.round(this.drawn.valToPos(at, 'x', true));
      ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, top + 2 * radius);
      ctx.lineTo(x, top + tall);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.beginPath();
      ctx.arc(x, top + radius, radius, 0, 2 * Math.PI);
      ctx.fillStyle = styleOf(this.frame).backgroundColor;
      ctx.fill();
      ctx.stroke();
      ctx.fillStyle = ctx.strokeStyle;
      ctx.fillText(i + 1, x, top + radius);
    }
    ctx.restore();
  }
}

const charts = new Map();

// find creates charts for new plots, and forgets charts whose plot a refresh removed.
function find() {
  for (const [plot] of charts) if (!plot.isConnected) charts.delete(plot);
  for (const plot of document.querySelectorAll('.plot')) if (!charts.has(plot)) charts.set(plot, new Chart(plot));
}

function recolour() {
  for (const { drawn } of charts.values()) drawn.redraw(false, true);
}

find();
document.addEventListener('htmx:after:swap', find);
document.addEventListener('theme', recolour);
document.addEventListener('zone', () => charts.forEach((chart) => chart.draw()));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
