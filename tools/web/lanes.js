// Samples of an incident over time, a row for each thread: above what it waited for, below what it computed. Pauses of
// the garbage collector cover all rows. Times are in ms from the trigger on.
import { frameColor } from './colors.js';
import { element, largest, press, svg, toggle } from './dom.js';
import { formatMs } from './format.js';
import { hideTip, showTip } from './menu.js';
import { numberTicks } from './ticks.js';
import { turned } from './wheel.js';

const LANE_ROW = 26;
const LANE = 9;
const TIMES = 22;
const LEAST_WIDTH = 2;
const LEAST_DRAG = 5;
const LANE_LETTER = 6.2;
const AXIS_LABEL = 50;

export class Lanes {
  // onChoose(sample): one was clicked, or reached by the arrow keys; onAll(): all threads, or not; tip(sample) -> rows
  constructor(parent, { onChoose, onAll, tip }) {
    Object.assign(this, { onChoose, tip });
    this.place = element('div', { class: 'plot', id: 'lanes' });
    const button = (id, text, act) => element('button', { type: 'button', id, onclick: act }, text);
    this.all = toggle('All threads', { id: 'lanes-threads' }, () => onAll());
    this.columns = element('div', { class: 'beside' }, this.place);
    parent.append(element('div', { class: 'bar' }, element('h2', {}, 'Threads over time'), this.all,
      button('lanes-in', 'Zoom in', () => this.zoomBy(0.5)), button('lanes-out', 'Zoom out', () => this.zoomBy(2)), button('lanes-all', 'All', () => this.zoom(this.whole)),
      element('span', { class: 'note legend' }, ...['cpu', 'wait', 'lock', 'gc', 'exception'].map((kind) => element('span', { class: `key-${kind}` }, kind)))), this.columns);
    new ResizeObserver(() => this.data && this.place.clientWidth !== this.width && this.draw()).observe(this.place);
  }

  // data: {samples: [{start, length, thread, kind, name}], threads: [text], span: {from, to} or null}; range: shown at first
  show(data, range) {
    const { samples } = data;
    this.whole = { from: -largest(samples.map((sample) => -sample.start), 1), to: largest(samples.map((sample) => sample.start + sample.length), 1) };
    this.data = data;
    this.chosen = null;
    press(this.all, Boolean(data.all));
    this.all.hidden = !data.all && !data.idle;
    this.all.textContent = data.all ? 'All threads' : `${data.idle} more that did nothing`;
    this.zoom(range);
  }

  zoom({ from, to }) {
    const least = 0.01;
    this.from = Math.max(this.whole.from, from);
    this.to = Math.max(this.from + least, Math.min(this.whole.to, to));
    this.draw();
  }

  // Around the chosen sample, else around the middle.
  zoomBy(factor) {
    const { from, to, chosen } = this;
    const middle = factor < 1 && chosen ? chosen.start + chosen.length / 2 : (from + to) / 2;
    this.zoom({ from: middle - (to - from) * factor / 2, to: middle + (to - from) * factor / 2 });
  }

  x(ms) {
    return this.gutter + (ms - this.from) / (this.to - this.from) * (this.width - this.gutter);
  }

  bar(sample, attributes) {
    const left = Math.max(this.gutter, this.x(sample.start));
    const right = Math.min(this.width, this.x(sample.start + sample.length));
    return svg('rect', { x: left.toFixed(1), width: Math.max(LEAST_WIDTH, right - left).toFixed(1), ...attributes });
  }

  draw() {
    this.width = this.place.clientWidth;
    if (!this.width) {
      return;
    }
    const focused = this.place.contains(document.activeElement);
    const { data, width } = this;
    // Names stand beside the bars.
    this.gutter = Math.round(Math.min(width * 0.3, 12 + LANE_LETTER * largest(data.threads.map((text) => text.length), 4)));
    const height = data.threads.length * LANE_ROW;
    this.seen = data.samples.filter((sample) => sample.start <= this.to && sample.start + sample.length >= this.from);
    const picture = svg('svg', { width, height: height + TIMES, 'data-gutter': this.gutter, role: 'application', tabindex: '0', 'aria-label': 'Samples: arrow keys choose one' },
      this.behind(height), data.threads.flatMap((text, row) => this.row(text, row)), this.seen.map((sample) => this.moment(sample)), this.axis(height));
    picture.addEventListener('pointerdown', (event) => this.onPress(event, picture));
    picture.addEventListener('wheel', (event) => this.onWheel(event, picture), { passive: false });
    picture.addEventListener('pointermove', (event) => this.onHover(event));
    picture.addEventListener('pointerleave', () => hideTip());
    picture.addEventListener('keydown', (event) => this.onKey(event));
    this.place.replaceChildren(picture);
    if (focused) {
      picture.focus();
    }
  }

