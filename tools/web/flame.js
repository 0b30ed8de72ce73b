// A flame graph with search, zoom, a tooltip and a menu for each frame; by mouse, touch and keyboard.
//
//   show()  sets the tree; draw() runs at once, and again when the width changes
//   set()   applies the address: search, zoomed frame, orientation, order, colours, changes of the tree
//   onChange({search | regex | zoom | shape | order | colors | changes}) reports the user's changes
import { copyText, element, fillSelect, press, toggle } from './dom.js';
import { COLORINGS, legendOf } from './colors.js';
import { FlameCanvas } from './flame_canvas.js';
import { framesSvg } from './flame_svg.js';
import { frameMenu } from './flame_menu.js';
import { frameOf, layOut, placeOf } from './flame_layout.js';
import { matcherOf, searchFrames } from './flame_search.js';
import { CHANGES, applyChanges, invert, readChanges } from './flame_tree.js';
import { hideTip, showMenu, showTip } from './menu.js';
import { formatShare } from './format.js';
import { listenToFrames } from './flame_input.js';

const KEYS = 'Arrow keys move, Enter zooms, M opens the menu, Escape zooms out, C copies the name';
const WHOLE = { x0: 0, x1: 1 };

export class FlameGraph {
  // options: title, id, plain (no search, orders and colours), upright, color(node), describe(node) -> text,
  // tip(node) -> [[name, text ...]], callers(name), actions [{text, title, act(name)}], onChange
  constructor(parent, options) {
    this.options = { actions: [], onChange: () => {}, id: '', ...options };
    const name = (part) => part + (this.options.id ? `-${this.options.id}` : '');
    const button = (part, text, title, act) => element('button', { type: 'button', id: name(part), title, onclick: act }, text);
    this.search = element('input', {
      type: 'search', placeholder: 'Search functions', 'aria-label': `Search functions in: ${options.title}`, id: name('search'), spellcheck: 'false',
      oninput: () => { this.onSearch(); this.options.onChange({ search: this.search.value }); },
      onkeydown: (event) => this.onSearchKey(event),
    });
    this.regex = toggle('.*', { id: name('regex'), title: 'Regular expression', 'aria-label': 'Regular expression' }, () => this.onRegex());
    this.previous = button('previous', '‹', 'Previous one found (Shift+Enter)', () => this.goFound(-1));
    this.next = button('next', '›', 'Next one found (Enter)', () => this.goFound(1));
    this.reset = button('reset', 'Reset zoom', 'Show the whole graph (Escape)', () => this.resetZoom());
    this.turn = toggle('Flame', { id: name('turn'), title: 'The root at the bottom' }, () => this.onTurn());
    this.inverted = toggle('Inverted', { id: name('inverted'), title: 'From each function that was running to its callers' }, () => this.onOrder({ inverted: !this.order.inverted }));
    this.byName = toggle('By name', { id: name('by-name'), title: 'Neighbours by name; otherwise the largest is on the left' }, () => this.onOrder({ byName: !this.order.byName }));
    this.colors = element('select', { id: name('colors'), 'aria-label': 'Colours by', title: 'What colours stand for', onchange: () => this.onColors() });
    this.chart = element('div', {
      class: 'chart', id: name('chart'), tabindex: '0', role: 'application', 'aria-label': `${options.title}. ${KEYS}`, 'aria-describedby': name('detail'),
    });
    this.chips = element('div', { class: 'legend changes', id: name('changes'), hidden: true });
    this.legend = element('div', { class: 'legend', id: name('colors-legend') });
    this.detail = element('p', { class: 'detail', id: name('detail'), 'aria-live': 'polite' });
    this.copy = element('button', { type: 'button', id: name('copy'), disabled: true, onclick: () => this.copyName() }, 'Copy name');
    this.more = element('button', { type: 'button', id: name('more'), disabled: true, title: 'What can be done with this frame (M)', onclick: () => this.openMenu() }, 'Menu');
    this.buttons = this.options.actions.map(({ text, title, act }) => element('button', { type: 'button', title, disabled: true, onclick: () => act(this.current.data.name) }, text));
    this.bar = element('div', { class: 'bar' }, element('h2', {}, options.title),
      ...(options.plain ? [] : [element('span', { class: 'group' }, this.search, this.regex, this.previous, this.next)]),
      this.turn, ...(options.plain ? [] : options.color ? [] : [this.inverted, this.byName, this.colors]), this.reset);
    parent.append(this.bar, this.chips, this.chart, ...(options.plain || options.color ? [] : [this.legend]),
      element('div', { class: 'bar about' }, this.detail, this.copy, this.more, ...this.buttons));
    this.canvas = new FlameCanvas(this.chart);
    this.chart.graph = this; // for tests and for people with a console
    Object.assign(this, { upright: Boolean(options.upright), zoomed: '', view: WHOLE, order: {}, changes: [], coloring: COLORINGS.code });
    fillSelect(this.colors, Object.keys(COLORINGS), 'code', (key) => COLORINGS[key].text);
    listenToFrames(this);
    new ResizeObserver(() => this.onWidth()).observe(this.chart);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.paint());
  }

  set({ search = '', regex = '', zoom = '', shape = '', order = '', colors = '', changes = '' }) {
    this.upright = this.options.upright ? shape !== 'icicle' : shape === 'flame';
    this.search.value = search;
    press(this.regex, Boolean(regex));
    this.order = { inverted: order.includes('inverted'), byName: order.includes('name') };
    this.colors.value = Object.hasOwn(COLORINGS, colors) ? colors : 'code';
    this.coloring = COLORINGS[this.colors.value];
    this.changes = readChanges(changes);
    this.zoomed = zoom;
    this.draw();
  }

  show(tree) {
    this.tree = tree;
    this.current = null;
    this.draw();
  }

  onWidth() {
    if (this.chart.clientWidth !== this.width) {
      clearTimeout(this.resizing);
      this.resizing = setTimeout(() => this.draw(), this.layout ? 150 : 0);
    }
  }

  // The tree as it is shown: made again only when something about it has changed.
  arrange() {
    const { tree, order, changes } = this;
    const key = JSON.stringify([order, changes]);
    if (this.arranged?.tree !== tree || this.arranged.key !== key) {
      const changed = applyChanges(tree, changes);
      this.layout = layOut(order.inverted ? invert(changed) : changed, order.byName ? 'name' : '');
      this.arranged = { tree, key };
    }
  }

  draw() {
    this.width = this.chart.clientWidth;
    press(this.turn, this.upright);
    press(this.inverted, Boolean(this.order.inverted));
    press(this.byName, Boolean(this.order.byName));
    if (!this.tree || !this.width) {
      return;
    }
    const at = placeOf(this.current);
    this.arrange();
    const zoomed = frameOf(this.layout.rows, this.zoomed);
    this.view = zoomed ?? WHOLE;
    this.zoomedFrame = zoomed;
    this.reset.disabled = !zoomed;
    this.fillChips();
    this.fillLegend();
    this.current = null;
    this.mark();
    this.pick(frameOf(this.layout.rows, at), false);
    if (this.upright) {
      this.chart.scrollTop = this.chart.scrollHeight;
    }
  }

  paint() {
    if (this.layout && this.width) {
      const { found } = this;
      this.canvas.show({
        rows: this.layout.rows, view: this.view, upright: this.upright, current: this.current, zoomed: this.zoomedFrame,
        color: this.options.color ?? this.coloring.color, marked: found ? (node) => found.marks.has(node) : null,
      });
    }
  }

  // What is painted: for tests.
  frames() {
    return this.canvas.painted.map(({ node, x, y, width, fill, label, found }) => ({
      name: node.data.name, depth: node.depth, x, y, width, fill, label, marked: Boolean(found), current: node === this.current,
    }));
  }

  fillChips() {
    const drop = (i) => this.onChanges(this.changes.filter((_, k) => k !== i));
    this.chips.hidden = this.changes.length === 0;
    this.chips.replaceChildren(...this.changes.map(([change, name], i) =>
      element('button', { type: 'button', class: 'chip', title: 'Undo this', onclick: () => drop(i) }, `${CHANGES[change].text} ${name} ×`)));
  }

  fillLegend() {
    const sums = legendOf(this.layout.rows, this.coloring);
    const shown = sums.slice(0, 8);
    this.legend.replaceChildren(...shown.map(([key, value]) => {
      const swatch = element('span', { class: 'swatch' });
      swatch.style.setProperty('background', this.coloring.sampleOf(key));
      return element('span', {}, swatch, `${this.coloring.textOf(key)} `, value ? element('small', {}, formatShare(value, this.layout.root.data.value)) : null);
    }), ...(sums.length > shown.length ? [element('small', {}, `and ${sums.length - shown.length} more`)] : []));
  }

  say(text) {
    this.detail.textContent = text;
  }

  // ---- search ----

  onSearch() {
    this.mark();
    this.paint();
  }

  // What the search finds, and says so.
  mark() {
    let match = null;
    this.search.setCustomValidity('');
    try {
      match = matcherOf(this.search.value, this.regex.ariaPressed === 'true');
    } catch {
      this.search.setCustomValidity('This is no regular expression.');
    }
    this.found = match && this.layout ? searchFrames(this.layout, match) : null;
    this.next.disabled = this.previous.disabled = !this.found?.nodes.length;
    this.say(!this.found ? (this.search.validationMessage || 'Click a frame to zoom in; right-click it for more.')
      : this.found.nodes.length ? `Found in ${this.found.nodes.length.toLocaleString('en')} frame${this.found.nodes.length === 1 ? '' : 's'}, ${formatShare(this.found.sum, this.layout.root.data.value)} of all.` : 'Not found.');
  }

  onRegex() {
    const on = this.regex.ariaPressed !== 'true';
    press(this.regex, on);
    this.onSearch();
    this.options.onChange({ regex: on ? '1' : '' });
  }

  onSearchKey(event) {
    if (event.key === 'Enter') {
      event.preventDefault();
      this.goFound(event.shiftKey ? -1 : 1);
    }
  }

  // To the next frame found. Where it is too narrow to be seen, its caller's caller and so on is zoomed.
  goFound(step) {
    const nodes = this.found?.nodes ?? [];
    if (!nodes.length) {
      return;
    }
    const at = nodes.indexOf(this.current);
    const i = at < 0 ? (step > 0 ? 0 : nodes.length - 1) : (at + step + nodes.length) % nodes.length;
    const node = nodes[i];
    const seen = node.x0 >= this.view.x0 && node.x1 <= this.view.x1 && (node.x1 - node.x0) * this.width > 3 * (this.view.x1 - this.view.x0);
    if (!seen) {
      let around = node;
      while (around.parent && (around.x1 - around.x0) < 20 * (node.x1 - node.x0)) {
        around = around.parent;
      }
      this.zoomTo(around);
    }
    this.pick(node, false);
    this.canvas.reveal(node);
    this.say(`${i + 1} of ${nodes.length.toLocaleString('en')}: ${this.options.describe(node)}`);
  }

  find(name) {
    press(this.regex, false);
    this.search.value = name;
    this.onSearch();
    this.options.onChange({ search: name, regex: '' });
    this.chart.scrollIntoView({ block: 'nearest' });
  }

  // ---- what the user changes ----

  onTurn() {
    this.upright = !this.upright;
    this.draw();
    this.options.onChange({ shape: this.upright ? 'flame' : 'icicle' });
  }

  onOrder(patch) {
    this.order = { ...this.order, ...patch };
    this.zoomed = 'inverted' in patch ? '' : this.zoomed;
    this.draw();
    this.options.onChange({ order: [this.order.inverted ? 'inverted' : '', this.order.byName ? 'name' : ''].filter(Boolean).join(), zoom: this.zoomed });
  }

  onColors() {
    this.coloring = COLORINGS[this.colors.value];
    if (this.layout) {
      this.fillLegend();
      this.paint();
    }
    this.options.onChange({ colors: this.colors.value === 'code' ? '' : this.colors.value });
  }

  onChanges(changes) {
    this.changes = changes;
    this.zoomed = '';
    this.draw();
    this.options.onChange({ changes: changes.length ? JSON.stringify(changes) : '', zoom: '' });
  }

  change(kind, name) {
    this.onChanges([...this.changes, [kind, name]]);
  }

  zoomTo(node) {
    this.zoomedFrame = node.parent ? node : null;
    this.zoomed = placeOf(node);
    this.view = this.zoomedFrame ?? WHOLE;
    this.reset.disabled = !this.zoomedFrame;
    this.pick(node);
    this.options.onChange({ zoom: this.zoomed });
  }

  // Without a frame: a part of the width, from x0 to x1.
  zoomView({ x0, x1 }) {
    const width = Math.min(1, x1 - x0);
    const left = Math.max(0, Math.min(x0, 1 - width));
    this.view = { x0: left, x1: left + width };
    this.zoomedFrame = null;
    this.reset.disabled = width >= 1;
    hideTip();
    this.paint();
  }

  resetZoom() {
    this.zoomTo(this.layout.root);
  }

  async copyName() {
    await copyText(this.current.data.name);
    this.say(`Copied: ${this.current.data.name}`);
  }

  // Selects the frame for the line below, the buttons and the keyboard.
  pick(node, tell = true) {
    this.current = node;
    for (const button of [this.copy, this.more, ...this.buttons]) {
      button.disabled = !node || !node.parent;
    }
    this.paint();
    if (node && tell) {
      this.say(this.options.describe(node));
    }
  }

  tipAt(node, x, y) {
    if (node) {
      showTip(x, y, node.data.name, this.options.tip?.(node) ?? [[this.options.describe(node), '']]);
    } else {
      hideTip();
    }
  }

  openMenu(at = this.canvas.reveal(this.current)) {
    hideTip();
    showMenu(at.x, at.y, this.current.data.name, frameMenu(this, this.current), this.chart);
  }

  svg() {
    return framesSvg(this.canvas, this.options.color ?? this.coloring.color, this.options.describe);
  }
}
