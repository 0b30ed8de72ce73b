// The list of devices: when each was last seen, versions, losses, spool, cost of profiling. Also the scrape targets.
import { get } from './api.js';
import { element, largest } from './dom.js';
import { figure, lossText, lostOf } from './figures.js';
import { formatDuration, formatPpm, formatTime, formatValue } from './format.js';
import { timeQuery } from './query.js';
import { formatSelector } from './selector.js';
import { Table } from './table.js';

const COSTLY = 20000; // ppm of the CPU time: more than profiling may cost
const LATE = 180; // seconds: a device sends every 10 s, and after an outage it sends its spool

const lossCount = (row) => lostOf(row.losses);

export class DeviceView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'device-figures' });
    const devices = element('section', { class: 'card' });
    this.targets = element('section', { class: 'card', id: 'targets', hidden: true });
    parent.append(this.figures, devices, this.targets);
    this.table = this.makeTable(devices);
    this.targetTable = this.makeTargets(this.targets);
  }

  late(row) {
    return this.now - row.last > LATE;
  }

  makeTable(parent) {
    const text = (value) => value || '–';
    return new Table(parent, {
      id: 'devices', title: 'Devices', filterText: 'Filter devices', noun: 'services on devices', sort: { column: 'last', down: true },
      textOf: (row) => JSON.stringify(row),
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'device', text: 'device', class: 'name', value: (row) => row.device, cell: (row) => this.device(row) },
        { key: 'last', text: 'last seen', down: true, value: (row) => row.last, cell: (row) => element('td', { title: formatTime(row.last), class: this.late(row) ? 'bad' : null },
          this.now - row.last < 1 ? 'now' : `${formatDuration(this.now - row.last)} ago`) },
        { key: 'spool', text: 'spool', title: 'messages in the spool on the device’s disk', down: true, value: (row) => row.spool_messages, cell: (row) => this.spool(row) },
        { key: 'lost', text: 'lost', title: 'since the processes of this time started, and below it also what has less detail', down: true, value: lossCount, cell: (row) => this.losses(row) },
        { key: 'version', text: 'version', class: 'text', value: (row) => row.versions.join(), cell: (row) => text(row.versions.join(', ')) },
        { key: 'cost', text: 'cost', title: 'of profiling, in per cent of the processes’ CPU time over about the last minute', down: true, value: (row) => row.cost_ppm ?? -1, cell: (row) => element('td', { class: row.cost_ppm > COSTLY ? 'bad' : null }, row.cost_ppm ? formatPpm(row.cost_ppm) : '–') },
        { key: 'agent', text: 'agent', class: 'text', value: (row) => row.agents.join(), cell: (row) => text(row.agents.join(', ')) },
        { key: 'processes', text: 'processes', down: true, value: (row) => row.processes, cell: (row) => String(row.processes) },
      ],
    });
  }

  device(row) {
    const { device, service, host, tags } = row;
    const filter = formatSelector([tags.device ? { name: 'device', how: '=', value: tags.device } : { name: 'host', how: '=', value: host }]);
    const about = [service, host !== device ? host : '', row.executable, row.arch].filter(Boolean).join(' · ');
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'Its profiles', onclick: () => this.app.change({ view: 'flame', service, filter: host || tags.device ? filter : '', kind: '', value: '', sort: '', find: '' }) }, device || '(no name)'),
      element('small', {}, about),
      element('small', { class: 'narrow bad' }, [lossCount(row) ? `${lossCount(row).toLocaleString('en')} lost` : '', row.cost_ppm > COSTLY ? `costs ${formatPpm(row.cost_ppm)}` : ''].filter(Boolean).join(', ')));
  }

  spool(row) {
    if (row.spool_error) {
      return element('td', { class: 'bad', title: 'cannot write to the disk; messages stay in memory' }, row.spool_error_text);
    }
    return element('td', { class: row.spool_messages ? 'waits' : null, title: row.spool_messages ? formatValue(row.spool_bytes, 'bytes') : null },
      row.spool_messages ? `${row.spool_messages.toLocaleString('en')} (${formatValue(row.spool_bytes, 'bytes')})` : '–');
  }

  losses(row) {
    const lost = lossCount(row);
    return element('td', { class: lost ? 'bad' : null }, lost.toLocaleString('en'), row.losses.length ? element('small', { class: 'reasons' }, lossText(row.losses)) : null);
  }

  makeTargets(parent) {
    return new Table(parent, {
      id: 'target-table', filterId: 'target-filter', title: 'Scraped targets', filterText: 'Filter targets', noun: 'targets', sort: { column: 'target', down: false },
      textOf: (row) => JSON.stringify(row),
      columns: [
        { key: 'target', text: 'target', class: 'name', value: (row) => row.url, cell: (row) => element('td', { class: 'name' }, row.url, element('small', {}, [row.service, row.tags.trim().replace(/\n/g, ', ')].filter(Boolean).join(' · '))) },
        { key: 'state', text: 'state', value: (row) => row.state, cell: (row) => this.targetState(row) },
        { key: 'last', text: 'last scraped', down: true, value: (row) => row.last, cell: (row) => (row.last ? `${formatDuration(Math.max(0, this.now - row.last))} ago` : 'never') },
        { key: 'taken', text: 'profiles', title: 'received since the server started', down: true, value: (row) => row.taken, cell: (row) => row.taken.toLocaleString('en') },
      ],
    });
  }

  targetState(row) {
    const reasons = new Map(); // error -> profiles with it
    for (const { name, error } of row.profiles.filter((one) => one.state === 'down')) {
      reasons.set(error, [...reasons.get(error) ?? [], name]);
    }
    return element('td', { class: reasons.size ? 'bad' : null }, row.state,
      ...[...reasons].map(([error, names]) => element('small', { class: 'reasons' }, `${names.join(', ')}: ${error}`)));
  }

  async showTargets(still) {
    const { targets } = await get('api/targets');
    if (still()) {
      this.targets.hidden = targets.length === 0;
      this.targetTable.show(targets.map((row) => ({
        ...row,
        state: ['down', 'new', 'up'].find((state) => row.profiles.some((one) => one.state === state)) ?? 'new',
        last: largest(row.profiles.map((one) => one.last), 0),
        taken: row.profiles.reduce((sum, one) => sum + one.taken, 0),
      })));
    }
    return targets.length;
  }

  async show(state, still) {
    get('api/targets').catch(() => {}); // the await reports errors
    const data = await get(`api/devices?${timeQuery(state)}`);
    if (!still()) {
      return;
    }
    this.now = data.now;
    const targets = await this.showTargets(still);
    if (!still() || !this.app.filled(data.devices.length + targets > 0)) {
      return;
    }
    const count = (rows) => new Set(rows.map((row) => row.device)).size; // a row is a service on a device
    const all = count(data.devices);
    const late = all - count(data.devices.filter((row) => !this.late(row))); // of no service was anything seen
    const lost = data.devices.reduce((sum, row) => sum + lossCount(row), 0);
    const waiting = data.devices.reduce((sum, row) => sum + row.spool_messages, 0);
    this.figures.replaceChildren(
      figure(all === 1 ? 'device' : 'devices', all.toLocaleString('en'), 'seen in this range; each has a row for each of its services'),
      figure('late', late.toLocaleString('en'), `not seen for ${LATE / 60} minutes`, late > 0),
      figure('waiting in spools', waiting.toLocaleString('en'), 'messages, as last reported by the devices'),
      figure('lost', lost.toLocaleString('en'), 'see each device for reasons', lost > 0));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(data.devices);
  }
}
