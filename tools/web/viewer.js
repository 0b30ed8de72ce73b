// One profile: its flame graph beside its functions, or the callers and callees of one function in the graph's place. For
// the page and for the file of `edgeprof flame`.
import { element, saveText } from './dom.js';
import { formatShare, formatValue } from './format.js';
import { FlameGraph } from './flame.js';
import { callersOf } from './flame_tree.js';
import { Functions } from './functions.js';
import { showMenuAt } from './menu.js';
import { Sandwich } from './sandwich.js';

// Hidden pages are not painted. On a busy machine the first frame takes its time.
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, document.hidden ? 0 : 1000);
  });
}

export class Viewer {
  // load(name), source(name): ask the server for callers and callees, and for the function's lines, optional. files(): [{text, href, file}], optional. link(): copies
  // a link, optional. onChange as in FlameGraph and Table, and {fn}
  constructor(parent, { load, source, files = () => [], link, onChange = () => {} } = {}) {
    Object.assign(this, { load, source, files, onChange });
    const graph = element('section', { class: 'card graph' });
    const functions = element('section', { class: 'card side' });
    this.whole = element('div', {});
    this.part = element('div', { id: 'sandwich', hidden: true });
    graph.append(this.whole, this.part);
    parent.append(element('div', { class: 'split' }, graph, functions));
    const open = (name) => this.openFunction(name);
    this.flame = new FlameGraph(this.whole, {
      title: 'Flame graph', describe: (node) => this.describe(node), tip: (node) => this.tip(node), onChange, callers: open,
      actions: [{ text: 'Callers and callees', title: 'Callers and callees of this function', act: open }],
    });
    this.save = element('button', { type: 'button', id: 'export', 'aria-haspopup': 'menu', onclick: () => this.openExport() }, 'Export');
    this.flame.bar.append(this.save, ...(link ? [element('button', { type: 'button', id: 'link', title: 'Copies a link that shows the same later: with dates instead of “last hour”', onclick: async () => this.flame.say(await link()) }, 'Copy link')] : []));
    this.sandwich = new Sandwich(this.part, { open, close: () => this.openFunction(''), tip: (node, whole) => this.tip(node, whole) });
    this.functions = new Functions(functions, { find: (name) => this.onFunction(name), callers: open, onChange });
  }

  set(state) {
    this.fn = state.fn ?? '';
    this.part.hidden = !this.fn;
    this.whole.hidden = Boolean(this.fn);
    this.flame.set(state);
    this.functions.set(state);
  }

  // The graph comes first; the table is filled after it has been painted.
  async show(profile) {
    this.profile = profile;
    this.flame.show(profile.tree);
    const part = this.showFunction();
    await painted();
    if (profile === this.profile) {
      this.functions.showProfile(profile);
    }
    await part;
  }

  async showFunction() {
    const { fn, profile } = this;
    if (fn) {
      const data = this.load ? await this.load(fn) : { ...callersOf(profile.tree, fn), unit: profile.unit };
      if (fn !== this.fn || profile !== this.profile) {
        return;
      }
      this.sandwich.show(data);
      this.sandwich.showSource(null);
      const lines = this.source && data.total ? await this.source(fn) : null;
      if (fn === this.fn && profile === this.profile) {
        this.sandwich.showSource(lines);
      }
    }
  }

  // '' goes back to the flame graph.
  openFunction(name) {
    this.onChange({ fn: name });
    if (!this.load) {
      this.fn = name;
      this.part.hidden = !name;
      this.whole.hidden = Boolean(name);
      this.flame.draw();
      this.showFunction();
    }
  }

  // A function of the table was clicked.
  onFunction(name) {
    if (this.fn) {
      this.openFunction(name);
    } else {
      this.flame.find(name);
    }
  }

  openExport() {
    const name = `${this.profile.service || 'profile'}-${this.profile.kind}`.replace(/[^\w.-]+/g, '_');
    showMenuAt(this.save, 'Export', [
      { text: 'SVG: the graph as shown', act: () => saveText(`${name}.svg`, 'image/svg+xml', this.flame.svg()) },
      ...this.files(name),
    ]);
  }

  // A sample of CPU time may stand for several periods, and how many samples a stack had is then unknown.
  countsOf() {
    const { kind, counts, count, samples } = this.profile;
    return kind === 'cpu' && samples !== count ? 'sampling periods' : counts || 'samples';
  }

  describe(node) {
    const { data } = node;
    const { total, unit } = this.profile;
    const self = data.self ? `, itself ${formatValue(data.self, unit)}` : '';
    const place = data.file ? ` — ${data.file}:${data.line}` : data.module ? ` — ${data.module}` : '';
    return `${data.name}: ${formatValue(data.value, unit)}, ${formatShare(data.value, total)}${self}${place}`;
  }

  // whole: of a part of the profile
  tip(node, whole = this.profile.total) {
    const { data, parent } = node;
    const { unit, total } = this.profile;
    const row = (name, value) => [name, formatValue(value, unit), `${formatShare(value, total)} of all`, parent && parent.data.value !== total ? `${formatShare(value, parent.data.value)} of its ${whole === total ? 'caller' : 'neighbour'}` : ''];
    return [
      row('with callees', data.value),
      ...(data.self === undefined ? [] : [row('itself', data.self)]),
      [this.countsOf(), data.count ? data.count.toLocaleString('en') : ''],
      ['module', data.module],
      ['source', data.file ? `${data.file}:${data.line}` : ''],
    ];
  }
}
