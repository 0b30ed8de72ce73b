// Incidents: moments that a program noticed, such as a slow request; of the chosen one what each thread did around it.
import { get } from '/api.js';
import { element } from '/dom.js';
import { figure } from '/figures.js';
import { formatMs, formatTime, formatValue } from '/format.js';
import { Lanes } from '/lanes.js';
import { timeOf } from '/query.js';
import { Table } from '/table.js';

const TIMED = ['span', 'open span', 'gc', 'heartbeat'];
const deviceOf = (incident) => incident.tags.device || incident.host || '(no name)';

function limitText(incident) {
  const text = (value) => (TIMED.includes(incident.cause) ? formatValue(value, 'nanoseconds')
    : incident.cause === 'memory' ? formatValue(value, 'bytes')
      : incident.cause === 'cpu' ? `${value} %` : `${value.toLocaleString('en')} a second`);
  return incident.limit ? `${text(incident.value)}, limit ${text(incident.limit)}` : '';
}

function stackOf(incident, at) {
  const names = [];
  for (let call = at; call >= 0; [call] = incident.stacks[call]) {
    names.push(incident.functions[incident.stacks[call][1]]);
  }
  return names;
}

// Rows of threads: the one that it is about first, then the busiest.
function rowsOf(incident) {
  const sums = incident.threads.map((thread, i) => ({
    i, own: thread.tid !== 0 && thread.tid === incident.tid,
    ms: incident.samples.reduce((sum, [, length, of]) => sum + (of === i ? length : 0), 0),
  }));
  return sums.sort((a, b) => b.own - a.own || b.ms - a.ms).map(({ i }) => i);
}

// The samples with what the picture and the table need; `thread` is the row.
function dataOf(incident) {
  const order = rowsOf(incident);
  const rows = new Map(order.map((thread, row) => [thread, row]));
  const samples = incident.samples.map(([start, length, thread, kind, stack], number) => ({
    start, length, kind, stack, number, thread: rows.get(thread), name: stack >= 0 ? incident.functions[incident.stacks[stack][1]] : '[no stack]',
  }));
  const threads = order.map((i) => `${incident.threads[i].name} ${incident.threads[i].tid || ''}`);
  const span = TIMED.includes(incident.cause) ? { from: -incident.value / 1e6, to: 0 } : null;
  return { samples, threads, span };
}

// What each thread did until the trigger, of the span if there is one: ms by kind and stack.
function doingsOf(data) {
  const from = data.span ? data.span.from : -Infinity;
  const sums = new Map();
  for (const sample of data.samples) {
    const ms = Math.min(sample.start + sample.length, 0) - Math.max(sample.start, from);
    if (ms > 0) {
      const key = `${sample.thread} ${sample.kind} ${sample.stack}`;
      const sum = sums.get(key) ?? { ...sample, ms: 0, count: 0 };
      sum.ms += ms;
      sum.count++;
      sums.set(key, sum);
    }
  }
  return [...sums.values()];
}

