// The flame graph as it is painted, as an SVG file: the same frames, places and colours, with rows that are scrolled away.
import { ROW } from './flame_canvas.js';
import { firstBehind } from './flame_layout.js';

const escaped = (text) => text.replace(/[&<>"]/g, (letter) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[letter]);
const LEAST = 0.3; // pixels: narrower frames are left out
const LETTER = 6.6;

export function framesSvg(canvas, color, describe) {
  const { scene: { rows, view, upright }, width, count } = canvas;
  const parts = [];
  for (let depth = 0; depth < count; depth++) {
    const y = (upright ? count - 1 - depth : depth) * ROW;
    for (let i = firstBehind(rows[depth], view.x0); i < rows[depth].length && rows[depth][i].x0 < view.x1; i++) {
      const node = rows[depth][i];
      const left = Math.max(0, canvas.x(node.x0));
      const room = Math.min(width, canvas.x(node.x1)) - left;
      if (room >= LEAST) {
        const letters = Math.floor((room - 8) / LETTER);
        const { name } = node.data;
        const label = letters < 3 ? '' : name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
        parts.push(`<g><title>${escaped(describe(node))}</title><rect x="${left.toFixed(1)}" y="${y}" width="${room.toFixed(1)}" height="${ROW - 1}" fill="${color(node)}"/>` +
          `${label ? `<text x="${(left + 4).toFixed(1)}" y="${y + 14}">${escaped(label)}</text>` : ''}</g>`);
      }
    }
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${count * ROW}" font-family="sans-serif" font-size="12">\n${parts.join('\n')}\n</svg>\n`;
}
