// Paints rows of frames on a canvas. Only what can be seen is painted: the rows in the scrolled part, and within a row one
// rectangle for all neighbours that are too thin to be told apart. So a repaint costs the same for a hundred frames and for a hundred thousand.
import { element } from './dom.js';
import { firstBehind, frameAt, rowsWithin } from './flame_layout.js';

export const ROW = 20;
const THIN = 2; // pixels: narrower neighbours are one rectangle
const LABEL = 30; // pixels: narrower frames have no label
const INK = '#23180d';
const ABOVE = 'hsl(215 8% 66%)'; // below the colour of a caller of the zoomed frame
const FONT = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class FlameCanvas {
  constructor(place) {
    this.place = place;
    this.canvas = element('canvas', { 'aria-hidden': 'true' });
    this.room = element('div', { class: 'frames' }, this.canvas);
    this.widths = new Map();
    this.painted = []; // {node, x, y, width, fill, label}: what the last painting has drawn
    place.append(this.room);
    place.addEventListener('scroll', () => this.scene && this.paint());
  }

  // scene: {rows, view {x0, x1}, upright, color(node), marked(node), current, zoomed}
  show(scene) {
    this.scene = scene;
    this.count = rowsWithin(scene.rows, scene.view);
    this.height = this.count * ROW;
    this.room.style.setProperty('height', `${this.height}px`);
    this.paint();
  }

  size() {
    const width = this.place.clientWidth;
    const height = Math.min(this.height, Math.max(ROW, this.place.clientHeight));
    const dots = globalThis.devicePixelRatio || 1;
    const wanted = [Math.round(width * dots), Math.round(height * dots)];
    if (this.canvas.width !== wanted[0] || this.canvas.height !== wanted[1]) {
      [this.canvas.width, this.canvas.height] = wanted;
      this.canvas.style.setProperty('width', `${width}px`);
      this.canvas.style.setProperty('height', `${height}px`);
    }
    return { width, height, dots };
  }

  paint() {
    const { width, height, dots } = this.size();
    const context = this.canvas.getContext('2d');
    this.width = width;
    this.painted = [];
    this.visited = 0;
    const style = getComputedStyle(this.place);
    this.colors = { mark: style.getPropertyValue('--mark').trim(), ink: style.color };
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = 'middle';
    const top = Math.min(this.place.scrollTop, this.height - height);
    for (let depth = 0; depth < this.count; depth++) {
      const y = (this.scene.upright ? this.count - 1 - depth : depth) * ROW - top;
      if (y > -ROW && y < height) {
        this.paintRow(context, this.scene.rows[depth], y);
      }
    }
    this.paintCurrent(context);
  }

  x(part) {
    const { view } = this.scene;
    return (part - view.x0) / (view.x1 - view.x0) * this.width;
  }

  paintRow(context, row, y) {
    const { view, marked } = this.scene;
    const pixel = (view.x1 - view.x0) / this.width;
    for (let i = firstBehind(row, view.x0); i < row.length && row[i].x0 < view.x1;) {
      const node = row[i];
      const left = Math.max(0, this.x(node.x0));
      const right = Math.min(this.width, this.x(node.x1));
      this.visited++;
      if (right - left >= THIN) {
        this.paintFrame(context, { node, x: left, y, width: right - left, found: marked?.(node) });
        i++;
      } else { // all that end within these pixels
        const next = Math.max(i + 1, firstBehind(row, Math.max(node.x0, view.x0) + THIN * pixel));
        const found = marked && row.slice(i, next).some(marked);
        this.paintFrame(context, { node, x: left, y, width: THIN, found, thin: true });
        i = next;
      }
    }
  }

  paintFrame(context, frame) {
    const { node, x, y, width, found } = frame;
    const above = this.scene.zoomed && node.depth < this.scene.zoomed.depth;
    frame.fill = found ? this.colors.mark : this.scene.color(node);
    const room = width > 3 ? width - 1 : width;
    if (above) {
      context.fillStyle = ABOVE;
      context.fillRect(x, y, room, ROW - 1);
    }
    context.globalAlpha = above ? 0.5 : frame.thin ? 0.6 : 1;
    context.fillStyle = frame.fill;
    context.fillRect(x, y, room, ROW - 1);
    context.globalAlpha = 1;
    frame.label = width >= LABEL ? this.cut(context, node.data.name, width - 9) : '';
    if (frame.label) {
      context.fillStyle = INK;
      context.fillText(frame.label, x + 4, y + ROW / 2);
    }
    this.painted.push(frame);
  }

  // The name, or its beginning and an ellipsis.
  cut(context, name, room) {
    let width = this.widths.get(name);
    if (width === undefined) {
      width = context.measureText(name).width;
      this.widths.set(name, width);
    }
    if (width <= room) {
      return name;
    }
    const letters = Math.floor(name.length * (room - 10) / width);
    return letters > 0 ? `${name.slice(0, letters)}…` : '';
  }

  paintCurrent(context) {
    const frame = this.painted.find((one) => one.node === this.scene.current);
    if (frame) {
      context.strokeStyle = this.colors.ink;
      context.lineWidth = 2;
      context.strokeRect(frame.x + 1, frame.y + 1, Math.max(1, frame.width - 3), ROW - 3);
    }
  }

  // The frame below the pointer, or null.
  at(event) {
    if (!this.scene) {
      return null;
    }
    const box = this.room.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / ROW);
    const { view, upright, rows } = this.scene;
    const part = view.x0 + (event.clientX - box.left) / this.width * (view.x1 - view.x0);
    return row < 0 || row >= this.count ? null : frameAt(rows, upright ? this.count - 1 - row : row, part);
  }

  // Scrolls the frame's row into view; returns the frame's place in the window.
  reveal(node) {
    const y = (this.scene.upright ? this.count - 1 - node.depth : node.depth) * ROW;
    const { place } = this;
    if (y < place.scrollTop || y + ROW > place.scrollTop + place.clientHeight) {
      place.scrollTop = y - place.clientHeight / 2;
      this.paint();
    }
    const box = this.room.getBoundingClientRect();
    return { x: box.left + Math.max(0, Math.min(this.width - 8, this.x(node.x0))), y: box.top + y + ROW };
  }
}
