// The form at the top: service, kind, filter, grouping, range; and labels to click. It shows the state and reports
// changes.
import { OF_ALL, OF_DAYS } from './address.js';
import { byId, element, fillSelect } from './dom.js';
import { formatValue } from './format.js';
import { kindFor } from './query.js';
import { labelDetails } from './labels.js';
import { parseSelector, selects, toggled } from './selector.js';

const UNITS = { nanoseconds: 'time', bytes: 'bytes', count: '' };
const CHIPS = 20; // values shown per label
const MOST_GROUPS = 4; // labels

// The choices of kinds for a service: "alloc" is a kind's value, "alloc:count" its count.
function kindOptions(rows) {
  const options = new Map();
  for (const row of [...rows].sort((a, b) => (a.kind < b.kind ? -1 : 1))) {
    const unit = UNITS[row.unit] ?? row.unit;
    options.set(row.kind, unit && !row.title.endsWith(unit) ? `${row.title}, ${unit}` : row.title);
    if (row.counts && row.kind !== 'cpu') {
      options.set(`${row.kind}:count`, `${row.title}, ${row.counts}`);
    }
  }
  return options;
}

// The default kind.
function kindOf(state, rows) {
  const kinds = rows.map((row) => row.kind).sort();
  const usual = kindFor(state);
  return kinds.includes(usual) ? usual : kinds.includes('cpu') ? 'cpu' : kinds[0] ?? '';
}

// A datetime-local input uses local time.
function localTime(seconds) {
  const date = new Date(Number(seconds) * 1000 - new Date(Number(seconds) * 1000).getTimezoneOffset() * 60000);
  return seconds ? date.toISOString().slice(0, 19) : '';
}

function typedSeconds(text) {
  const time = Date.parse(text) / 1000;
  return Number.isFinite(time) ? String(time) : '';
}

// Values of each label: for stacks with their sums, for processes without.
function labelValues(rows, profile) {
  const values = new Map();
  const add = (key, value, sum) => values.set(key, (values.get(key) ?? new Map()).set(value, sum));
  for (const set of rows.flatMap((row) => row.tags)) {
    Object.entries(set).forEach(([key, value]) => add(key, value, null));
  }
  for (const [key, sums] of Object.entries(profile?.labels ?? {})) {
    Object.entries(sums).forEach(([value, sum]) => add(key, value, sum));
  }
  return [...values].sort((a, b) => (a[0] < b[0] ? -1 : 1));
}

function groupOf() {
  return [...new Set([...byId('groups').children].map((select) => select.value).filter(Boolean))].join('\n');
}

export class Selection {
  constructor(onChange, onRefresh) {
    this.onChange = onChange;
    byId('group-label').addEventListener('change', () => onChange({ group: groupOf(), zoom: '', cell: '' }));
    for (const id of ['service', 'kind', 'range', 'from', 'to', 'live']) {
      byId(id).addEventListener('change', () => this.changed(id));
    }
    byId('filter-text').addEventListener('change', () => this.onFilter());
    byId('selection').addEventListener('submit', (event) => {
      event.preventDefault();
      if (!this.onFilter()) {
        onRefresh();
      }
    });
  }

  changed(id) {
    const { value } = byId(id);
    const patches = {
      service: () => ({ service: value, kind: '', value: '', filter: '', group: '', zoom: '', fn: '', cell: '' }),
      kind: () => ({ kind: value.split(':')[0], value: value.split(':')[1] ?? '', zoom: '', cell: '' }),
      range: () => (value === 'custom' ? this.customRange() : { range: value, from: '', to: '', at: '', base: '' }),
      from: () => ({ range: 'custom', from: typedSeconds(value), at: '' }),
      to: () => ({ range: 'custom', to: typedSeconds(value), at: '' }),
      live: () => ({ live: byId('live').checked ? '1' : '' }),
    };
    this.onChange(patches[id]());
  }

  // Starts from the range that is shown.
  customRange() {
    const { data } = this;
    return data ? { range: 'custom', from: String(data.from), to: String(data.from + data.step * data.buckets), at: '' } : { range: 'custom' };
  }

