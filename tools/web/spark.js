// A small picture of values over time.
import { svg } from './dom.js';

const WIDTH = 130;
const SPARK_HEIGHT = 26;

export function spark(values, label) {
  const most = values.reduce((high, value) => Math.max(high, value), 0);
  const x = (i) => (i * WIDTH / values.length).toFixed(1);
  const y = (value) => (SPARK_HEIGHT - 1 - value / most * (SPARK_HEIGHT - 3)).toFixed(1);
  const line = values.map((value, i) => `L${x(i)} ${y(value)}L${x(i + 1)} ${y(value)}`).join('');
  return svg('svg', { class: 'spark', width: WIDTH, height: SPARK_HEIGHT, viewBox: `0 0 ${WIDTH} ${SPARK_HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label },
    svg('path', { class: 'series-0', d: most ? `M0 ${SPARK_HEIGHT}${line}L${WIDTH} ${SPARK_HEIGHT}Z` : '' }));
}