export class IncidentView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'incident-figures' });
    const list = element('section', { class: 'card' });
    this.about = element('section', { class: 'card', id: 'incident' });
    const lanes = element('section', { class: 'card' });
    const doings = element('section', { class: 'card' });
    this.parts = [this.about, lanes, doings];
    parent.append(this.figures, list, ...this.parts);
    this.table = this.makeTable(list);
    this.lanes = new Lanes(lanes, { onChoose: (sample) => this.showSample(sample) });
    this.detail = element('div', { id: 'incident-sample', 'aria-live': 'polite' });
    lanes.append(this.detail);
    this.doings = this.makeDoings(doings);
  }

  makeTable(parent) {
    return new Table(parent, {
      id: 'incidents', filterId: 'incident-filter', title: 'Incidents', filterText: 'Filter incidents', noun: 'incidents', sort: { column: 'time', down: true },
      textOf: (row) => JSON.stringify(row),
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'cause', text: 'trigger', class: 'name', value: (row) => row.cause, cell: (row) => this.cause(row) },
        { key: 'time', text: 'time', down: true, value: (row) => row.time, cell: (row) => (row.time ? formatTime(row.time) : 'unknown') },
        { key: 'limit', text: 'value and limit', class: 'text', value: (row) => row.value, cell: limitText },
        { key: 'service', text: 'service', class: 'text', value: (row) => row.service, cell: (row) => row.service },
        { key: 'device', text: 'device', class: 'text', value: deviceOf, cell: deviceOf },
        { key: 'version', text: 'version', class: 'text', value: (row) => row.tags.version ?? '', cell: (row) => row.tags.version ?? '–' },
      ],
    });
  }

  makeDoings(parent) {
    return new Table(parent, {
      id: 'incident-doings', filterId: 'doing-filter', title: 'Until the trigger', filterText: 'Filter functions', noun: 'stacks', sort: { column: 'ms', down: true },
      textOf: (row) => `${row.kind} ${row.text} ${stackOf(this.incident, row.stack).join(' ')}`,
      columns: [
        { key: 'name', text: 'what', class: 'name', value: (row) => row.name,
          cell: (row) => element('td', { class: 'name' }, element('button', { type: 'button', title: 'Its stack', onclick: () => this.showSample(row) }, row.name)) },
        { key: 'kind', text: 'kind', class: 'text', value: (row) => row.kind, cell: (row) => row.kind },
        { key: 'ms', text: 'time', down: true, value: (row) => row.ms, cell: (row) => formatMs(row.ms) },
        { key: 'thread', text: 'thread', class: 'text', value: (row) => row.thread, cell: (row) => this.data.threads[row.thread] },
      ],
    });
  }

  cause(row) {
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'What happened', onclick: () => this.app.change({ incident: row.id }) }, [row.cause, row.name].filter(Boolean).join(' ')),
      element('small', {}, row.executable));
  }

  showSample(sample) {
    const names = stackOf(this.incident, sample.stack);
    const length = sample.ms ?? sample.length;
    this.detail.replaceChildren(
      element('p', {}, `${sample.kind === 'thread' ? 'At the trigger' : `${sample.kind} ${formatMs(length)}`} in thread ${this.data.threads[sample.thread]}` +
        (sample.ms || sample.kind === 'thread' ? '' : `, from ${formatMs(sample.start)} to ${formatMs(sample.start + sample.length)}`)),
      names.length ? element('ol', { class: 'stack', id: 'incident-stack', 'aria-label': 'Stack, innermost function first' }, ...names.map((name) => element('li', {}, name)))
        : element('p', { class: 'note' }, 'No stack.'));
  }

  showAbout(incident) {
    const notes = [
      incident.complete ? '' : 'A part has not arrived.',
      incident.suppressed ? `${incident.suppressed.toLocaleString('en')} triggers before it led to no incident.` : '',
      incident.missing ? `${incident.missing.toLocaleString('en')} samples had no room after the trigger.` : '',
    ].filter(Boolean);
    this.about.replaceChildren(
      element('h2', {}, `${[incident.cause, incident.name].filter(Boolean).join(' ')} in ${incident.service} on ${deviceOf(incident)}`),
      element('p', {}, [incident.time ? formatTime(incident.time) : 'unknown time', limitText(incident), `${incident.executable} ${incident.pid}`].filter(Boolean).join(' · ')),
      ...(notes.length ? [element('p', { class: 'note' }, notes.join(' '))] : []),
      element('p', {}, element('a', { id: 'incident-file', href: `/api/incident?id=${incident.id}&format=firefox`, download: `incident-${incident.id}.json` },
        'File for the Firefox Profiler')));
  }

  showIncident(incident) {
    this.incident = incident;
    this.data = dataOf(incident);
    const { span } = this.data;
    this.parts.forEach((part) => { part.hidden = false; });
    this.showAbout(incident);
    this.detail.replaceChildren();
    this.lanes.show(this.data, span ? { from: 1.2 * span.from, to: -0.2 * span.from } : { from: -Infinity, to: Infinity });
    const doings = doingsOf(this.data).map((row) => ({ ...row, text: this.data.threads[row.thread] }));
    this.doings.show(doings);
    const first = doings.filter((row) => row.thread === 0 || row.kind === 'gc').sort((a, b) => b.ms - a.ms)[0];
    if (first) {
      this.showSample(first);
    }
  }

  async show(state, still) {
    const { from, to } = timeOf(state);
    const parameters = new URLSearchParams(Object.entries({ from, to }).filter(([, value]) => value));
    const { incidents } = await get(`/api/incidents?${parameters}`);
    const id = state.incident || incidents[0]?.id;
    const incident = id ? await get(`/api/incident?id=${id}`) : null;
    if (!still()) {
      return;
    }
    if (!incident) {
      this.app.empty();
      return;
    }
    this.app.filled();
    const several = (values) => String(new Set(values).size);
    this.figures.replaceChildren(
      figure(incidents.length === 1 ? 'incident' : 'incidents', incidents.length.toLocaleString('en'), 'that arrived in this range'),
      figure('services', several(incidents.map((one) => one.service)), 'with an incident in this range'),
      figure('devices', several(incidents.map(deviceOf)), 'with an incident in this range'));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(incidents);
    if (this.incident?.id !== id || !this.incident.complete) {
      this.showIncident(incident);
    }
  }
}