  // Returns whether the filter has changed.
  onFilter() {
    const input = byId('filter-text');
    try {
      parseSelector(input.value);
      input.setCustomValidity('');
    } catch (error) {
      input.setCustomValidity(error.message);
      input.reportValidity();
      return true;
    }
    if (input.value.trim() === this.state.filter) {
      return false;
    }
    this.onChange({ filter: input.value.trim(), zoom: '' });
    return true;
  }

  show(state, services) {
    this.state = state;
    this.services = services;
    const names = [...new Set(services.map((row) => row.service))].sort((a, b) => a.localeCompare(b));
    const rows = services.filter((row) => row.service === state.service);
    fillSelect(byId('service'), names.includes(state.service) ? names : [...names, state.service], state.service);
    const options = kindOptions(rows);
    fillSelect(byId('kind'), [...options.keys()], kindOf(state, rows) + (state.value ? `:${state.value}` : ''), (value) => options.get(value));
    byId('kind-label').hidden = options.size < 2;
    byId('range').value = state.range;
    byId('custom').hidden = state.range !== 'custom';
    byId('from').value = localTime(state.from);
    byId('to').value = localTime(state.to);
    byId('live').checked = Boolean(state.live);
    byId('filter-text').setCustomValidity('');
    if (document.activeElement !== byId('filter-text')) {
      byId('filter-text').value = state.filter;
    }
    const ofAll = OF_ALL.includes(state.view);
    for (const part of document.querySelectorAll('#selection [data-part]')) {
      part.classList.toggle('unused', ofAll ? part.dataset.part !== 'time' : (part.dataset.part === 'group' && [...OF_DAYS, 'diff'].includes(state.view)) ||
        (part.dataset.part === 'kind' && state.view === 'leaks'));
    }
    this.showLabels(this.profile);
  }

  // profile: provides the labels of stacks; may be called before show()
  showLabels(profile) {
    this.profile = profile;
    if (!this.state) {
      return;
    }
    const labels = profile?.service === this.state.service ? profile : null;
    const rows = this.services.filter((row) => row.service === this.state.service);
    const values = labelValues(rows, labels);
    const more = (key, sums) => Math.max(sums.size, labels?.label_values[key] ?? 0) - Math.min(CHIPS, sums.size);
    const onFilter = (key, value) => this.onChange({ filter: toggled(this.state.filter, key, value), zoom: '' });
    const chips = values.flatMap(([key, sums]) => [element('div', { class: 'chips' },
      element('span', { class: 'key' }, `${key}:`),
      ...[...sums].sort((a, b) => (b[1] ?? 0) - (a[1] ?? 0) || (a[0] < b[0] ? -1 : 1)).slice(0, CHIPS).map(([value, sum]) => this.chip(key, value, sum, labels?.unit)),
      more(key, sums) ? element('small', {}, `and ${more(key, sums)} more`) : null), labelDetails(key, this.state, onFilter)]);
    byId('labels').hidden = chips.length === 0 || OF_ALL.includes(this.state.view);
    byId('labels').firstElementChild.textContent = `Labels: ${values.map(([key]) => key).join(', ')}`;
    byId('chips').replaceChildren(...chips);
    this.showGroups(values.map(([key]) => key));
  }

  // A choice for each label, and one for another label.
  showGroups(known) {
    const chosen = this.state.group ? this.state.group.split('\n') : [];
    const keys = [...new Set([...known, ...chosen])].sort();
    const focused = document.activeElement?.id;
    const more = chosen.length && chosen.length < Math.min(MOST_GROUPS, keys.length) ? [...chosen, ''] : chosen.length ? chosen : [''];
    byId('groups').replaceChildren(...more.map((key, i) => {
      const select = element('select', { id: i ? `group-${i + 1}` : 'group', 'aria-label': i ? `Split by, label ${i + 1}` : null });
      fillSelect(select, ['', ...keys.filter((one) => one === key || !chosen.includes(one))], key, (one) => one || (i ? 'and …' : 'nothing'));
      return select;
    }));
    byId('group-label').hidden = keys.length === 0;
    if (focused?.startsWith('group')) {
      byId(focused)?.focus();
    }
  }

  chip(key, value, sum, unit) {
    return element('button', {
      type: 'button', class: 'chip', title: sum === null ? null : formatValue(sum, unit),
      'aria-pressed': String(selects(this.state.filter, key, value)),
      onclick: () => this.onChange({ filter: toggled(this.state.filter, key, value), zoom: '' }),
    }, value || '(empty)');
  }
}
