// The first view: all services, what each uses and since when, its devices and versions, and what went wrong.
import { get } from './api.js';
import { element } from './dom.js';
import { formatDuration, formatPpm, formatTime, formatValue } from './format.js';
import { startPaths } from './query.js';
import { spark } from './spark.js';
import { Table } from './table.js';

const NAMED = 3; // versions named

// What the answers say of each service.
function serviceRows({ services, timeline, devices, crashes, incidents }) {
  const rows = new Map();
  const rowOf = (service) => {
    if (!rows.has(service)) {
      rows.set(service, { service, kinds: 0, last: 0, first: Infinity, values: [], total: 0, devices: new Set(), versions: new Map(), cost: 0, crashes: 0, incidents: 0 });
    }
    return rows.get(service);
  };
  for (const { service, first, last } of services) {
    const row = rowOf(service);
    Object.assign(row, { kinds: row.kinds + 1, first: Math.min(row.first, first), last: Math.max(row.last, last) });
  }
  for (const { name, rest, values, total } of timeline.kind === 'cpu' ? timeline.series : []) {
    if (!rest && rows.has(name)) {
      Object.assign(rowOf(name), { values, total });
    }
  }
  for (const { service, device, versions, cost_ppm: cost, last } of devices) {
    const row = rowOf(service);
    row.devices.add(device);
    row.cost = Math.max(row.cost, cost);
    versions.forEach((version) => row.versions.set(version, Math.max(row.versions.get(version) ?? 0, last)));
  }
  crashes.forEach((group) => { rowOf(group.service).crashes += group.count; });
  incidents.forEach(({ service }) => { rowOf(service).incidents += 1; });
  return [...rows.values()];
}

export class StartView {
  constructor(parent, app) {
    this.app = app;
    const card = element('section', { class: 'card' });
    parent.append(card);
    const link = (text, title, patch, bad) => (text ? element('button', { type: 'button', class: bad ? 'link bad' : 'link', title, onclick: () => app.change(patch) }, text.toLocaleString('en')) : '–');
    this.table = new Table(card, {
      id: 'services', filterId: 'service-filter', title: 'Services', filterText: 'Search services, devices, versions', noun: 'services', sort: { column: 'total', down: true },
      textOf: (row) => [row.service, ...row.devices, ...row.versions.keys()].join(' '),
      onChange: ({ sort, filter }) => app.change({ sort, find: filter }, true),
      columns: [
        { key: 'service', text: 'service', class: 'name', value: (row) => row.service, cell: (row) => this.service(row) },
        { key: 'spark', text: 'over time', class: 'graph', value: (row) => row.total, down: true, title: 'CPU time over the time selected', cell: (row) => spark(row.values, `CPU time of ${row.service} over time`) },
        { key: 'total', text: 'CPU time', down: true, value: (row) => row.total, cell: (row) => (row.total ? formatValue(row.total, 'nanoseconds') : '–') },
        { key: 'devices', text: 'devices', down: true, value: (row) => row.devices.size, cell: (row) => link(row.devices.size, 'Its devices', { view: 'devices', find: row.service, sort: '' }) },
        { key: 'version', text: 'version', class: 'text optional', value: (row) => this.versions(row), cell: (row) => this.versions(row) || '–' },
        { key: 'crashes', text: 'crashes', down: true, value: (row) => row.crashes, cell: (row) => link(row.crashes, 'Its crashes', { view: 'crashes', find: row.service, sort: '' }, true) },
        { key: 'incidents', text: 'incidents', down: true, value: (row) => row.incidents, cell: (row) => link(row.incidents, 'Its incidents', { view: 'incidents', find: row.service, sort: '' }, true) },
        { key: 'cost', text: 'cost', class: 'optional', title: 'of profiling, in per cent of CPU time: the highest of its devices', down: true, value: (row) => row.cost, cell: (row) => (row.cost ? formatPpm(row.cost) : '–') },
        { key: 'last', text: 'last profile', class: 'optional', down: true, value: (row) => row.last, cell: (row) => this.last(row) },
      ],
    });
  }

  // The version seen last is first.
  versions(row) {
    const names = [...row.versions].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    return names.slice(0, NAMED).join(', ') + (names.length > NAMED ? ` and ${names.length - NAMED} more` : '');
  }

  service(row) {
    return element('td', { class: 'name' }, element('button', { type: 'button', title: 'Its flame graph', onclick: () => this.app.change({ view: 'flame', service: row.service, kind: '', value: '', filter: '', sort: '', find: '' }) }, row.service),
      element('small', {}, [row.kinds === 1 ? '1 kind' : `${row.kinds} kinds`, Number.isFinite(row.first) ? 'since ' : ''].filter(Boolean).join(', '), Number.isFinite(row.first) ? element('span', { class: 'keep' }, formatTime(row.first)) : null),
      element('small', { class: 'narrow bad' }, [row.crashes ? `${row.crashes} crashes` : '', row.incidents ? `${row.incidents} incidents` : ''].filter(Boolean).join(', ')));
  }

  last(row) {
    const ago = this.now - row.last;
    return element('td', { title: row.last ? formatTime(row.last) : null }, !row.last ? '–' : ago < 15 ? 'now' : `${formatDuration(ago)} ago`);
  }

  async show(state, still) {
    const [{ services }, timeline, { devices, now }, { groups }, { incidents }] = await Promise.all(startPaths(state).map(get));
    if (!still() || !this.app.filled(services.length > 0)) {
      return;
    }
    this.now = now;
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(serviceRows({ services, timeline, devices, crashes: groups, incidents }));
  }
}
