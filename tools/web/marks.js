// What happened to a service while a timeline ran: new versions on devices, other levels, restarts, crashes, incidents. As marks above the
// timeline, and as a list below it, which is for the keyboard, too.
import { get } from './api.js';
import { element, svg } from './dom.js';
import { deviceOf, formatTime } from './format.js';
import { queryOf, windowOf } from './query.js';

const KINDS = {
  version: { one: 'new version', many: 'new versions', shape: 'M-5 9L0 1L5 9Z' },
  crash: { one: 'crash', many: 'crashes', shape: 'M-4 1L4 9M4 1L-4 9' },
  incident: { one: 'incident', many: 'incidents', shape: 'M0 0L5 5L0 10L-5 5Z' },
  level: { one: 'other level', many: 'other levels', shape: 'M-5 8H0V2H5' },
  restart: { one: 'restart', many: 'restarts', shape: 'M0 1V9' },
};
export const MARKS_HEIGHT = 12;
const LISTED = 200;

// Of the processes of one device in their order: one that begins after the one before has ended is a restart, and one of
// another version a new version. Processes side by side are neither.
function startsOf(processes) {
  const marks = [];
  const last = new Map();
  for (const process of [...processes].sort((a, b) => a.first - b.first)) {
    const key = `${deviceOf(process)}\n${process.executable}`;
    const before = last.get(key);
    const version = process.tags.version ?? '';
    if (before && version !== before.version && version) {
      marks.push({ what: 'version', time: process.first, device: deviceOf(process), text: `${before.version || '(none)'} → ${version}` });
    } else if (before && process.first >= before.end) {
      marks.push({ what: 'restart', time: process.first, device: deviceOf(process), text: process.executable });
    }
    last.set(key, { version, end: Math.max(process.last, before?.end ?? 0) });
  }
  return marks;
}

const LEVELS = { 19: 'low', 97: 'medium', 251: 'high' };

// How often a process is sampled, in words: the level's name where the rate is a level's.
function rateText(period) {
  const rate = Math.round(1e9 / period);
  return `${rate.toLocaleString('en')}${LEVELS[rate] ? ` (${LEVELS[rate]})` : ''}`;
}

function levelsOf(changes) {
  return changes.map((one) => ({ what: 'level', time: one.time, device: deviceOf(one), text: `${rateText(one.before)} → ${rateText(one.after)} samples per second of CPU time` }));
}

// All marks of the timeline that the state selects, in their order.
export async function loadMarks(state) {
  const query = queryOf({ ...state, kind: '', value: '' }, windowOf(state));
  const [{ processes }, { groups }, { incidents }, { changes }] = await Promise.all(['stats', 'crashes', 'incidents', 'rates'].map((what) => get(`api/${what}?${query}`)));
  return [
    ...startsOf(processes ?? []), ...levelsOf(changes),
    ...groups.flatMap((group) => group.crashes.map((crash) => ({ what: 'crash', time: crash.time, device: deviceOf(crash), text: group.reason, go: { view: 'crashes', crash: group.fingerprint } }))),
    ...incidents.map((one) => ({ what: 'incident', time: one.time, device: deviceOf(one), text: [one.cause, one.name].filter(Boolean).join(' '), go: { view: 'incidents', incident: one.id } })),
  ].filter((mark) => mark.time).sort((a, b) => a.time - b.time);
}

const textOf = ({ what, time, device, text }) => `${formatTime(time)} ${KINDS[what].one} on ${device}: ${text}`;

// In the picture: those of one kind that would overlap are one, with a title that has them all.
export function markShapes(marks, x, width, onGo) {
  return Object.entries(KINDS).reverse().flatMap(([what, { shape, many }]) => {
    const clusters = [];
    for (const mark of marks.filter((one) => one.what === what)) {
      const at = x(mark.time);
      if (at >= 0 && at <= width) {
        if (clusters.length && at - clusters.at(-1).at < 10) {
          clusters.at(-1).marks.push(mark);
        } else {
          clusters.push({ at, marks: [mark] });
        }
      }
    }
    return clusters.map((cluster) => svg('g', { class: `mark ${what}`, transform: `translate(${cluster.at.toFixed(1)} 1)`, onclick: () => cluster.marks[0].go && onGo(cluster.marks[0].go) },
      svg('title', {}, [...(cluster.marks.length > 1 ? [`${cluster.marks.length} ${many}`] : []), ...cluster.marks.slice(0, 12).map(textOf)].join('\n')),
      svg('rect', { class: 'grip', x: -6, y: -1, width: 12, height: MARKS_HEIGHT }), svg('path', { d: shape })));
  });
}

export function markList(marks, onGo) {
  const counts = Object.entries(KINDS).map(([what, { one, many }]) => {
    const count = marks.filter((mark) => mark.what === what).length;
    return count ? `${count.toLocaleString('en')} ${count === 1 ? one : many}` : '';
  }).filter(Boolean);
  return element('details', { id: 'marks', class: 'labels', hidden: marks.length === 0 }, element('summary', {}, counts.join(', ')),
    element('ul', {}, ...marks.slice(-LISTED).reverse().map((mark) => element('li', {}, mark.go
      ? element('button', { type: 'button', class: 'plain', onclick: () => onGo(mark.go) }, textOf(mark)) : textOf(mark)))),
    ...(marks.length > LISTED ? [element('p', { class: 'note' }, `${marks.length - LISTED} older ones are not listed.`)] : []));
}
