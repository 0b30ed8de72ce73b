// Sums over time in buckets, stacked or as lines by the grouping label, with selection of ranges (brush.js).
import { Brush } from './brush.js';
import { seriesClass } from './colors.js';
import { element, largest, press, svg, toggle } from './dom.js';
import { formatDuration, formatRate, formatTick, formatTime, formatValue } from './format.js';
import { MARKS_HEIGHT, markList, markShapes } from './marks.js';
import { numberTicks, timeTicks } from './ticks.js';
import { turned } from './wheel.js';

const HEIGHT = 92;
const AXIS = 20;
const WHEEL_PAUSE_MS = 250;
const SHORTEST = 60; // seconds, by the wheel

export class Timeline {
  // options: onSelect('at' | 'base', span | null), onZoom(span), onOut(), onFit(), onChart('' | 'lines'), onFilter(values),
  // onGo(patch): a mark was clicked
  constructor(parent, options) {
    this.options = options;
    this.parent = parent;
    this.title = element('h2', {}, 'Timeline');
    this.lines = toggle('Lines', { id: 'lines', title: 'One line per series instead of stacked areas' }, () => options.onChart(this.chart ? '' : 'lines'));
    this.zoom = element('button', { type: 'button', id: 'zoom-in', onclick: () => options.onZoom(this.selection) }, 'Zoom in');
    this.out = element('button', { type: 'button', id: 'zoom-out', onclick: () => options.onOut(this.data) }, 'Zoom out');
    this.fit = element('button', { type: 'button', id: 'fit', title: 'The time that has data', onclick: () => options.onFit(this.data) }, 'Fit to data');
    this.clear = element('button', { type: 'button', id: 'clear', onclick: () => options.onSelect('at', null) }, 'Clear');
    this.which = element('select', { id: 'which', 'aria-label': 'Dragging selects' },
      element('option', { value: 'at' }, 'compared time'), element('option', { value: 'base' }, 'baseline'));
    this.whichLabel = element('label', { hidden: true }, 'Dragging selects ', this.which);
    this.place = element('div', { class: 'plot', id: 'plot' });
    this.readout = element('p', { class: 'detail', id: 'readout', 'aria-live': 'polite' });
    this.legend = element('div', { class: 'legend', id: 'legend', role: 'group', 'aria-label': 'Series' });
    this.markPlace = element('div', { class: 'mark-place' });
    this.marks = [];
    this.brushes = {
      base: new Brush({ name: 'baseline', kind: 'base', onMove: () => this.tell(), onChange: (span) => options.onSelect('base', span) }),
      at: new Brush({ name: 'chosen time', kind: 'at', onMove: () => this.tell(), onChange: (span) => options.onSelect('at', span) }),
    };
    parent.append(element('div', { class: 'bar' }, this.title, this.markPlace, this.whichLabel, this.lines, this.fit, this.zoom, this.out, this.clear),
      this.place, this.readout, this.legend);
    new ResizeObserver(() => this.onWidth()).observe(this.place);
  }

  // spans: {at, base}, each {from, to} or null; comparing: whether there is a baseline; onlyTimes: spans of other data
  // than shown
  show(data, spans, { comparing, chart, onlyTimes }) {
    Object.assign(this, { data, spans, comparing, chart, onlyTimes });
    this.selection = spans.at;
    this.whichLabel.hidden = !comparing;
    this.lines.hidden = data.series.length < 2;
    press(this.lines, Boolean(chart));
    this.zoom.disabled = this.clear.disabled = !spans.at;
    this.draw();
  }

  // They come after the timeline itself. [] when it changes.
  showMarks(marks) {
    this.marks = marks;
    const open = this.markPlace.querySelector('details')?.open;
    this.markPlace.replaceChildren(markList(marks, this.options.onGo));
    this.markPlace.firstChild.open = Boolean(open);
    if (!this.dragging) {
      this.draw(); // a new picture would end the drag, which draws at its end
    }
  }

  onWidth() {
    if (this.data && this.place.clientWidth !== this.width) {
      this.draw();
    }
  }

