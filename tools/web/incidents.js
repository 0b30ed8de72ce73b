// Incidents: moments that a program noticed, such as a slow request; of the chosen one what each thread did around it.
import { get } from './api.js';
import { isFramework } from './colors.js';
import { element } from './dom.js';
import { countFigure } from './figures.js';
import { deviceOf, formatMs, formatTime, formatValue } from './format.js';
import { Lanes } from './lanes.js';
import { timeQuery } from './query.js';
import { Table } from './table.js';

const TIMED = ['span', 'open span', 'gc', 'heartbeat'];

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

// The samples with what the picture and the table need; `thread` is the row. Threads that did nothing have a row if `all`
// are wanted; the thread that it is about always has one.
function dataOf(incident, all) {
  const busy = new Set(incident.samples.filter(([, length]) => length > 0).map(([, , thread]) => thread));
  const whole = rowsOf(incident);
  const order = whole.filter((thread, row) => all || row === 0 || busy.has(thread));
  const rows = new Map(order.map((thread, row) => [thread, row]));
  const samples = incident.samples.map(([start, length, thread, kind, stack]) => ({
    start, length, kind, stack, thread: rows.get(thread), name: stack >= 0 ? incident.functions[incident.stacks[stack][1]] : '[no stack]',
  })).filter((sample) => sample.thread !== undefined).map((sample, number) => ({ ...sample, number }));
  const threads = order.map((i) => `${incident.threads[i].name} ${incident.threads[i].tid || ''}`);
  const span = TIMED.includes(incident.cause) ? { from: -incident.value / 1e6, to: 0 } : null;
  return { samples, threads, span, idle: whole.length - order.length };
}

// Of a stack: what the program called, not what .NET and the C library called in turn. undefined: only special frames.
function ownFunction(incident, stack) {
  const names = stackOf(incident, stack).filter((name) => !name.startsWith('['));
  return names.find((name) => !name.startsWith('_') && !isFramework(name)) ?? names[0];
}

// What each thread did until the trigger, of the span if there is one: ms by kind and stack. Stacks with the same names
// are one: their addresses are shown nowhere.
function doingsOf(incident, data) {
  const from = data.span ? data.span.from : -Infinity;
  const sums = new Map();
  for (const sample of data.samples) {
    const ms = Math.min(sample.start + sample.length, 0) - Math.max(sample.start, from);
    if (ms > 0) {
      const key = `${sample.thread} ${sample.kind} ${stackOf(incident, sample.stack).join('\n')}`;
      const sum = sums.get(key) ?? { ...sample, ms: 0, count: 0 };
      sum.ms += ms;
      sum.count++;
      sums.set(key, sum);
    }
  }
  return [...sums.values()];
}

const WAITS = { '[lock]': ' for a lock', '[sleep]': ' asleep', '[network]': ' for the network', '[disk]': ' for the disk' };

// What happened, in words: what its thread did most of the time, and the garbage collector's pauses.
// doings: the longest first
export function sentencesOf(incident, data, doings) {
  const [own] = incident.tid ? doings.filter((row) => row.thread === 0 && row.kind !== 'gc') : [];
  const inFunction = (stack) => ownFunction(incident, stack);
  const pauses = data.samples.filter((sample) => sample.kind === 'gc');
  const from = data.span?.from ?? -Infinity;
  const paused = pauses.reduce((sum, one) => sum + Math.max(0, Math.min(one.start + one.length, 0) - Math.max(one.start, from)), 0);
  const verb = own?.kind === 'cpu' ? 'computed' : `waited${WAITS[own?.name] ?? ''}`;
  return [
    ...(own ? [`Thread ${data.threads[0].trim()} ${verb} for ${formatMs(own.ms)}${own.stack >= 0 && inFunction(own.stack) ? ` in ${inFunction(own.stack)}` : ''}.`]
      : incident.tid && !paused ? [`Thread ${data.threads[0].trim()} has no sample: it neither used much CPU time nor waited for a millisecond.`] : []),
    ...(paused > 0 ? [`The garbage collector stopped all threads for ${formatMs(paused)}.`] : []),
  ].join(' ');
}

