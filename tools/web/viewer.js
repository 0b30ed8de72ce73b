// One profile: its flame graph and its functions. In the page, and in the file that `edgeprof flame` writes.
import { element } from '/dom.js';
import { formatShare, formatValue } from '/format.js';
import { FlameGraph } from '/flame.js';
import { Functions } from '/functions.js';

// In a page that is not seen nothing is painted.
function painted() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, 100);
  });
}

export class Viewer {
  // callers: what to do for a function's callers, if anything; onChange as of FlameGraph and Table
  constructor(parent, { callers, onChange = () => {} } = {}) {
    const flame = element('section', { class: 'card' });
    const functions = element('section', { class: 'card' });
    parent.append(flame, functions);
    this.flame = new FlameGraph(flame, {
      title: 'Flame graph', describe: (data) => this.describe(data), onChange,
      actions: callers ? [{ text: 'Callers and callees', title: 'Who calls this function, and what it calls', act: callers }] : [],
    });
    this.functions = new Functions(functions, { find: (name) => this.flame.find(name), callers, onChange });
  }

  set(state) {
    this.flame.set(state);
    this.functions.set(state);
  }

  // The graph is what people wait for: the table comes when it has been painted.
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
