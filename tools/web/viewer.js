// The flame graph and the table of functions of one profile. Used by the page and by `edgeprof flame -o x.html`, which
// puts this file, the profile (element #edgeprof-profile, JSON) and the libraries into one document.
//
// Names come from devices and symbol files: they reach the document as text, never as markup.
const d3 = globalThis.d3;
const flamegraph = globalThis.flamegraph.default;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const TIME_UNITS = [[3600e9, 'h'], [60e9, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
const BYTE_UNITS = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];

export function formatValue(value, unit) {
  const units = unit === 'nanoseconds' ? TIME_UNITS : unit === 'bytes' ? BYTE_UNITS : [];
  for (const [size, name] of units) {
    if (value >= size) {
      return `${(value / size).toFixed(2)} ${name}`;
    }
  }
  return unit === 'nanoseconds' ? `${value} ns` : unit === 'bytes' ? `${value} B` : value.toLocaleString('en');
}

export function formatShare(part, whole) {
  return `${(whole ? 100 * part / whole : 0).toFixed(2)} %`;
}

export function formatTime(seconds) {
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// One hue per kind of code, lightness and saturation by name: a function has the same colour everywhere.
function color(node) {
  if (node.highlight) {
    return 'var(--mark)';
  }
  const { name, module = '' } = node.data;
  let hash = 0;
  for (let i = 0; i < name.length; i++) {
    hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  }
  if (name.startsWith('[') || !node.parent) {
    return `hsl(215 12% ${72 + hash % 10}%)`;
  }
  const library = /\.so(\.|$)/.test(module);
  const framework = /^(System|Microsoft|Internal)\./.test(name);
  const hue = library ? 205 : framework ? 46 : 22;
  return `hsl(${hue + hash % 14} ${72 + (hash >>> 8) % 20}% ${64 + (hash >>> 16) % 14}%)`;
}

function matcher(text) {
  const wanted = text.trim().toLowerCase();
  return wanted ? (name) => name.toLowerCase().includes(wanted) : null;
}

function makeChart(viewer) {
  return flamegraph()
    .width(Math.max(200, viewer.chart.clientWidth))
    .cellHeight(20)
    .minFrameSize(1)
    .inverted(true)
    .transitionDuration(matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 150)
    .sort((a, b) => b.data.value - a.data.value)
    .setColorMapper(color)
    .setSearchMatch((node, term) => term(node.data.name))
    .setSearchHandler((results, sum, total) => { viewer.found = { count: results.length, sum, total }; })
    .setDetailsHandler(() => {})
    .label((node) => viewer.describe(node.data))
    .onHover((node) => viewer.say(viewer.describe(node.data)))
    .onClick((node) => {
      viewer.zoomed = node.parent ? node.data.name : null;
      viewer.reset.disabled = !node.parent;
      viewer.say(viewer.describe(node.data));
    });
}

export class Viewer {
  constructor(parent) {
    this.sort = { column: 'self', down: true };
    this.search = element('input', {
      type: 'search', placeholder: 'Search functions', 'aria-label': 'Search functions', id: 'search',
      oninput: () => this.onSearch(),
    });
    this.reset = element('button', { type: 'button', id: 'reset', disabled: true, onclick: () => this.resetZoom() }, 'Reset zoom');
    this.chart = element('div', { class: 'chart', id: 'chart' });
    this.detail = element('p', { class: 'detail', id: 'detail', 'aria-live': 'polite' });
    this.filter = element('input', {
      type: 'search', placeholder: 'Filter the table', 'aria-label': 'Filter the table', id: 'filter',
      oninput: () => this.fillTable(),
    });
    this.table = element('div', { class: 'table-scroll', id: 'top' });
    this.note = element('p', { class: 'note' });
    parent.append(
      element('section', { class: 'card' },
        element('div', { class: 'bar' }, element('h2', {}, 'Flame graph'), this.search, this.reset), this.chart, this.detail),
      element('section', { class: 'card' },
        element('div', { class: 'bar' }, element('h2', {}, 'Functions'), this.filter), this.table, this.note));
    addEventListener('resize', () => {
      clearTimeout(this.resizing);
      this.resizing = setTimeout(() => this.draw(), 150);
    });
  }

  show(profile) {
    this.profile = profile;
    this.draw();
    this.fillTable();
  }

  describe(data) {
    const { total, unit } = this.profile;
    const self = data.self ? `, itself ${formatValue(data.self, unit)}` : '';
    const place = data.file ? ` — ${data.file}:${data.line}` : data.module ? ` — ${data.module}` : '';
    return `${data.name}: ${formatValue(data.value, unit)}, ${formatShare(data.value, total)}${self}${place}`;
  }

  say(text) {
    this.detail.textContent = text;
  }

  // The library marks what is zoomed and found in the tree itself; a redraw starts from a fresh one.
  draw() {
    if (!this.profile || !this.chart.clientWidth) {
      return;
    }
    const zoomed = this.zoomed;
    this.chart.replaceChildren();
    this.graph = makeChart(this);
    d3.select(this.chart).datum(structuredClone(this.profile.tree)).call(this.graph);
    if (zoomed) {
      this.zoomTo(zoomed);
    }
    this.onSearch();
  }

  onSearch() {
    const match = matcher(this.search.value);
    if (!match) {
      this.graph.clear();
      this.say('Click a frame to zoom in.');
      return;
    }
    this.graph.search(match);
    const { count, sum, total } = this.found;
    this.say(count ? `Found in ${count} frames, ${formatShare(sum, total)} of all.` : 'Not found.');
  }

  // The widest frame of that name.
  zoomTo(name) {
    let best = null;
    d3.select(this.chart).each((root) => root.each((node) => {
      if (node.data.name === name && (!best || node.data.value > best.data.value)) {
        best = node;
      }
    }));
    if (best) {
      this.graph.zoomTo(best);
    }
  }

  resetZoom() {
    this.zoomed = null;
    this.graph.resetZoom();
    this.reset.disabled = true;
  }

  sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : column !== 'name' };
    this.fillTable();
  }

  rows() {
    const match = matcher(this.filter.value);
    const { column, down } = this.sort;
    const sign = down ? -1 : 1;
    const compare = column === 'name' ? (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
      : (a, b) => a[column] - b[column];
    return this.profile.top.filter((row) => !match || match(row.name)).sort((a, b) => sign * compare(a, b));
  }

  heading(column, text, attributes = {}) {
    const { sort } = this;
    const direction = sort.column === column ? (sort.down ? 'descending' : 'ascending') : null;
    const arrow = direction ? (sort.down ? ' ↓' : ' ↑') : '';
    return element('th', { 'aria-sort': direction, ...attributes },
      element('button', { type: 'button', onclick: () => this.sortBy(column) }, text + arrow));
  }

  row(row) {
    const { total, unit } = this.profile;
    const share = (value) => {
      const cell = element('td', { class: 'share' }, formatShare(value, total));
      cell.style.setProperty('--part', `${total ? 100 * value / total : 0}%`);
      return cell;
    };
    const place = row.file ? `${row.file}:${row.line}` : row.module;
    return element('tr', {}, share(row.self), element('td', { class: 'optional' }, formatValue(row.self, unit)),
      share(row.total), element('td', { class: 'optional' }, formatValue(row.total, unit)),
      element('td', { class: 'name' },
        element('button', { type: 'button', title: 'Find in the flame graph', onclick: () => this.find(row.name) }, row.name),
        place ? element('small', {}, place) : null));
  }

  fillTable() {
    const rows = this.rows();
    const shown = rows.slice(0, 500);
    this.table.replaceChildren(element('table', {},
      element('thead', {}, element('tr', {}, this.heading('self', 'flat %'),
        this.heading('self', 'flat', { class: 'optional' }), this.heading('total', 'cum %'),
        this.heading('total', 'cum', { class: 'optional' }), this.heading('name', 'function', { class: 'name' }))),
      element('tbody', {}, ...shown.map((row) => this.row(row)))));
    const more = this.profile.functions - this.profile.top.length;
    this.note.textContent = `${shown.length} of ${rows.length} functions` +
      (more > 0 ? `; ${more} small ones are not sent` : '') +
      (this.profile.pruned ? `; ${this.profile.pruned} small frames are not drawn` : '');
  }

  find(name) {
    this.search.value = name;
    this.onSearch();
    this.chart.scrollIntoView({ block: 'nearest' });
  }
}

const embedded = document.getElementById('edgeprof-profile');
if (embedded) {
  const profile = JSON.parse(embedded.textContent);
  document.getElementById('title').textContent = `${profile.service || 'profile'} ${profile.kind}${profile.measure === 'count' ? ` ${profile.counts}` : ''}: ` +
    `${formatValue(profile.total, profile.unit)}${profile.from ? `, from ${formatTime(profile.from)}` : ''}`;
  new Viewer(document.getElementById('viewer')).show(profile);
}