export class IncidentView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'incident-figures' });
    const list = element('section', { class: 'card short' });
    this.about = element('section', { class: 'card', id: 'incident' });
    const lanes = element('section', { class: 'card' });
    const doings = element('section', { class: 'card' });
    this.parts = [this.about, lanes, doings];
    parent.append(this.figures, list, ...this.parts);
    this.table = this.makeTable(list);
    this.lanes = new Lanes(lanes, { onChoose: (sample) => this.showSample(sample), onAll: () => this.showThreads(!this.all), tip: (sample) => this.tip(sample) });
    this.detail = element('div', { id: 'incident-sample', 'aria-live': 'polite' });
    this.lanes.columns.append(this.detail);
    this.doings = this.makeDoings(doings);
  }

  makeTable(parent) {
    return new Table(parent, {
      id: 'incidents', filterId: 'incident-filter', title: 'Incidents', filterText: 'Filter incidents', noun: 'incidents', sort: { column: 'time', down: true },
      textOf: (row) => JSON.stringify(row),
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'cause', text: 'trigger', class: 'name', value: (row) => row.cause, cell: (row) => this.cause(row) },
        { key: 'time', text: 'time', class: 'time', down: true, value: (row) => row.time, cell: (row) => (row.time ? formatTime(row.time) : 'unknown') },
        { key: 'limit', text: 'value and limit', class: 'text keep', value: (row) => row.value, cell: limitText },
        { key: 'service', text: 'service', class: 'text', value: (row) => row.service, cell: (row) => row.service },
        { key: 'device', text: 'device', class: 'text', value: deviceOf, cell: deviceOf },
        { key: 'version', text: 'version', class: 'text', value: (row) => row.tags.version ?? '', cell: (row) => row.tags.version ?? '–' },
      ],
    });
  }

  makeDoings(parent) {
    return new Table(parent, {
      id: 'incident-doings', filterId: 'doing-filter', title: 'Until the trigger', filterText: 'Filter functions', noun: 'stacks', sort: { column: 'ms', down: true },
      textOf: (row) => `${row.kind} ${this.data.threads[row.thread]} ${stackOf(this.incident, row.stack).join(' ')}`,
      columns: [
        { key: 'name', text: 'what', class: 'name', value: (row) => row.name,
          cell: (row) => this.doing(row) },
        { key: 'kind', text: 'kind', value: (row) => row.kind, cell: (row) => row.kind },
        { key: 'ms', text: 'time', down: true, value: (row) => row.ms, cell: (row) => formatMs(row.ms) },
        { key: 'thread', text: 'thread', class: 'text', value: (row) => row.thread, cell: (row) => this.data.threads[row.thread] },
      ],
    });
  }

  doing(row) {
    const own = ownFunction(this.incident, row.stack);
    return element('td', { class: 'name' }, element('button', { type: 'button', title: 'Its stack', onclick: () => this.showSample(row) }, row.name),
      own && own !== row.name ? element('small', {}, `in ${own}`) : null);
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

  tip(sample) {
    const [, ...callers] = stackOf(this.incident, sample.stack);
    return [['kind', sample.kind], ['time', sample.length ? `${formatMs(sample.length)}, from ${formatMs(sample.start)}` : 'at the trigger'], ['thread', this.data.threads[sample.thread]],
      ...callers.slice(0, 4).map((name, i) => [i ? '' : 'called by', name])];
  }

  showAbout(incident, doings) {
    const notes = [
      incident.complete ? '' : 'A part has not arrived.',
      incident.suppressed ? `${incident.suppressed.toLocaleString('en')} triggers before it led to no incident.` : '',
      incident.missing ? `${incident.missing.toLocaleString('en')} samples had no room after the trigger.` : '',
    ].filter(Boolean);
    this.about.replaceChildren(
      element('h2', {}, `${[incident.cause, incident.name].filter(Boolean).join(' ')} in ${incident.service} on ${deviceOf(incident)}`),
      element('p', { class: 'sentence', id: 'incident-sentence' }, sentencesOf(incident, this.data, doings)),
      element('p', { class: 'note' }, [incident.time ? formatTime(incident.time) : 'unknown time', limitText(incident), `${incident.executable} ${incident.pid}`].filter(Boolean).join(' · ')),
      ...(notes.length ? [element('p', { class: 'note' }, notes.join(' '))] : []),
      element('p', {}, element('a', { id: 'incident-file', href: `api/incident?id=${incident.id}&format=firefox`, download: `incident-${incident.id}.json` },
        'File for the Firefox Profiler')));
  }

  showIncident(incident) {
    this.incident = incident;
    this.parts.forEach((part) => { part.hidden = false; });
    this.showThreads(false);
  }

  // all: also those that did nothing
  showThreads(all) {
    const { incident } = this;
    this.all = all;
    this.data = dataOf(incident, all);
    const { span } = this.data;
    const doings = doingsOf(incident, this.data).sort((a, b) => b.ms - a.ms);
    this.showAbout(incident, doings);
    this.detail.replaceChildren();
    this.lanes.show({ ...this.data, all }, span ? { from: 1.2 * span.from, to: -0.2 * span.from } : { from: -Infinity, to: Infinity });
    this.doings.show(doings);
    const first = doings.find((row) => row.thread === 0 || row.kind === 'gc');
    if (first) {
      this.showSample(first);
    }
  }

  async show(state, still) {
    const { incidents } = await get(`api/incidents?${timeQuery(state)}`);
    const id = state.incident || incidents[0]?.id;
    const incident = id ? await get(`api/incident?id=${encodeURIComponent(id)}`).catch((error) => {
      if (error.status !== 404 && error.status !== 400) {
        throw error;
      }
      return null; // an old link, and there may be others
    }) : null;
    if (!still() || !this.app.filled(incident || incidents.length > 0)) {
      return;
    }
    const several = (values) => new Set(values).size;
    this.figures.replaceChildren(
      countFigure(incidents.length, 'incident', 'that arrived in this range'),
      countFigure(several(incidents.map((one) => one.service)), 'service', 'with an incident in this range'),
      countFigure(several(incidents.map(deviceOf)), 'device', 'with an incident in this range'));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(incidents);
    this.table.mark((row) => row.id === id, this.incident?.id !== id);
    if (!incident) {
      this.incident = null;
      this.parts.forEach((part) => { part.hidden = part !== this.about; });
      this.about.replaceChildren(element('p', { class: 'note' }, 'The incident of this link is not there: it may have been deleted.'));
    } else if (this.incident?.id !== id || !this.incident.complete) {
      this.showIncident(incident);
    }
  }
}