  draw() {
    this.width = this.place.clientWidth;
    if (!this.width) {
      return;
    }
    const { data, width } = this;
    const focused = this.place.querySelector('.edge:focus'); // to restore the focus in the new drawing
    const grid = { from: data.from, step: data.step, count: data.buckets, width, height: HEIGHT };
    this.highest = largest(this.chart ? data.series.flatMap((one) => one.values) : this.sums(), 0);
    this.cursor = svg('line', { class: 'cursor', y2: HEIGHT, visibility: 'hidden' });
    const top = MARKS_HEIGHT;
    const levels = this.levels();
    const picture = svg('svg', { width, height: top + HEIGHT + AXIS, viewBox: `0 ${-top} ${width} ${top + HEIGHT + AXIS}`, role: 'group', 'aria-label': 'Timeline' },
      ...levels.map(([line]) => line), ...this.series(), ...levels.map(([, text]) => text), ...this.axis(), this.cursor);
    for (const [name, brush] of Object.entries(this.brushes)) {
      if (name === 'at' || this.comparing) {
        brush.show(grid, this.spans[name]);
        picture.append(...brush.nodes);
      }
    }
    picture.append(svg('g', { transform: `translate(0 ${-top})` }, markShapes(this.marks, (time) => (time - data.from) / (data.step * data.buckets) * width, width, this.options.onGo)));
    picture.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    picture.addEventListener('pointerdown', (event) => this.onPress(event));
    picture.addEventListener('pointermove', (event) => this.onHover(event));
    picture.addEventListener('pointerleave', () => this.tell());
    this.place.replaceChildren(picture);
    focused?.focus();
    this.tell();
    this.fillLegend();
  }

  sums() {
    return Array.from({ length: this.data.buckets }, (_, i) => this.data.series.reduce((sum, one) => sum + one.values[i], 0));
  }

  series() {
    const { data, width, highest } = this;
    const y = (value) => HEIGHT - (highest ? value / highest * (HEIGHT - 16) : 0);
    const x = (i) => i / data.buckets * width;
    const below = new Array(data.buckets).fill(0);
    const gap = width / data.buckets > 4 ? 1 : 0;
    return data.series.map((one, number) => {
      const parts = [];
      one.values.forEach((value, i) => {
        if (this.chart) {
          parts.push(`${i ? 'L' : 'M'}${((x(i) + x(i + 1)) / 2).toFixed(1)} ${y(value).toFixed(1)}`);
        } else if (value > 0) {
          const low = y(below[i]);
          below[i] += value;
          parts.push(`M${x(i).toFixed(1)} ${low.toFixed(1)}V${y(below[i]).toFixed(2)}H${(x(i + 1) - gap).toFixed(1)}V${low.toFixed(1)}Z`);
        }
      });
      return svg('path', { class: `${this.chart ? 'line' : 'bars'} ${seriesClass(number, one.rest)}`, d: parts.join('') || 'M0 0' });
    });
  }

  // Lines at round values, and their texts, which stand before the bars.
  levels() {
    const { data, highest, width } = this;
    const scale = data.level ? 1 : 1 / data.step;
    const unit = data.unit === 'nanoseconds' ? 1e9 : data.unit === 'bytes' ? 1024 ** Math.max(0, Math.floor(Math.log(highest * scale) / Math.log(1024))) : 1;
    const ticks = highest ? numberTicks(0, highest * scale / unit, 3).slice(1) : [];
    return ticks.map((tick) => {
      const value = tick * unit / scale;
      const y = HEIGHT - value / highest * (HEIGHT - 16);
      return [svg('line', { class: 'level', x2: width, y1: y, y2: y }), svg('text', { class: 'tick over', x: 6, y: y - 3 }, data.level ? formatValue(value, data.unit) : formatRate(value, data.step, data.unit, data.kind))];
    });
  }

  axis() {
    const { data, width } = this;
    const length = data.step * data.buckets;
    const scale = (tick) => (tick / 1000 - data.from) / length * width;
    const ticks = timeTicks(data.from, data.from + length, Math.max(2, Math.floor(width / 110))).filter((tick) => scale(tick) > 24 && scale(tick) < width - 24);
    return [
      svg('line', { class: 'base-line', x2: width, y1: HEIGHT, y2: HEIGHT }),
      ...ticks.flatMap((tick) => [
        svg('line', { class: 'tick', x1: scale(tick), x2: scale(tick), y1: HEIGHT, y2: HEIGHT + 4 }),
        svg('text', { class: 'tick', x: scale(tick), y: HEIGHT + 16, 'text-anchor': 'middle' }, formatTick(tick)),
      ]),
    ];
  }

