// Colours of frames and of series. Text on frames is dark in both themes, so frames are light in both.

function hashOf(text) {
  let hash = 0;
  for (let i = 0; i < text.length; i++) {
    hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
  }
  return hash;
}

const CODE = {
  own: { text: 'own code', hue: 22 },
  framework: { text: '.NET itself', hue: 46 },
  library: { text: 'shared libraries', hue: 205 },
  special: { text: 'no function: [special frames]', hue: 215 },
};

// Of .NET's libraries and runtime.
export function isFramework(name) {
  return /^((System|Microsoft|Internal)\.|(WKS|SVR)::|Rhp?[A-Z]|SystemNative_)/.test(name);
}

// Which kind of code a frame is.
function codeOf({ data, parent }) {
  const { name, module = '' } = data;
  return name.startsWith('[') || !parent ? 'special'
    : /\.so(\.|$)/.test(module) ? 'library'
      : isFramework(name) ? 'framework' : 'own';
}

// The hue depends on the kind of code, lightness and saturation on the name: a function has the same colour everywhere.
export function frameColor(node) {
  const hash = hashOf(node.data.name);
  const code = codeOf(node);
  return code === 'special' ? `hsl(215 12% ${72 + hash % 10}%)`
    : `hsl(${CODE[code].hue + hash % 14} ${72 + (hash >>> 8) % 20}% ${64 + (hash >>> 16) % 14}%)`;
}

function moduleColor(node) {
  const { module } = node.data;
  const hash = hashOf(module ?? '');
  return module && node.parent ? `hsl(${hash % 360} ${55 + (hash >>> 9) % 25}% ${70 + (hash >>> 17) % 10}%)` : `hsl(215 12% ${72 + hash % 10}%)`;
}

// What colours stand for. groupOf(node) -> key; textOf(key); color(node)
export const COLORINGS = {
  code: { text: 'kind of code', color: frameColor, groupOf: codeOf, textOf: (key) => CODE[key].text, sampleOf: (key) => `hsl(${CODE[key].hue + 6} ${key === 'special' ? 12 : 80}% 72%)` },
  module: { text: 'module', color: moduleColor, groupOf: (node) => node.data.module ?? '', textOf: (key) => key || '(no module)', sampleOf: (key) => moduleColor({ data: { module: key }, parent: key }) },
};

// Every colour of the graph, with its frames' own values: [[key, value]], the largest first.
export function legendOf(rows, coloring) {
  const sums = new Map();
  for (const row of rows) {
    for (const node of row) {
      const key = coloring.groupOf(node);
      sums.set(key, (sums.get(key) ?? 0) + Math.max(0, node.data.self ?? 0));
    }
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
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