  behind(height) {
    const pauses = this.seen.filter((sample) => sample.kind === 'gc');
    return [
      ...(this.data.span ? [this.bar({ start: this.data.span.from, length: this.data.span.to - this.data.span.from }, { class: 'span', y: 0, height })] : []),
      ...pauses.map((sample) => this.bar(sample, { class: 'pause', y: 0, height, 'data-sample': sample.number })),
    ];
  }

  row(text, row) {
    return [
      svg('line', { class: 'tick', x2: this.width, y1: (row + 1) * LANE_ROW, y2: (row + 1) * LANE_ROW }),
      svg('text', { class: 'tick', x: 2, y: row * LANE_ROW + LANE_ROW / 2 + 5 }, svg('title', {}, text), text.length * LANE_LETTER > this.gutter ? `${text.slice(0, Math.floor(this.gutter / LANE_LETTER) - 1)}…` : text),
    ];
  }

  moment(sample) {
    const cpu = sample.kind === 'cpu';
    return this.bar(sample, {
      class: `moment ${sample.kind === 'wait' && sample.name === '[lock]' ? 'lock' : sample.kind}${sample === this.chosen ? ' chosen' : ''}`,
      y: sample.thread * LANE_ROW + (cpu ? LANE + 5 : 3), height: LANE, 'data-sample': sample.number,
      fill: cpu ? frameColor({ data: sample, parent: this }) : null,
    });
  }

  axis(height) {
    const { width } = this;
    const trigger = Math.min(this.x(0), width - AXIS_LABEL / 2); // of its label
    const ticks = numberTicks(this.from, this.to, Math.max(2, Math.floor(width / 110)));
    return [
      ...ticks.filter((tick) => Math.abs(this.x(tick) - trigger) > AXIS_LABEL && this.x(tick) < width - AXIS_LABEL / 2).flatMap((tick) => [
        svg('line', { class: 'tick', x1: this.x(tick), x2: this.x(tick), y1: height, y2: height + 4 }),
        svg('text', { class: 'tick', x: this.x(tick), y: height + 17, 'text-anchor': 'middle' }, formatMs(tick)),
      ]),
      ...(this.from <= 0 && this.to >= 0 ? [svg('line', { class: 'trigger', x1: this.x(0), x2: this.x(0), y2: height + 6 }), svg('text', { class: 'tick at', x: trigger, y: height + 17, 'text-anchor': 'middle' }, 'trigger')] : []),
    ];
  }

  choose(sample) {
    this.chosen = sample;
    this.draw();
    this.onChoose(sample);
  }

  // Without a way it is a click; with one it selects what to zoom into.
  onPress(event, picture) {
    const from = event.clientX;
    const under = event.target.dataset.sample;
    const onRelease = (up) => {
      const left = picture.getBoundingClientRect().left;
      const at = (x) => this.from + (x - left - this.gutter) / (this.width - this.gutter) * (this.to - this.from);
      if (Math.abs(up.clientX - from) >= LEAST_DRAG) {
        this.zoom({ from: at(Math.min(from, up.clientX)), to: at(Math.max(from, up.clientX)) });
      } else if (under !== undefined) {
        this.choose(this.data.samples[Number(under)]);
      }
    };
    addEventListener('pointerup', onRelease, { once: true });
  }

  onWheel(event, picture) {
    const part = (event.clientX - picture.getBoundingClientRect().left - this.gutter) / (this.width - this.gutter);
    const span = turned(event, this, part, 0);
    if (span) {
      hideTip();
      if (!span.moved || (span.from >= this.whole.from && span.to <= this.whole.to)) {
        this.zoom(span);
      }
    }
  }

  onHover(event) {
    const sample = this.data.samples[Number(event.target.dataset.sample ?? -1)];
    if (sample && !event.buttons && this.tip) {
      showTip(event.clientX, event.clientY, sample.name, this.tip(sample));
    } else {
      hideTip();
    }
  }

  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    const next = ['ArrowLeft', 'ArrowRight'].includes(event.key) ? this.beside(step) : this.above(step);
    if (next) {
      this.choose(next);
    }
  }

  // The next sample of the same thread.
  beside(step) {
    const own = this.seen.filter((sample) => !this.chosen || sample.thread === this.chosen.thread);
    const at = own.indexOf(this.chosen);
    return at < 0 ? own.at(step < 0 ? -1 : 0) : own[at + step];
  }

  // The sample of the next thread that has one, nearest in time.
  above(step) {
    if (!this.chosen) {
      return this.seen[0];
    }
    for (let row = this.chosen.thread + step; row >= 0 && row < this.data.threads.length; row += step) {
      const own = this.seen.filter((sample) => sample.thread === row);
      if (own.length) {
        const off = (sample) => Math.abs(sample.start - this.chosen.start);
        return own.reduce((best, sample) => (off(sample) < off(best) ? sample : best));
      }
    }
    return null;
  }
}
