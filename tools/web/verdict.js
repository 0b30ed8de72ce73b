// Whether a new version of the service uses more than the one before, function by function, on the devices that ran both.
import { get } from './api.js';
import { element } from './dom.js';
import { figure } from './figures.js';
import { formatDuration, formatShare, formatTime, formatValue } from './format.js';
import { queryOf } from './query.js';
import { Table } from './table.js';

const WORDS = { regression: 'uses more', ok: 'no more', 'not yet': 'too few devices to tell', 'no baseline': 'no earlier version in this time', 'no data': 'no version in this time' };
const FINDINGS = ['more', 'less', 'unsure', 'same', 'none'];

function formatPercent(part) {
  return part === null ? 'none' : `${part > 0 ? '+' : part < 0 ? '−' : ''}${formatShare(Math.abs(part), 1)}`;
}

const nameOf = (row) => row.name || '(the service in all)';

function changeCell(estimate, title) {
  if (!estimate) {
    return element('td', {}, '–');
  }
  return element('td', { title }, formatPercent(estimate.change), element('small', { class: 'interval' }, `${formatPercent(estimate.low)} to ${formatPercent(estimate.high)}`));
}

export class VerdictView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'verdict-figures' });
    this.functions = element('section', { class: 'card' });
    this.about = element('section', { class: 'card', id: 'verdict-about' });
    parent.append(this.figures, this.functions, this.about);
    this.table = this.makeTable(this.functions);
  }

  makeTable(parent) {
    const changed = (row, key) => row[key]?.change ?? -Infinity;
    return new Table(parent, {
      id: 'verdict', filterId: 'verdict-filter', title: 'Functions, changes first', filterText: 'Filter functions', noun: 'functions', sort: { column: 'means', down: false },
      textOf: nameOf,
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'function', text: 'function', class: 'name', value: nameOf, cell: (row) => this.name(row) },
        { key: 'means', text: 'finding', class: 'text', title: 'what the change means, corrected for the number of functions', value: (row) => FINDINGS.indexOf(row.means),
          cell: (row) => element('td', { class: row.means === 'more' ? 'bad' : null }, row.means + (row.by ? `, by ${row.by === 'both' ? 'share and load' : row.by}` : '')) },
        { key: 'share', text: 'share', down: true, title: 'change of its part of the service’s usage, with the 95 % interval', value: (row) => changed(row, 'share'),
          cell: (row) => changeCell(row.share, 'of the service’s usage') },
        { key: 'load', text: 'load', down: true, title: 'change of its usage per second of a device, with the 95 % interval', value: (row) => changed(row, 'load'),
          cell: (row) => changeCell(row.load, 'of the whole load of the version before') },
        { key: 'before', text: 'share before', down: true, value: (row) => row.share?.before ?? 1, cell: (row) => formatShare(row.share?.before ?? 1, 1) },
      ],
    });
  }

  name(row) {
    if (!row.name) {
      return element('td', { class: 'name' }, nameOf(row));
    }
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'Its callers and callees', onclick: () => this.app.change({ view: 'flame', fn: row.name, sort: '', find: '' }) }, row.name),
      element('small', {}, row.figure === 'self' ? 'its own' : 'with what it calls'));
  }

  showSides({ sides, cohorts, unit }) {
    this.about.replaceChildren(element('h2', {}, 'What was compared'),
      ...sides.map((side, i) => element('p', {}, element('b', {}, `${i ? 'After' : 'Before'}: ${side.version}`),
        ` ${side.devices.toLocaleString('en')} device${side.devices === 1 ? '' : 's'} for ${formatDuration(side.seconds)} together, ${formatValue(side.total, unit)}, ` +
        `${side.samples.toLocaleString('en')} samples, ${formatTime(side.first)} to ${formatTime(side.last)}`)),
      element('ul', { id: 'cohorts' }, cohorts.map((cohort) => element('li', {}, `${cohort.name || '(unknown)'}: ${cohort.devices.join(' and ')} devices, ` +
        `${cohort.both} with both${cohort.compared ? '' : '; too few to compare'}`))));
  }

  async show(state, still) {
    const answer = await get(`api/verdict?${queryOf({ ...state, value: '' })}`);
    if (!still() || !this.app.filled(answer.verdict !== 'no data')) {
      return;
    }
    const compared = Boolean(answer.sides);
    this.figures.replaceChildren(
      figure(WORDS[answer.verdict] ?? '', answer.verdict, 'of the newer version', answer.verdict === 'regression'),
      figure('version', answer.version, 'the one that was first seen last'),
      ...(compared ? [
        figure('before', answer.baseline, 'the version that it is compared with'),
        figure('detectable', formatPercent(answer.detectable), 'an increase of the service’s usage that would have been found with 80 % probability'),
        ...(answer.verdict === 'not yet' ? [figure('devices needed', answer.devices_needed === null ? 'more' : answer.devices_needed.toLocaleString('en'), 'of each version, for an answer')] : []),
      ] : []));
    this.functions.hidden = !compared;
    this.about.hidden = !compared;
    if (compared) {
      this.showSides(answer);
      this.table.set({ sort: state.sort, filter: state.find });
      const more = answer.functions > answer.rows.length ? `, of ${answer.functions.toLocaleString('en')} that were tested` : '';
      this.table.show([...(answer.all ? [answer.all] : []), ...answer.rows], more);
    }
  }
}
