// One profile: its flame graph and functions, for the page and for the file of `edgeprof flame`.
import { element } from '/dom.js';
import { formatShare, formatValue } from '/format.js';
import { FlameGraph } from '/flame.js';
import { Functions } from '/functions.js';

// Hidden pages are not painted.
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 100);
  });
}

export class Viewer {
  // callers: called for a function's callers, optional; onChange as in FlameGraph and Table
  constructor(parent, { callers, onChange = () => {} } = {}) {
    const flame = element('section', { class: 'card' });
    const functions = element('section', { class: 'card' });
    parent.append(flame, functions);
    this.flame = new FlameGraph(flame, {
      title: 'Flame graph', describe: (data) => this.describe(data), onChange,
      actions: callers ? [{ text: 'Callers and callees', title: 'Callers and callees of this function', act: callers }] : [],
    });
    this.functions = new Functions(functions, { find: (name) => this.flame.find(name), callers, onChange });
  }

  set(state) {
    this.flame.set(state);
    this.functions.set(state);
  }

  // The graph comes first; the table is filled after it has been painted.
  async show(profile) {
    this.profile = profile;
    this.flame.show(profile.tree);
    await painted();
    if (profile === this.profile) {
      this.functions.showProfile(profile);
    }
  }

  describe(data) {
    const { total, unit } = this.profile;
    const self = data.self ? `, itself ${formatValue(data.self, unit)}` : '';
    const place = data.file ? ` — ${data.file}:${data.line}` : data.module ? ` — ${data.module}` : '';
    return `${data.name}: ${formatValue(data.value, unit)}, ${formatShare(data.value, total)}${self}${place}`;
  }
}
