// The state of the page, stored in its address, so that links can be shared and back and forward work.
//
// The state is after '#'. Parameters after '?' are accepted for programs that cannot write a '#' in links (Grafana,
// Tempo):
//   /?span_id=00f067aa0ba902b7&service=shop
import { formatSelector } from './selector.js';

const USUAL = {
  view: 'flame', service: '', kind: '', value: '', filter: '',
  group: '', // labels, a line each
  range: '', from: '', to: '',
  at: '', // range selected on the timeline: "1700000000-1700000600"
  base: '', basefilter: '', // baseline: '' the previous range, 'same' the same range, or a range as in `at`
  fn: '', // function whose callers and callees are shown
  span_id: '', trace_id: '',
  crash: '', // fingerprint of the chosen group
  incident: '', // id of the chosen one
  cell: '', // of the spans' heat map: "begin-end,length-length"
  search: '', regex: '', zoom: '', shape: '', order: '', colors: '', changes: '', sort: '', find: '', chart: '', live: '',
};

// Views of all services: only the time selects.
export const OF_ALL = ['start', 'devices', 'crashes', 'incidents'];

// Views of a service over days: no timeline, and no split.
export const OF_DAYS = ['verdict', 'leaks'];

// What a view shows at first.
export function usualRange(view) {
  return OF_DAYS.includes(view) ? '7d' : view === 'span' || OF_ALL.includes(view) ? '1d' : '1h';
}

export const RANGES = { '5m': 300, '15m': 900, '1h': 3600, '6h': 21600, '1d': 86400, '7d': 604800 };

// Older links have separate parameters for tags and labels.
function olderMatchers(parameters) {
  const matchers = [...parameters.getAll('tag'), ...parameters.getAll('label')].filter((line) => line.indexOf('=') > 0);
  return formatSelector(matchers.map((line) => ({ name: line.slice(0, line.indexOf('=')), how: '=', value: line.slice(line.indexOf('=') + 1) })));
}

function seconds(text) {
  const time = /^\d+(\.\d+)?$/.test(text) ? Number(text) / (Number(text) > 1e11 ? 1000 : 1) : Date.parse(text) / 1000; // Grafana's times are in ms
  return Number.isFinite(time) ? String(time) : '';
}

export function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const [key, value] of new URLSearchParams(location.search)) {
    parameters.append(key, value);
  }
  const state = {};
  for (const [key, usual] of Object.entries(USUAL)) {
    state[key] = parameters.get(key) ?? usual;
  }
  state.view = state.view === 'callers' ? 'flame' : state.view; // an older page's view: now in place
  state.filter ||= olderMatchers(parameters);
  if (!parameters.has('view')) {
    state.view = state.span_id || state.trace_id ? 'span' : parameters.has('service') ? 'flame' : 'start';
  }
  state.from = seconds(state.from);
  state.to = seconds(state.to);
  if (!state.range || !(state.range in RANGES || ['all', 'custom'].includes(state.range))) {
    state.range = state.from || state.to ? 'custom' : usualRange(state.view);
  }
  return state;
}

export function addressOf(state) {
  const parameters = new URLSearchParams();
  for (const [key, usual] of Object.entries(USUAL)) {
    if (state[key] !== usual) {
      parameters.set(key, state[key]);
    }
  }
  return `${location.pathname}#${parameters}`;
}

// replace: replaces the history entry, for changes while a text is typed
export function writeAddress(state, replace) {
  const wanted = addressOf(state);
  if (wanted !== location.pathname + location.search + location.hash) {
    history[replace ? 'replaceState' : 'pushState'](null, '', wanted);
  }
}

// The address of the server, as commands take it.
export function serverUrl() {
  return `${location.origin}${location.pathname.replace(/\/$/, '')}`;
}

// "a-b" -> {from, to}, or null
export function parseSpan(text) {
  const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text);
  return found && Number(found[1]) < Number(found[2]) ? { from: Number(found[1]), to: Number(found[2]) } : null;
}
