// A flame graph with search, zoom and a detail line for one frame; by mouse, touch and keyboard.
//
//   show()  sets the tree; draw() runs at once, and again when the width changes
//   set()   applies the address: search text, zoomed frame, orientation
//   onChange({search | zoom | shape}) reports the user's changes
import { copyText, element, press, svg, toggle } from '/dom.js';
import { frameColor } from '/colors.js';
import { formatShare } from '/format.js';

// No transitions: with thousands of frames they take longer than drawing.
function stopTransitions(d3) {
  for (const name of ['transition', 'duration', 'delay', 'ease']) {
    d3.selection.prototype[name] = function unchanged() { return this; };
  }
}

function matcher(text) {
  const wanted = text.trim().toLowerCase();
  return wanted ? (name) => name.toLowerCase().includes(wanted) : null;
}

// A frame in an address: its depth and name.
function place(node) {
  return node && node.parent ? `${node.depth}:${node.data.name}` : '';
}

// Trees in which the library has left marks of a zoom.
const zoomedTrees = new WeakSet();

function removeMarks(tree) {
  const left = [tree];
  for (let node = left.pop(); node; node = left.pop()) {
    node.fade = false;
    node.hide = false;
    for (const child of node.children ?? []) {
      left.push(child);
    }
  }
  zoomedTrees.delete(tree);
}

const CELL = 20;
const NARROW = 35;

// Tooltips of frames, made on demand, because there may be thousands.
function hints(describe) {
  const tooltip = () => {};
  tooltip.show = (event, node) => event.currentTarget.querySelector('title') ?? event.currentTarget.append(svg('title', {}, describe(node)));
  tooltip.hide = () => {};
  tooltip.destroy = () => {};
  return tooltip;
}

const KEYS = 'Arrow keys move, Enter zooms, Escape zooms out, C copies the name';

export class FlameGraph {
  constructor(parent, options) {
    this.options = { color: frameColor, actions: [], onChange: () => {}, id: '', ...options };
    const name = (part) => part + (this.options.id ? `-${this.options.id}` : '');
    this.search = element('input', {
      type: 'search', placeholder: 'Search functions', 'aria-label': `Search functions in: ${options.title}`, id: name('search'),
      oninput: () => { this.onSearch(); this.options.onChange({ search: this.search.value }); },
    });
    this.reset = element('button', { type: 'button', id: name('reset'), disabled: true, onclick: () => this.resetZoom() }, 'Reset zoom');
    this.turn = toggle('Flame', { id: name('turn'), title: 'The root at the bottom' }, () => this.onTurn());
    this.chart = element('div', {
      class: 'chart', id: name('chart'), tabindex: '0', role: 'application', 'aria-label': `${options.title}. ${KEYS}`,
      'aria-describedby': name('detail'), onkeydown: (event) => this.onKey(event),
    });
    this.detail = element('p', { class: 'detail', id: name('detail'), 'aria-live': 'polite' });
    this.copy = element('button', { type: 'button', id: name('copy'), disabled: true, onclick: () => this.copyName() }, 'Copy name');
    this.buttons = this.options.actions.map(({ text, title, act }) =>
      element('button', { type: 'button', title, disabled: true, onclick: () => act(this.current.data.name) }, text));
    this.heading = element('h2', {}, options.title);
    parent.append(element('div', { class: 'bar' }, this.heading, this.search, this.turn, this.reset),
      this.chart, element('div', { class: 'bar about' }, this.detail, this.copy, ...this.buttons));
    this.upright = Boolean(options.upright);
    this.zoomed = '';
    new ResizeObserver(() => this.onWidth()).observe(this.chart);
  }

  set({ search = '', zoom = '', shape = '' }) {
    const upright = this.options.upright ? shape !== 'icicle' : shape === 'flame';
    const redraw = upright !== this.upright || zoom !== this.zoomed;
    this.search.value = search;
    this.zoomed = zoom;
    this.upright = upright;
    if (redraw) {
      this.draw();
    } else if (this.graph) {
      this.onSearch();
    }
  }

  show(tree) {
    this.tree = tree;
    this.current = null;
    this.draw();
  }

  onWidth() {
    if (this.chart.clientWidth !== this.width) {
      clearTimeout(this.resizing);
      this.resizing = setTimeout(() => this.draw(), this.graph ? 150 : 0);
    }
  }

  make() {
    stopTransitions(globalThis.d3);
    return globalThis.flamegraph.default()
      .width(Math.max(200, this.width))
      .cellHeight(CELL)
      .resetHeightOnZoom(true)
      .minFrameSize(1)
      .inverted(!this.upright)
      .transitionDuration(0)
      .sort((a, b) => b.data.value - a.data.value)
      .setColorMapper((node) => (node.highlight ? 'var(--mark)' : this.options.color(node)))
      .setSearchMatch((node, term) => term(node.data.name))
      .setSearchHandler((results, sum, total) => { this.found = { count: results.length, sum, total }; })
      .setDetailsHandler(() => {})
      .tooltip(hints((node) => this.options.describe(node.data)))
      .onHover((node) => this.say(this.options.describe(node.data)))
      .onClick((node) => this.onZoom(node));
  }

