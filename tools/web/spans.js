// Spans by operation: how many, how long, and when which lengths began. A cell of the heat map, or one span or trace, is
// shown with all that these spans computed and waited for. Tracing tools link to single ones.
import { get } from './api.js';
import { element } from './dom.js';
import { formatTime, formatValue } from './format.js';
import { HeatMap } from './heat.js';
import { ofSpan, ofSpans, queryOf } from './query.js';
import { selects, toggled } from './selector.js';
import { ProfileView } from './profile.js';
import { Table, shareCell } from './table.js';

const MOST = 200; // spans in one graph: their ids are in the request
const USUAL_LABEL = 'endpoint';

class OfSpans extends ProfileView {
  address(state) {
    return super.address(state.ids ? ofSpans(state, state.ids) : ofSpan(state));
  }
}

// "a-b,c-d" -> {begin: [a, b], length: [c, d]}, or null
function readCell(text) {
  const found = /^([\d.]+)-([\d.]+),(\d+)-(\d+)$/.exec(text);
  const [a, b, c, d] = found ? found.slice(1).map(Number) : [];
  return found && a < b && c < d ? { begin: [a, b], length: [c, d] } : null;
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
    this.about = element('p', { class: 'note', id: 'cell-about' });
    const sections = ['operations', 'heat', 'spans'].map((id) => element('section', { class: 'card short', id }));
    const [operations, heat, spans] = sections;
    heat.classList.remove('short');
    this.many = [operations, heat, spans];
    parent.append(form, operations, heat, this.one, spans);
    this.operations = this.makeOperations(operations);
    this.operations.place.before(element('p', { class: 'note' }, 'Of spans with samples: each is as long as its samples say, what it computed and waited for in all threads. Spans without a sample are in no figure here; they are short, so percentiles of all spans are lower.'));
    this.heat = new HeatMap(heat, {
      id: 'heat-map', title: 'Lengths over time', noun: 'span',
      onPick: (cell) => app.change({ cell: cell ? `${cell.begin.join('-')},${cell.length.join('-')}` : '', zoom: '', fn: '' }),
    });
    this.view = new OfSpans(this.one, app, false);
    this.one.prepend(this.about);
    this.table = this.makeSpans(spans);
  }

  makeOperations(parent) {
    const value = (key, text, title) => ({ key, text, title, down: true, value: (row) => row[key], cell: (row) => formatValue(row[key], this.data.unit) });
    return new Table(parent, {
      id: 'operation-table', filterId: 'operation-filter', title: 'Operations', filterText: 'Filter operations', noun: 'operations', sort: { column: 'share', down: true }, textOf: (row) => row.name,
      columns: [
        { key: 'name', text: 'operation', class: 'name', value: (row) => row.name, cell: (row) => this.operationCell(row) },
        { key: 'share', text: '%', title: 'of all spans together', down: true, value: (row) => row.total, cell: (row) => shareCell(row.total, this.total) },
        { key: 'count', text: 'spans', down: true, value: (row) => row.count, cell: (row) => row.count.toLocaleString('en') },
        value('p50', 'p50', 'half of the spans are not longer'), value('p95', 'p95', '95 of 100 spans are not longer'), value('p99', 'p99', '99 of 100 spans are not longer'),
        { ...value('longest', 'longest'), class: 'optional' },
      ],
    });
  }

  // With one label a click chooses its spans; several labels are for looking.
  operationCell({ name }) {
    const { state } = this;
    const label = this.label();
    return element('td', { class: 'name', title: name === 'other' ? 'also what did not fit into a device’s table of label values' : null }, !name ? element('i', {}, `(no ${label})`) : label.includes(', ') ? name
      : element('button', { type: 'button', title: `Only ${label}=${name}`, 'aria-pressed': String(selects(state.filter, label, name)),
        onclick: () => this.app.change({ filter: toggled(state.filter, label, name), cell: '', zoom: '' }) }, name));
  }

  makeSpans(parent) {
    const link = (key, text) => element('button', { type: 'button', class: 'code link', onclick: () => this.app.change({ [key]: text, cell: '', zoom: '' }) }, text);
    return new Table(parent, {
      id: 'span-table', filterId: 'span-filter', title: 'Spans', filterText: 'Filter spans', noun: 'spans', sort: { column: 'value', down: true }, textOf: (row) => Object.values(row).join(' '),
      columns: [
        { key: 'value', text: 'length', down: true, value: (row) => row.value, cell: (row) => formatValue(row.value, this.data.unit) },
        { key: 'operation', text: 'operation', class: 'text', value: (row) => row.operation, cell: (row) => row.operation || `(no ${this.label()})` },
        { key: 'at', text: 'begins', title: 'the profile with its first sample', down: true, class: 'optional', value: (row) => row.at, cell: (row) => formatTime(row.at) },
        { key: 'span', text: 'span', class: 'text', value: (row) => row.span_id, cell: (row) => link('span_id', row.span_id) },
        { key: 'trace', text: 'trace', class: 'text optional', value: (row) => row.trace_id, cell: (row) => (row.trace_id ? link('trace_id', row.trace_id) : '–') },
      ],
    });
  }

  label() {
    return (this.state.group || USUAL_LABEL).split('\n').join(', ');
  }

  go() {
    const patch = { zoom: '', cell: '' };
    for (const { name, input } of this.inputs) {
      patch[name] = input.value.trim().toLowerCase();
    }
    this.app.change(patch);
  }

  async show(state, still) {
    this.state = state;
    for (const { name, input } of this.inputs) {
      input.value = state[name];
    }
    const asked = Boolean(state.span_id || state.trace_id);
    this.many.forEach((part) => { part.hidden = asked; });
    if (asked) {
      this.one.hidden = false;
      this.about.hidden = true;
      await this.view.show(state, still);
      return;
    }
    await this.showMany(state, still);
  }

  async showMany(state, still) {
    const cell = readCell(state.cell);
    const range = cell ? { begin: cell.begin.join('-'), length: cell.length.join('-') } : {};
    const group = state.group || USUAL_LABEL;
    const [data, profile] = await Promise.all([get(`api/spans?${queryOf(state, undefined, { group, ...range })}`), get(`api/profile?${queryOf(state, undefined, { depth: '1' })}`)]);
    if (!still()) {
      return;
    }
    this.app.labels(profile);
    if (!this.app.filled(profile.total > 0)) {
      return;
    }
    this.data = data;
    this.total = data.operations.reduce((sum, row) => sum + row.total, 0);
    const [operations, heat] = this.many;
    const some = data.count > 0;
    operations.hidden = heat.hidden = !some;
    if (some) {
      this.operations.show(data.operations, data.operation_count > data.operations.length ? `; ${data.operation_count - data.operations.length} more are not listed` : '');
      this.heat.show(data.heat, data.unit, cell);
    }
    const more = data.chosen - data.spans.length;
    this.table.show(data.spans, some ? (more > 0 ? `; ${more.toLocaleString('en')} shorter ones are not listed` : '')
      : '. No stack in this range has a span id. C programs set it with ep_span_set(), .NET services with EDGEPROF_SPANS.');
    this.one.hidden = this.about.hidden = !cell || data.spans.length === 0;
    if (!this.one.hidden) {
      const ids = data.spans.slice(0, MOST).map((span) => span.span_id);
      this.about.textContent = data.chosen > ids.length ? `What the ${ids.length} longest of the ${data.chosen.toLocaleString('en')} chosen spans computed and waited for:`
        : `What the ${ids.length === 1 ? 'chosen span' : `${ids.length} chosen spans`} computed and waited for:`;
      await this.view.show({ ...state, ids }, still);
    }
  }
}
