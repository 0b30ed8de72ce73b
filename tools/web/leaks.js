// What of the service's live heap grows over days, by place of allocation.
import { get } from './api.js';
import { element } from './dom.js';
import { countFigure, figure } from './figures.js';
import { formatSigned, formatValue } from './format.js';
import { queryOf } from './query.js';
import { Table } from './table.js';

function perHour(value) {
  return value === null ? 'open' : formatSigned(value, formatValue(value, 'bytes'));
}

// Few objects an hour have a fraction.
function objectsPerHour(value) {
  return value === null ? 'open' : formatSigned(value, value.toLocaleString('en', { maximumSignificantDigits: 3 }));
}

function slope(value, low, high, format) {
  if (value === null) {
    return element('td', { title: 'too few values for a slope: its processes have run too briefly' }, '–');
  }
  return element('td', {}, format(value), element('small', { class: 'interval' }, `${format(low)} to ${format(high)}`));
}

export class LeakView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'leak-figures' });
    const sites = element('section', { class: 'card' });
    parent.append(this.figures, sites);
    this.table = new Table(sites, {
      id: 'leaks', filterId: 'leak-filter', title: 'Places of allocation, leaks first', filterText: 'Filter places', noun: 'places', sort: { column: 'grows', down: true },
      textOf: (row) => row.site,
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'site', text: 'type and function', class: 'name', value: (row) => row.site, cell: (row) => row.site },
        { key: 'grows', text: 'leak', down: true, title: 'grows significantly, and by 1 % of the live heap or more in this time', value: (row) => row.grows,
          cell: (row) => element('td', { class: row.grows ? 'bad' : null }, row.grows ? 'leak' : '–') },
        { key: 'bytes', text: 'an hour', down: true, title: 'of a process, with the 95 % interval', value: (row) => row.bytes_per_hour ?? -Infinity,
          cell: (row) => slope(row.bytes_per_hour, row.low, row.high, perHour) },
        { key: 'objects', text: 'objects an hour', down: true, title: 'of a process, with the 95 % interval', value: (row) => row.objects_per_hour ?? -Infinity,
          cell: (row) => slope(row.objects_per_hour, row.objects_low, row.objects_high, objectsPerHour) },
        { key: 'now', text: 'in use', down: true, title: 'in all processes in the last two hours', value: (row) => row.bytes, cell: (row) => formatValue(row.bytes, 'bytes') },
        { key: 'processes', text: 'processes', down: true, value: (row) => row.processes, cell: (row) => row.processes.toLocaleString('en') },
      ],
    });
  }

  async show(state, still) {
    const answer = await get(`api/leaks?${queryOf({ ...state, kind: '', value: '' })}`);
    if (!still() || !this.app.filled(answer.count > 0)) {
      return;
    }
    this.figures.replaceChildren(
      figure(answer.grows === 1 ? 'leak' : 'leaks', answer.grows.toLocaleString('en'), 'places that grow', answer.grows > 0),
      countFigure(answer.count, 'place', 'of allocation in the live heap'),
      figure(answer.processes === 1 ? 'process' : 'processes', answer.processes.toLocaleString('en'), 'with a live heap in this time'),
      figure(answer.hours <= 1 ? 'hour' : 'hours', answer.hours ? answer.hours.toLocaleString('en') : 'under 1', 'between the first and the last value'));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(answer.sites, answer.count > answer.sites.length ? `, of ${answer.count.toLocaleString('en')} in all` : '');
  }
}
