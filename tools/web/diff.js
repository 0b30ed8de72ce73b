// Comparison of two profiles: two ranges, two versions, or any two filters. The left side is the baseline. It compares
// shares, so the sides may have different lengths.
import { get } from './api.js';
import { changeColor } from './colors.js';
import { element, fillSelect } from './dom.js';
import { figure } from './figures.js';
import { FlameGraph } from './flame.js';
import { formatDuration, formatShare, formatSigned, formatTime, formatValue } from './format.js';
import { parseSpan } from './address.js';
import { baseTimeOf, queryOf, timeOf } from './query.js';
import { parseSelector, withService } from './selector.js';
import { Table } from './table.js';

const VERDICTS = {
  more: 'more', less: 'less', same: 'as before', unsure: 'unsure', none: 'no baseline',
};

function shares(figures, totals) {
  return figures.map((value, side) => (totals[side] ? value / totals[side] : 0));
}

// In percentage points: 0.123 -> "+12.30"
function points(change) {
  const rounded = Math.round(1e4 * change) / 100;
  return formatSigned(rounded, Math.abs(rounded).toFixed(2));
}

// The width of a frame is the mean of its two shares.
function widths(node, totals) {
  const [left, right] = shares(node.total, totals);
  return {
    name: node.name, left, right, total: node.total, value: (left + right) / 2,
    ...(node.children ? { children: node.children.map((child) => widths(child, totals)) } : {}),
  };
}

export class DiffView {
  constructor(parent, app) {
    this.app = app;
    this.base = element('select', { id: 'base', onchange: () => app.change({ base: this.base.value === 'chosen' ? this.state.base : this.base.value, zoom: '' }) });
    this.filter = element('input', { id: 'basefilter', type: 'text', spellcheck: 'false', autocomplete: 'off', onchange: () => this.onFilter() });
    const swap = element('button', { type: 'button', id: 'swap', title: 'Swap the baseline and the compared profile', onclick: () => this.swap() }, 'Swap');
    this.sides = element('p', { class: 'detail', id: 'sides' });
    this.figures = element('div', { class: 'figures', id: 'diff-figures' });
    const flame = element('section', { class: 'card' });
    const table = element('section', { class: 'card' });
    parent.append(
      element('form', { class: 'card', onsubmit: (event) => { event.preventDefault(); this.onFilter(); } },
        element('div', { class: 'bar' }, element('h2', {}, 'Baseline'), element('label', {}, 'Time ', this.base),
          element('label', { class: 'wide' }, 'Filter ', this.filter), swap), this.sides),
      this.body = element('div', {}, this.figures, flame, table));
    this.flame = new FlameGraph(flame, {
      title: 'Flame graph of the difference', color: (node) => (node.parent ? changeColor(this.strength(node.data)) : 'hsl(215 8% 86%)'),
      describe: (node) => this.describe(node), tip: (node) => this.tip(node),
      onChange: (patch) => app.change(patch, 'search' in patch || 'regex' in patch),
      actions: [{ text: 'Callers and callees', title: 'In the compared profile', act: (name) => app.change({ view: 'flame', fn: name, search: '', zoom: '', sort: '', find: '' }) }],
    });
    flame.insertBefore(this.scale(), flame.firstChild.nextSibling);
    this.table = this.makeTable(table);
  }

  scale() {
    const step = (change) => {
      const one = element('span', { class: 'step' });
      one.style.setProperty('background-color', changeColor(change));
      return one;
    };
    return element('p', { class: 'scale note', id: 'scale' }, 'smaller ', ...[-1, -0.6, -0.2, 0, 0.2, 0.6, 1].map(step), ' larger part of all than in the baseline');
  }

