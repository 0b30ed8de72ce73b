// The profile of one span or trace. Tracing tools link to it, and the spans of a profile are offered for selection.
import { get } from './api.js';
import { element } from './dom.js';
import { formatValue } from './format.js';
import { ofSpan, queryOf } from './query.js';
import { Table, shareCell } from './table.js';
import { ProfileView } from './profile.js';

class OneSpan extends ProfileView {
  address(state) {
    // Wall time is what it computed and what it waited for, in one graph; unless a kind was chosen.
    return super.address(ofSpan({ ...state, kind: state.kind || 'wall' }));
  }
}

export class SpanView {
  constructor(parent, app) {
    this.app = app;
    this.inputs = [['span_id', 'Span', 16], ['trace_id', 'Trace', 32]].map(([name, text, digits]) => ({
      name, input: element('input', { id: name, type: 'text', size: String(Math.min(digits, 24)), pattern: `[0-9a-fA-F]{${digits}}`, title: `${digits} hexadecimal digits`, spellcheck: 'false', autocomplete: 'off' }), text,
    }));
    const form = element('form', { class: 'card bar', onsubmit: (event) => { event.preventDefault(); this.go(); } },
      ...this.inputs.map(({ text, input }) => element('label', {}, `${text} `, input)),
      element('button', { type: 'submit' }, 'Show'), element('button', { type: 'button', onclick: () => app.change({ span_id: '', trace_id: '', zoom: '' }) }, 'List spans'));
    this.one = element('div', { id: 'one-span' });
    this.many = element('section', { class: 'card', id: 'spans' });
    parent.append(form, this.one, this.many);
    this.view = new OneSpan(this.one, app, false);
    this.table = new Table(this.many, {
      id: 'span-table', filterId: 'span-filter', title: 'Spans', noun: 'spans', sort: { column: 'value', down: true }, textOf: (row) => row.name,
      columns: [
        { key: 'value', text: '%', down: true, value: (row) => row.value, cell: (row) => shareCell(row.value, this.total) },
        { key: 'figure', text: 'figure', down: true, value: (row) => row.value, cell: (row) => formatValue(row.value, this.unit) },
        { key: 'kind', text: 'what', value: (row) => row.key, cell: (row) => (row.key === 'span_id' ? 'span' : 'trace') },
        { key: 'name', text: 'id', class: 'name', value: (row) => row.name, cell: (row) => element('td', { class: 'name' },
          element('button', { type: 'button', class: 'code', onclick: () => app.change({ [row.key]: row.name, zoom: '' }) }, row.name)) },
      ],
    });
  }

  go() {
    const patch = { zoom: '' };
    for (const { name, input } of this.inputs) {
      patch[name] = input.value.trim().toLowerCase();
    }
    this.app.change(patch);
  }

  async show(state, still) {
    for (const { name, input } of this.inputs) {
      input.value = state[name];
    }
    const asked = Boolean(state.span_id || state.trace_id);
    this.one.hidden = !asked;
    this.many.hidden = asked;
    if (asked) {
      await this.view.show(state, still);
      return;
    }
    const ids = ['span_id', 'trace_id'];
    const profiles = await Promise.all(ids.map((group) => get(`api/profile?${queryOf(state, undefined, { group, depth: '1' })}`)));
    if (!still()) {
      return;
    }
    const [profile] = profiles;
    this.app.labels(profile);
    if (!this.app.filled(profile.total > 0)) {
      return;
    }
    this.total = profile.total;
    this.unit = profile.unit;
    const rows = ids.flatMap((key, i) => (profiles[i].tree.children ?? []).filter((child) => child.name.startsWith(`${key}=`))
      .map((child) => ({ key, name: child.name.slice(key.length + 1), value: child.value })));
    const more = profiles.reduce((sum, one) => sum + one.pruned, 0);
    this.table.show(rows, rows.length ? (more ? `; ${more.toLocaleString('en')} with the least are not listed: select a shorter time or a filter` : '') : '. No stack in this range has a span id. C programs set it with ep_span_set(), .NET services with EDGEPROF_SPANS.');
  }
}
