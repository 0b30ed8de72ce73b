// Crashes and unclean ends of programs, in groups that look alike: how often, on which devices and versions; of the
// chosen group each crash, and the stack of the thread that crashed last.
import { get } from './api.js';
import { element } from './dom.js';
import { countFigure, figure } from './figures.js';
import { deviceOf, formatDuration, formatTime } from './format.js';
import { timeQuery } from './query.js';
import { formatSelector } from './selector.js';
import { Table } from './table.js';

const signalOf = (crash) => (crash.signal ? crash.signal_name : '–');
const timeText = (crash) => (crash.time ? formatTime(crash.time) : 'unknown time');
const several = (values) => [...new Set(values.filter(Boolean))].sort();

// A group is shown by its latest crash, which the API gives first.
function summary(group) {
  const [latest] = group.crashes;
  return {
    ...group, latest,
    last: latest.time,
    devices: several(group.crashes.map(deviceOf)),
    versions: several(group.crashes.map((crash) => crash.tags.version)),
    signals: several(group.crashes.map(signalOf)),
  };
}

function stackList(frames, attributes = {}) {
  return element('ol', { class: 'stack', ...attributes }, ...frames.map((frame) => element('li', {}, frame.function, frame.file ? element('small', {}, ` ${frame.file}:${frame.line}`) : null)));
}

function crashStack(crash) {
  const [thread] = crash.threads;
  if (!thread?.frames.length) {
    return element('p', { class: 'note' }, crash.recorded ? 'No stack was recorded.' : 'The run ended without a record, so there is no stack.');
  }
  return stackList(thread.frames, { id: 'crash-stack', 'aria-label': 'Stack of the thread that crashed, innermost function first' });
}

function otherThreads(crash) {
  const others = crash.threads.slice(1);
  return element('div', { id: 'crash-threads' }, others.length ? element('h3', {}, others.length === 1 ? 'The other thread' : `The other ${others.length} threads`) : null,
    others.map(({ name, tid, frames }) => element('details', {}, element('summary', {}, `${name} ${tid}: ${frames.length ? frames[0].function : 'no stack'}`), stackList(frames))));
}

// The hour before the latest crash, of its device and version.
function profileOf({ latest, service }) {
  const tags = ['device', 'version'].filter((name) => latest.tags[name]).map((name) => ({ name, how: '=', value: latest.tags[name] }));
  const time = latest.time ? { range: 'custom', from: String(Math.floor(latest.time) - 3600), to: String(Math.floor(latest.time)) } : {};
  return { view: 'flame', service, kind: '', value: '', filter: formatSelector(tags), at: '', sort: '', find: '', ...time };
}

// What is known of the latest crash, in words.
function about(crash) {
  return [
    crash.message,
    crash.code > 0 && crash.recorded ? `at address ${crash.address}` : '',
    crash.sender ? `sent by process ${crash.sender}` : '',
    crash.threads[0]?.name ? `in thread ${crash.threads[0].name}` : '',
    crash.ran ? `after ${formatDuration(crash.ran)}` : '',
    crash.missed > 1 ? `${crash.missed.toLocaleString('en')} such ends` : '',
    crash.faults ? `incomplete: ${crash.faults} parts of the record failed` : '',
  ].filter(Boolean).join(', ');
}

export class CrashView {
  constructor(parent, app) {
    this.app = app;
    this.figures = element('div', { class: 'figures', id: 'crash-figures' });
    const groups = element('section', { class: 'card' });
    this.chosen = element('section', { class: 'card', id: 'crash' });
    parent.append(this.figures, groups, this.chosen);
    this.table = this.makeTable(groups);
  }

  makeTable(parent) {
    return new Table(parent, {
      id: 'crashes', filterId: 'crash-filter', title: 'Crashes that look alike', filterText: 'Filter crashes', noun: 'groups', sort: { column: 'last', down: true },
      textOf: (row) => JSON.stringify(row),
      onChange: ({ sort, filter }) => this.app.change({ sort, find: filter }, true),
      columns: [
        { key: 'reason', text: 'crash', class: 'name', value: (row) => row.latest.function || row.reason, cell: (row) => this.reason(row) },
        { key: 'count', text: 'count', down: true, value: (row) => row.count, cell: (row) => row.count.toLocaleString('en') },
        { key: 'last', text: 'last', class: 'time', down: true, value: (row) => row.last, cell: (row) => timeText(row.latest) },
        { key: 'signal', text: 'signal', class: 'text', value: (row) => row.signals.join(), cell: (row) => row.signals.join(', ') },
        { key: 'device', text: 'devices', class: 'text', value: (row) => row.devices.join(), cell: (row) => row.devices.join(', ') },
        { key: 'version', text: 'versions', class: 'text', value: (row) => row.versions.join(), cell: (row) => row.versions.join(', ') || '–' },
      ],
    });
  }

  reason(row) {
    const inner = row.latest.function;
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'Its crashes and stack', onclick: () => this.choose(row) }, inner || row.reason),
      element('small', {}, [inner ? row.reason : '', row.service].filter(Boolean).join(' · ')));
  }

  choose(group) {
    this.showChosen(group);
    this.app.change({ crash: group.fingerprint }, true);
  }

  showChosen(group) {
    this.table.mark((row) => row.fingerprint === group.fingerprint);
    this.chosen.replaceChildren(
      element('h2', {}, `${group.reason} in ${group.service}${group.latest.function ? `, ${group.latest.function}` : ''}`),
      element('p', {}, about(group.latest)),
      element('p', {}, element('button', { type: 'button', id: 'crash-profile', onclick: () => this.app.change(profileOf(group)) }, 'Profile of this device and version before the crash')),
      crashStack(group.latest),
      otherThreads(group.latest),
      element('details', { id: 'crash-list' }, element('summary', {}, group.count === 1 ? '1 crash' : `${group.count.toLocaleString('en')} crashes`),
        element('ul', {}, group.crashes.map((crash) => element('li', {},
          [timeText(crash), deviceOf(crash), crash.tags.version ? `version ${crash.tags.version}` : '', signalOf(crash), `${crash.executable} ${crash.pid}`].filter(Boolean).join(' · '))))));
  }

  async show(state, still) {
    const groups = (await get(`api/crashes?${timeQuery(state)}`)).groups.map(summary);
    if (!still() || !this.app.filled(groups.length > 0)) {
      return;
    }
    const all = groups.flatMap((group) => group.crashes);
    this.figures.replaceChildren(
      figure(all.length === 1 ? 'crash' : 'crashes', all.length.toLocaleString('en'), 'that arrived in this range'),
      figure('different', groups.length.toLocaleString('en'), 'of one service, for the same reason, in the same functions'),
      countFigure(several(all.map(deviceOf)).length, 'device', 'with a crash in this range'),
      figure('without a record', all.filter((crash) => !crash.recorded).length.toLocaleString('en'), 'killed, out of memory, stack overflow or power loss'));
    this.table.set({ sort: state.sort, filter: state.find });
    this.table.show(groups);
    const chosen = state.crash ? groups.find((group) => group.fingerprint === state.crash) : groups[0];
    if (chosen) {
      this.showChosen(chosen);
    } else {
      this.table.mark(() => false);
      this.chosen.replaceChildren(element('p', { class: 'note' }, 'The crash of this link is not in this range. '),
        ...(state.range === 'all' ? [] : [element('button', { type: 'button', onclick: () => this.app.change({ range: 'all', at: '' }) }, 'All time')]));
    }
  }
}