  position(event) {
    return event.clientX - this.place.getBoundingClientRect().left;
  }

  onPress(event) {
    if (event.button !== 0) {
      return;
    }
    const handle = event.target.closest('.edge');
    const name = handle ? (handle.classList.contains('base') ? 'base' : 'at') : this.comparing ? this.which.value : 'at';
    const drag = this.brushes[name].press(this.position(event), handle && !handle.classList.contains('none') ? handle.dataset.edge : '');
    const picture = event.currentTarget;
    const move = (now) => drag.move(this.position(now));
    const stop = (now) => {
      picture.removeEventListener('pointermove', move);
      picture.removeEventListener('pointerup', stop);
      picture.removeEventListener('pointercancel', stop);
      this.dragging = false;
      if (now.type === 'pointerup') {
        drag.end();
      } else {
        this.draw();
      }
    };
    this.dragging = true;
    picture.setPointerCapture(event.pointerId);
    picture.addEventListener('pointermove', move);
    picture.addEventListener('pointerup', stop);
    picture.addEventListener('pointercancel', stop);
  }

  // The server is asked after a pause.
  onWheel(event) {
    const { data, width } = this;
    const now = this.wheeled ?? { from: data.from, to: data.from + data.step * data.buckets };
    const span = turned(event, now, this.position(event) / width, SHORTEST);
    if (!span) {
      return;
    }
    this.wheeled = { from: Math.max(0, Math.round(span.from)), to: Math.round(span.to) };
    this.readout.textContent = `${formatTime(this.wheeled.from)} to ${formatTime(this.wheeled.to)}, ${formatDuration(span.to - span.from)}`;
    clearTimeout(this.wheelTimer);
    this.wheelTimer = setTimeout(() => {
      const span = this.wheeled;
      this.wheeled = null;
      this.options.onZoom(span);
    }, WHEEL_PAUSE_MS);
  }

  onHover(event) {
    const { data, width } = this;
    const i = Math.floor(this.position(event) / width * data.buckets);
    if (this.dragging || i < 0 || i >= data.buckets) {
      return;
    }
    const x = (i + 0.5) / data.buckets * width;
    this.cursor.setAttribute('x1', x);
    this.cursor.setAttribute('x2', x);
    this.cursor.setAttribute('visibility', 'visible');
    const parts = data.series.filter((one) => one.values[i]).map((one) => `${data.split ? `${one.rest ? 'others' : one.name || '(none)'} ` : ''}${formatValue(one.values[i], data.unit)}`);
    const from = data.from + i * data.step;
    this.readout.textContent = `${formatTime(from)}, ${formatDuration(data.step)}: ${parts.slice(0, 9).join(', ') || 'nothing'}` +
      (data.level ? '' : ` (${formatRate(this.sums()[i], data.step, data.unit, data.kind)})`);
  }

  // Sum of the buckets within a span.
  sumOf(span) {
    const { data } = this;
    return this.sums().reduce((sum, value, i) => {
      const middle = data.from + (i + 0.5) * data.step;
      return !span || (middle > span.from && middle < span.to) ? sum + value : sum;
    }, 0);
  }

  tell() {
    const { data } = this;
    this.cursor.setAttribute('visibility', 'hidden');
    const text = (name, brush) => `${name}: ${brush.describe()}${data.level || this.onlyTimes ? '' : ` — ${formatValue(this.sumOf(brush.span), data.unit)}`}`;
    this.readout.textContent = this.comparing
      ? `${text('Compared', this.brushes.at)}. ${text('Baseline', this.brushes.base)}.`
      : this.brushes.at.span ? text('Selected', this.brushes.at) : `Drag on the timeline to select a range. ${data.level ? '' : `Total: ${formatValue(this.sumOf(null), data.unit)}.`}`;
  }

  fillLegend() {
    const { data } = this;
    this.legend.hidden = !data.split;
    this.legend.replaceChildren(...data.series.map((one, number) => element('button', {
      type: 'button', class: 'chip', disabled: Boolean(one.rest), title: one.rest ? `${data.groups - data.series.length + 1} more values` : `Only this ${data.split}`,
      onclick: () => this.options.onFilter(one.values_of ?? [one.name]),
    }, element('span', { class: `swatch ${seriesClass(number, one.rest)}` }), `${one.rest ? 'others' : one.name || '(none)'} `,
    element('small', {}, formatValue(one.total, data.unit)))));
  }
}