  makeTable(parent) {
    const share = (side) => (row) => shares(row.self, this.data.totals)[side];
    const change = (row) => share(1)(row) - share(0)(row);
    const cumulated = (row) => { const [left, right] = shares(row.total, this.data.totals); return right - left; };
    const changeCell = (value, sure) => element('td', { class: `change ${value >= 5e-5 ? 'more' : value <= -5e-5 ? 'less' : ''}${sure ? ' sure' : ''}` }, points(value));
    return new Table(parent, {
      id: 'diff-table', title: 'Differences', noun: 'functions', sort: { column: 'change', down: true }, textOf: (row) => row.name,
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'left', text: 'base %', title: 'of the baseline, function alone', down: true, value: share(0), cell: (row) => formatShare(row.self[0], this.data.totals[0]) },
        { key: 'right', text: 'now %', title: 'of the compared profile, function alone', down: true, value: share(1), cell: (row) => formatShare(row.self[1], this.data.totals[1]) },
        { key: 'change', text: 'flat ±', title: 'difference of the two, in points; sorted by its size', down: true, value: (row) => Math.abs(change(row)), cell: (row) => changeCell(change(row), row.verdict === 'more' || row.verdict === 'less') },
        { key: 'cum', text: 'cum ±', title: 'the same, with callees', class: 'optional', down: true, value: cumulated, cell: (row) => changeCell(cumulated(row), false) },
        { key: 'verdict', text: 'verdict', title: 'whether the difference is significant; a change below 10 % does not count', class: 'optional', value: (row) => VERDICTS[row.verdict], cell: (row) => VERDICTS[row.verdict] },
        { key: 'name', text: 'function', class: 'name', value: (row) => row.name, cell: (row) => element('td', { class: 'name' },
          element('button', { type: 'button', title: 'Find in the flame graph', onclick: () => this.flame.find(row.name) }, row.name),
          row.file ? element('small', {}, `${row.file}:${row.line}`) : null) },
      ],
    });
  }

  // The strength of the colour: 1 for a change of the whole frame; invisible changes count as 0.
  strength({ left, right }) {
    if (!this.data.totals.every(Boolean)) {
      return 0; // there is nothing to compare with
    }
    const change = right - left;
    return Math.sign(change) * Math.min(1, Math.abs(change) / Math.max(left, right, 0.002));
  }

  describe({ data: { name, left, right, total } }) {
    const { unit } = this.data;
    return `${name}: ${formatShare(left, 1)} (${formatValue(total[0], unit)}) → ${formatShare(right, 1)} (${formatValue(total[1], unit)}), ${points(right - left)} points`;
  }

  tip({ data: { left, right, total } }) {
    const { unit } = this.data;
    return [['baseline', formatValue(total[0], unit), `${formatShare(left, 1)} of all`], ['compared', formatValue(total[1], unit), `${formatShare(right, 1)} of all`],
      ['difference', `${points(right - left)} points`]];
  }

  onFilter() {
    const text = this.filter.value.trim();
    try {
      parseSelector(text);
      this.filter.setCustomValidity('');
    } catch (error) {
      this.filter.setCustomValidity(error.message);
      this.filter.reportValidity();
      return;
    }
    this.app.change({ basefilter: text === this.state.filter ? '' : text || (this.state.filter ? '{}' : ''), zoom: '' });
  }

  swap() {
    const { state } = this;
    if (this.data) {
      const span = (time) => `${time.from}-${time.to}`;
      const [left, right] = this.asked;
      this.app.change({ filter: this.baseFilter().replace(/^\{\}$/, ''), basefilter: state.filter || (state.basefilter ? '{}' : ''), at: span(left), base: span(right), zoom: '' });
    }
  }

  baseFilter() {
    return this.state.basefilter || this.state.filter;
  }

  showForm(state) {
    const names = { '': 'previous range', same: 'same range', chosen: parseSpan(state.base) ? 'selected on the timeline' : 'select on the timeline' };
    const value = parseSpan(state.base) ? 'chosen' : state.base;
    fillSelect(this.base, ['', 'same', ...(value === 'chosen' ? ['chosen'] : [])], value, (key) => names[key]);
    this.filter.placeholder = state.filter || 'version="1.1"';
    this.filter.setCustomValidity('');
    this.filter.value = state.basefilter === '{}' ? '' : state.basefilter || state.filter;
  }

  async show(state, still) {
    this.state = state;
    this.showForm(state);
    const base = baseTimeOf(state);
    if (!base) {
      this.body.hidden = true;
      this.app.filled(true);
      this.sides.textContent = 'There is no range before “all time”: select a range on the timeline, or compare the same range with another filter.';
      return;
    }
    const filter = this.baseFilter() === '{}' ? '' : this.baseFilter();
    const data = await get(`api/diff?${queryOf(state, undefined, { base_service: withService(state.service, filter), base_from: base.from, base_to: base.to })}`);
    if (!still()) {
      return;
    }
    this.data = { ...data, totals: data.sides.map((side) => side.total) };
    this.asked = [base, timeOf(state)].map((time, side) => parseSpan(`${time.from}-${time.to}`) ?? data.sides[side]);
    this.app.filled(true);
    this.body.hidden = !this.data.totals.some(Boolean);
    const text = (name, side, own) => `${name} ${own ? `{${own}} ` : ''}${side.total ? `${formatTime(side.from)} to ${formatTime(side.to)}, ${side.profiles} profiles` : 'has no profiles in its range'}`;
    this.sides.textContent = `${text('Baseline', data.sides[0], filter)}. ${text('Compared', data.sides[1], state.filter)}.` +
      (this.data.totals.every(Boolean) ? '' : ' Select another range or filter for the empty side.');
    if (!this.body.hidden) {
      this.fill(state);
    }
  }

  fill(state) {
    const { data } = this;
    const [left, right] = data.sides;
    this.figures.replaceChildren(
      figure('baseline', formatValue(left.total, data.unit), `over ${formatDuration(left.seconds)}`),
      figure('compared', formatValue(right.total, data.unit), `over ${formatDuration(right.seconds)}`),
      ...(data.growth === null ? [] : [
        figure(data.level ? 'growth per process' : 'growth per second of processes', formatSigned(data.growth, `${Math.abs(100 * data.growth).toFixed(1)} %`), `between ${(100 * data.growth_interval[0]).toFixed(1)} and ${(100 * data.growth_interval[1]).toFixed(1)} % with 95 % confidence`),
        figure('overall result', VERDICTS[data.verdict], 'a change below 10 % does not count; unsure: too few samples'),
      ]));
    this.flame.set(state);
    this.flame.show(widths(data.tree, data.totals));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(data.rows, (data.functions > data.rows.length ? `; ${data.functions - data.rows.length} small ones are omitted` : '') + (data.pruned ? `; ${data.pruned} small frames are not drawn` : ''));
  }
}
