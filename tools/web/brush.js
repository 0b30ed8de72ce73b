// Selection of a range on a timeline: by dragging with a mouse or finger, or with two handles by keyboard.
//
// Ranges consist of whole buckets. onChange is called at the end of a drag and shortly after the last key.
import { svg } from './dom.js';
import { formatDuration, formatTime } from './format.js';

const KEY_PAUSE_MS = 350;
const HANDLE = 22; // wide enough for a finger

export class Brush {
  // options: name (shown), kind (CSS class), onMove(span) during a change, onChange(span | null)
  constructor(options) {
    this.options = options;
    this.area = svg('rect', { class: `brush ${options.kind}`, y: 0 });
    this.edges = ['from', 'to'].map((edge) => svg('g', {
      class: `edge ${options.kind}`, role: 'slider', tabindex: '0', 'data-edge': edge,
      'aria-label': `${edge === 'from' ? 'Start' : 'End'} of the ${options.name}`, onkeydown: (event) => this.onKey(event, edge),
    }, svg('rect', { class: 'grip', width: HANDLE, x: -HANDLE / 2 }), svg('line', {})));
    this.nodes = [this.area, ...this.edges];
  }

  // grid: {from, step, count, width, height}; span: {from, to} or null
  show(grid, span) {
    this.grid = grid;
    this.span = span;
    this.draw();
  }

  x(time) {
    const { from, step, count, width } = this.grid;
    return Math.min(width, Math.max(0, (time - from) / (step * count) * width));
  }

  // The nearest border of a bucket.
  snap(x) {
    const { from, step, count, width } = this.grid;
    return from + step * Math.min(count, Math.max(0, Math.round(x / width * count)));
  }

  draw() {
    const { from, step, count, height } = this.grid;
    const ends = this.span ?? { from, to: from + step * count };
    const left = this.x(ends.from);
    this.area.setAttribute('x', left);
    this.area.setAttribute('width', Math.max(0, this.x(ends.to) - left));
    this.area.setAttribute('height', height);
    this.area.classList.toggle('none', !this.span);
    this.edges.forEach((edge, i) => {
      const time = i ? ends.to : ends.from;
      edge.setAttribute('transform', `translate(${this.x(time)} 0)`);
      edge.classList.toggle('none', !this.span);
      edge.setAttribute('aria-valuemin', String(Math.round(from)));
      edge.setAttribute('aria-valuemax', String(Math.round(from + step * count)));
      edge.setAttribute('aria-valuenow', String(Math.round(time)));
      edge.setAttribute('aria-valuetext', formatTime(time));
      edge.firstChild.setAttribute('height', height);
      edge.lastChild.setAttribute('y2', height);
    });
  }

  describe() {
    const { span } = this;
    return span ? `${formatTime(span.from)} to ${formatTime(span.to)}, ${formatDuration(span.to - span.from)}` : 'whole range';
  }

  move(span) {
    this.span = span;
    this.draw();
    this.options.onMove(span);
  }

  // Handles a press at x; edge: on that handle. Returns functions for further positions and for the end.
  press(x, edge) {
    const before = this.span;
    const fixed = edge && before ? before[edge === 'from' ? 'to' : 'from'] : this.snap(x);
    let moved = false;
    return {
      move: (now) => {
        moved ||= Math.abs(now - x) > 3;
        const other = this.snap(now);
        const { from, step, count } = this.grid;
        if (moved) {
          const low = Math.min(fixed, other);
          const high = Math.max(fixed, other);
          this.move(low < high ? { from: low, to: high }
            : { from: Math.min(low, from + step * (count - 1)), to: Math.min(low, from + step * (count - 1)) + step });
        }
      },
      end: () => {
        if (moved) {
          this.options.onChange(this.span);
        } else if (before && !edge) {
          this.move(null);
          this.options.onChange(null);
        }
      },
    };
  }

  onKey(event, edge) {
    const { from, step, count } = this.grid;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -count, End: count };
    const end = from + step * count;
    const span = { ...this.span ?? { from, to: end } };
    if (event.key === 'Escape' && this.span) {
      this.move(null);
    } else if (event.key in steps) {
      span[edge] += steps[event.key] * step;
      span.from = Math.max(from, edge === 'from' ? Math.min(span.from, span.to - step) : span.from);
      span.to = Math.min(end, edge === 'to' ? Math.max(span.to, span.from + step) : span.to);
      this.move(span.from <= from && span.to >= end ? null : span);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.options.onChange(this.span), KEY_PAUSE_MS);
  }
}
