// A heat map: how many of which length began when. Columns are steps of time, rows lengths. By mouse, touch and keyboard.
import { element, largest, svg } from './dom.js';
import { formatDuration, formatTick, formatTime, formatValue } from './format.js';
import { timeTicks } from './ticks.js';

const CELL = 15;
const LENGTHS = 20;
const GUTTER = 58;
const FAINT = 0.16; // opacity of a cell with one

// "1.00 s" -> "1 s"
const edgeText = (value, unit) => formatValue(value, unit).replace(/\.0+ /, ' ');

export class HeatMap {
  // options: id, title, noun, onPick(cell | null); a cell is {begin: [from, to], length: [from, to]}
  constructor(parent, options) {
    this.options = options;
    this.place = element('div', {
      class: 'plot heat', id: options.id, tabindex: '0', role: 'application', 'aria-describedby': `${options.id}-detail`,
      'aria-label': `${options.title}. Arrow keys move, Enter chooses, Escape clears`, onkeydown: (event) => this.onKey(event),
    });
    this.detail = element('p', { class: 'detail', id: `${options.id}-detail`, 'aria-live': 'polite' });
    this.clear = element('button', { type: 'button', id: `${options.id}-clear`, onclick: () => options.onPick(null) }, 'All');
    parent.append(element('div', { class: 'bar' }, element('h2', {}, options.title), this.clear), this.place, this.detail);
    new ResizeObserver(() => this.data && this.place.clientWidth !== this.width && this.draw()).observe(this.place);
  }

  // data: {from, step, columns, edges, counts: [[of the row's columns]]}, rows from the shortest; chosen: a cell, or null
  show(data, unit, chosen) {
    const moved = this.data !== data;
    Object.assign(this, { data, unit, chosen });
    this.at = moved || !this.at ? this.find(chosen) : this.at;
    this.clear.disabled = !chosen;
    this.draw();
    this.say();
  }

  cell({ row, column }) {
    const { from, step, edges } = this.data;
    return { begin: [from + column * step, from + (column + 1) * step], length: [edges[row], edges[row + 1]] };
  }

  // Row and column of a cell, else of the longest.
  find(cell) {
    const { data } = this;
    const row = cell ? data.edges.indexOf(cell.length[0]) : -1;
    const column = cell ? Math.round((cell.begin[0] - data.from) / data.step) : -1;
    const known = row >= 0 && row < data.counts.length && column >= 0 && column < data.columns;
    const top = data.counts.length - 1;
    return known ? { row, column } : { row: top, column: Math.max(0, data.counts[top].findIndex((count) => count > 0)) };
  }

  draw() {
    this.width = this.place.clientWidth;
    if (!this.width || !this.data) {
      return;
    }
    const { data, width, unit, at, chosen } = this;
    const rows = data.counts.length;
    const height = rows * CELL;
    const most = largest(data.counts.flat(), 1);
    const x = (column) => GUTTER + column / data.columns * (width - GUTTER);
    const y = (row) => height - (row + 1) * CELL;
    const box = (row, column, more) => svg('rect', { x: x(column).toFixed(1), y: y(row), width: Math.max(1, x(column + 1) - x(column) - 1).toFixed(1), height: CELL - 1, ...more });
    const cells = data.counts.flatMap((counts, row) => counts.flatMap((count, column) => (count
      ? [box(row, column, { class: 'cell', 'fill-opacity': (FAINT + (1 - FAINT) * Math.log(count) / Math.log(Math.max(2, most))).toFixed(2) })] : [])));
    const time = (tick) => x((tick / 1000 - data.from) / data.step);
    const ticks = timeTicks(data.from, data.from + data.step * data.columns, Math.max(1, Math.floor((width - GUTTER) / 110))).filter((tick) => time(tick) > GUTTER + 10 && time(tick) < width - 24);
    const picture = svg('svg', { width, height: height + LENGTHS + 8, viewBox: `0 -8 ${width} ${height + LENGTHS + 8}`, 'aria-hidden': 'true' },
      ...data.edges.flatMap((edge, i) => (i % Math.ceil(rows / 8) === 0 ? [
        svg('line', { class: 'tick', x1: GUTTER, x2: width, y1: height - i * CELL, y2: height - i * CELL }),
        svg('text', { class: 'tick', x: GUTTER - 6, y: height - i * CELL + 4, 'text-anchor': 'end' }, edgeText(edge, unit)),
      ] : [])), ...cells,
      ...ticks.map((tick) => svg('text', { class: 'tick', x: time(tick), y: height + 16, 'text-anchor': 'middle' }, formatTick(tick))),
      ...(chosen ? [box(this.find(chosen).row, this.find(chosen).column, { class: 'chosen' })] : []),
      box(at.row, at.column, { class: 'at' }));
    const under = (event) => {
      const { left, top } = this.place.getBoundingClientRect();
      const column = Math.floor((event.clientX - left - GUTTER) / (width - GUTTER) * data.columns);
      const row = Math.floor((height + 8 - (event.clientY - top)) / CELL);
      return row >= 0 && row < rows && column >= 0 && column < data.columns ? { row, column } : null;
    };
    picture.addEventListener('pointermove', (event) => this.say(under(event) ?? this.at));
    picture.addEventListener('pointerleave', () => this.say());
    picture.addEventListener('click', (event) => under(event) && this.pick(under(event)));
    this.place.replaceChildren(picture);
  }

  say(at = this.at) {
    const { begin, length } = this.cell(at);
    const count = this.data.counts[at.row][at.column];
    this.detail.textContent = `${formatTime(begin[0])}, ${formatDuration(this.data.step)}, from ${edgeText(length[0], this.unit)} to ${edgeText(length[1], this.unit)}: ` +
      `${count.toLocaleString('en')} ${count === 1 ? this.options.noun : `${this.options.noun}s`}`;
  }

  pick(at) {
    this.at = at;
    if (this.data.counts[at.row][at.column]) {
      this.options.onPick(this.cell(at));
    } else {
      this.draw();
      this.say();
    }
  }

  onKey(event) {
    const { at, data } = this;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (step) {
      const within = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.at = { row: within(at.row + step[0], data.counts.length), column: within(at.column + step[1], data.columns) };
      this.draw();
      this.say();
    } else if (event.key === 'Enter') {
      this.pick(at);
    } else if (event.key === 'Escape') {
      this.options.onPick(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