  draw() {
    this.width = this.chart.clientWidth;
    if (!this.tree || !this.width) {
      return;
    }
    const at = place(this.current);
    press(this.turn, this.upright);
    this.chart.replaceChildren();
    this.graph = this.make();
    if (zoomedTrees.has(this.tree)) {
      removeMarks(this.tree);
    }
    const selection = globalThis.d3.select(this.chart).datum(this.tree).call(this.graph);
    this.root = selection.datum();
    this.marked = false;
    this.quiet = true;
    const zoomed = this.nodeAt(this.zoomed);
    if (zoomed) {
      this.graph.zoomTo(zoomed);
    }
    this.reset.disabled = !zoomed;
    this.quiet = false;
    this.onSearch();
    this.pick(this.nodeAt(at), false);
    if (this.upright) {
      this.chart.scrollTop = this.chart.scrollHeight;
    }
  }

  // The widest frame with this name at this depth.
  nodeAt(text) {
    const colon = text.indexOf(':');
    const depth = Number(text.slice(0, colon));
    const name = text.slice(colon + 1);
    let best = null;
    if (colon > 0 && this.root) {
      this.root.each((node) => {
        if (node.depth === depth && node.data.name === name && (!best || node.data.value > best.data.value)) {
          best = node;
        }
      });
    }
    return best;
  }

  say(text) {
    this.detail.textContent = text;
  }

  onSearch() {
    const match = matcher(this.search.value);
    if (match) {
      this.graph.search(match);
      this.marked = true;
      const { count, sum, total } = this.found;
      this.say(count ? `Found in ${count} frames, ${formatShare(sum, total)} of all.` : 'Not found.');
    } else {
      if (this.marked) {
        this.graph.clear();
        this.marked = false;
      }
      this.say('Click a frame to zoom in.');
    }
    this.settle();
  }

  onTurn() {
    this.upright = !this.upright;
    this.draw();
    this.options.onChange({ shape: this.upright ? 'flame' : 'icicle' });
  }

  onZoom(node) {
    zoomedTrees.add(this.tree);
    if (this.quiet) {
      return;
    }
    this.zoomed = place(node);
    this.reset.disabled = !this.zoomed;
    this.settle();
    this.pick(node);
    this.options.onChange({ zoom: this.zoomed });
  }

  resetZoom() {
    this.graph.resetZoom();
  }

  async copyName() {
    await copyText(this.current.data.name);
    this.say(`Copied: ${this.current.data.name}`);
  }

  // Selects the frame for the detail line, the buttons and the keyboard.
  pick(node, tell = true) {
    this.current = node;
    for (const button of [this.copy, ...this.buttons]) {
      button.disabled = !node || !node.parent;
    }
    this.mark();
    if (node && tell) {
      this.say(this.options.describe(node.data));
    }
  }

  mark() {
    this.chart.querySelector('.current')?.classList.remove('current');
    if (this.current) {
      globalThis.d3.select(this.chart).selectAll('g').filter((node) => node === this.current).classed('current', true);
    }
  }

  // Called after the library has drawn.
  settle() {
    this.trim();
    this.fitLabels();
    this.mark();
  }

  // Removes the two empty rows that the library adds.
  trim() {
    const picture = this.chart.querySelector('svg');
    const height = this.graph.height() - 2 * CELL;
    picture.setAttribute('height', height);
    picture.setAttribute('viewBox', `0 ${this.upright ? 2 * CELL : 0} ${picture.getAttribute('width')} ${height}`);
  }

  // Narrow frames have no label, because unreadable labels cost as much time as others.
  fitLabels() {
    for (const frame of this.chart.querySelectorAll('.frame')) {
      const label = frame.querySelector('foreignObject');
      const width = frame.getAttribute('width');
      if (width < NARROW) {
        label?.remove();
      } else if (!label) {
        frame.append(svg('foreignObject', { width, height: CELL, class: 'untouchable' },
          element('div', { class: 'd3-flame-graph-label' }, frame.getAttribute('name'))));
      }
    }
  }

  visible(node) {
    return node && (node.x1 - node.x0) * this.width > 1;
  }

  step(direction) {
    const { current } = this;
    const around = current.parent ? current.parent.children : [current];
    const beside = (by) => {
      for (let i = around.indexOf(current) + by; i >= 0 && i < around.length; i += by) {
        if (this.visible(around[i])) {
          return around[i];
        }
      }
      return null;
    };
    const moves = {
      in: () => (current.children ?? []).find((child) => this.visible(child)),
      out: () => current.parent,
      left: () => beside(-1),
      right: () => beside(1),
    };
    return moves[direction]();
  }

  onKey(event) {
    const down = this.upright ? 'out' : 'in';
    const moves = { ArrowDown: down, ArrowUp: down === 'in' ? 'out' : 'in', ArrowLeft: 'left', ArrowRight: 'right' };
    if (!this.root || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (event.key in moves) {
      this.pick(this.current ? this.step(moves[event.key]) ?? this.current : this.root);
      this.chart.querySelector('.current')?.scrollIntoView({ block: 'nearest' });
    } else if (event.key === 'Enter' && this.current) {
      this.graph.zoomTo(this.current);
    } else if (event.key === 'Escape' && this.zoomed) {
      this.resetZoom();
    } else if (event.key.toLowerCase() === 'c' && this.current?.parent) {
      this.copyName();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  find(name) {
    this.search.value = name;
    this.onSearch();
    this.options.onChange({ search: name });
    this.chart.scrollIntoView({ block: 'nearest' });
  }
}
