// Callers and callees of one function, with all its calls taken together. The server computes the sums, so they include
// calls too small to draw.
import { get } from '/api.js';
import { element } from '/dom.js';
import { figure } from '/figures.js';
import { FlameGraph } from '/flame.js';
import { formatShare, formatValue } from '/format.js';
import { queryOf } from '/query.js';
import { Table, shareCell } from '/table.js';

export class CallersView {
  constructor(parent, app) {
    this.app = app;
    this.input = element('input', { id: 'fn', type: 'text', list: 'fn-list', spellcheck: 'false', autocomplete: 'off' });
    this.list = element('datalist', { id: 'fn-list' });
    const form = element('form', { class: 'card bar', onsubmit: (event) => { event.preventDefault(); this.go(this.input.value); } },
      element('label', { class: 'wide' }, 'Function ', this.input), this.list,
      element('button', { type: 'submit' }, 'Show'), element('button', { type: 'button', onclick: () => app.change({ view: 'flame', search: this.input.value, fn: '', zoom: '' }) }, 'In the flame graph'));
    this.hint = element('p', { class: 'empty', id: 'fn-hint' });
    this.figures = element('div', { class: 'figures', id: 'fn-figures' });
    const tables = element('div', { class: 'columns' });
    const up = element('section', { class: 'card' });
    const down = element('section', { class: 'card' });
    this.body = element('div', {}, this.figures, tables, up, down);
    parent.append(form, this.hint, this.body);
    this.tables = ['callers', 'callees'].map((side) => this.table(tables, side));
    const options = { describe: (data) => this.describe(data), actions: [{ text: 'Callers and callees', title: 'Go on with this function', act: (name) => this.go(name) }] };
    this.callers = new FlameGraph(up, { ...options, id: 'callers', title: 'Callers', upright: true });
    this.callees = new FlameGraph(down, { ...options, id: 'callees', title: 'Callees' });
  }

  table(parent, side) {
    const card = element('section', { class: 'card' });
    parent.append(card);
    const total = () => this.data.total;
    return new Table(card, {
      id: `${side}-table`, filterId: `${side}-filter`, filterText: `Filter ${side}`, noun: side, title: side === 'callers' ? 'Called by' : 'Calls',
      sort: { column: 'value', down: true }, textOf: (row) => row.name,
      columns: [
        { key: 'value', text: '%', title: `of ${side === 'callers' ? 'all calls' : 'the function with callees'}`, down: true, value: (row) => row.value, cell: (row) => shareCell(row.value, total()) },
        { key: 'figure', text: 'figure', down: true, value: (row) => row.value, cell: (row) => formatValue(row.value, this.data.unit) },
        { key: 'name', text: 'function', class: 'name', value: (row) => row.name, cell: (row) => (row.none ? element('td', { class: 'name' }, element('i', {}, row.name))
          : element('td', { class: 'name' }, element('button', { type: 'button', onclick: () => this.go(row.name) }, row.name))) },
      ],
    });
  }

  go(name) {
    this.app.change({ fn: name });
  }

  describe(data) {
    const { all, total, unit } = this.data;
    return `${data.name}: ${formatValue(data.value, unit)}, ${formatShare(data.value, total)} of the function, ${formatShare(data.value, all)} of all`;
  }

  // Offers the functions of the profile for selection.
  async offer(state, still) {
    const profile = await get(`/api/profile?${queryOf(state)}`);
    if (still()) {
      this.app.labels(profile);
      this.list.replaceChildren(...profile.top.slice(0, 500).map((row) => element('option', { value: row.name })));
    }
    return profile;
  }

  async show(state, still) {
    this.input.value = state.fn;
    this.body.hidden = true;
    const offer = this.offer(state, still);
    offer.catch(() => {});
    if (!state.fn) {
      const profile = await offer;
      if (still() && !profile.total) {
        this.app.empty();
      } else if (still()) {
        this.app.filled();
        this.say('Type a function’s name, or choose “callers” beside a function of the flame graph’s table.');
      }
      return;
    }
    const data = await get(`/api/callers?${queryOf(state, undefined, { function: state.fn })}`);
    if (!still()) {
      return;
    }
    if (!data.all) {
      this.app.empty();
      return;
    }
    this.app.filled();
    this.say(data.total ? '' : `${state.fn} is in no stack of this range. Enter the complete name; case matters.`);
    this.body.hidden = !data.total;
    if (data.total) {
      this.fill(data);
    }
    await offer;
  }

  say(text) {
    this.hint.textContent = text;
    this.hint.hidden = !text;
  }

  fill(data) {
    this.data = data;
    const { unit } = data;
    this.figures.replaceChildren(
      figure('with callees', formatValue(data.total, unit), 'recursion counts once'),
      figure('of all', formatShare(data.total, data.all)),
      figure('the function itself', formatValue(data.self, unit)),
      figure('of all', formatShare(data.self, data.all)));
    const rest = (rows, name) => {
      const left = data.total - rows.reduce((sum, row) => sum + row.value, 0);
      return left > 0 ? [...rows, { name, value: left, none: true }] : rows;
    };
    const more = (count, rows) => (count > rows.length ? `; ${count - rows.length} small ones are omitted` : '');
    this.tables[0].show(rest(data.callers, '(no caller: root of the stack)'), more(data.caller_count, data.callers));
    this.tables[1].show(rest(data.callees, '(the function itself)'), more(data.callee_count, data.callees));
    this.callers.show(data.callers_tree);
    this.callees.show(data.callees_tree);
  }
}
