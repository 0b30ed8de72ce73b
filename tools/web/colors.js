// Colours of frames and of series. Text on frames is dark in both themes, so frames are light in both.

function hashOf(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) {
    hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  }
  return hash;
}

// The hue depends on the kind of code, lightness and saturation on the name: a function has the same colour everywhere.
export function frameColor(node) {
  const { name, module = '' } = node.data;
  const hash = hashOf(name);
  if (name.startsWith('[') || !node.parent) {
    return `hsl(215 12% ${72 + hash % 10}%)`;
  }
  const library = /\.so(\.|$)/.test(module);
  const framework = /^(System|Microsoft|Internal)\./.test(name);
  const hue = library ? 205 : framework ? 46 : 22;
  return `hsl(${hue + hash % 14} ${72 + (hash >>> 8) % 20}% ${64 + (hash >>> 16) % 14}%)`;
}

// From blue (less) over grey (unchanged) to red (more). Red and blue are distinguishable with colour blindness, and
// lightness decreases towards both ends. change: -1 .. 1
export function changeColor(change) {
  const strength = Math.min(1, Math.abs(change));
  return strength < 0.005 ? 'hsl(215 8% 86%)'
    : `hsl(${change > 0 ? 8 : 212} ${Math.round(35 + 50 * strength)}% ${Math.round(86 - 18 * strength)}%)`;
}

// Series of a timeline: one class per number, with colours in style.css. Okabe and Ito's palette suits colour
// blindness.
const SERIES_COLORS = 8;
export function seriesClass(index, rest) {
  return rest ? 'series-rest' : `series-${index % SERIES_COLORS}`;
}
