// A small picture of values over time.
import { svg } from './dom.js';

const WIDTH = 130;
const HEIGHT = 26;

export function spark(values, label) {
  const most = values.reduce((high, value) => Math.max(high, value), 0);
  const x = (i) => (i * WIDTH / values.length).toFixed(1);
  const y = (value) => (HEIGHT - 1 - value / most * (HEIGHT - 3)).toFixed(1);
  const line = values.map((value, i) => `L${x(i)} ${y(value)}L${x(i + 1)} ${y(value)}`).join('');
  return svg('svg', { class: 'spark', width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    svg('path', { class: 'series-0', d: most ? `M0 ${HEIGHT}${line}L${WIDTH} ${HEIGHT}Z` : '' }));
}
