// What is shown, in the address: links can be shared, back and forward work.
//
// After '#'. What stands after '?' is taken over, for programs that make links and cannot write a '#' (Grafana, Tempo):
// /?span_id=00f067aa0ba902b7&service=shop
import { formatSelector } from '/selector.js';

const USUAL = {
  view: 'flame', service: '', kind: '', value: '', filter: '', group: '', range: '', from: '', to: '',
  at: '', // chosen on the timeline: "1700000000-1700000600"
  base: '', basefilter: '', // what is compared with: '' the time before, 'same' the same time, or a time as in `at`
  fn: '', span_id: '', trace_id: '', // of the views for callers and for spans
  search: '', zoom: '', shape: '', sort: '', find: '', chart: '', live: '',
};

export const RANGES = { '5m': 300, '15m': 900, '1h': 3600, '6h': 21600, '1d': 86400, '7d': 604800 };

// Older links had tags and labels of their own.
function olderMatchers(parameters) {
  const matchers = [...parameters.getAll('tag'), ...parameters.getAll('label')].filter((line) => line.indexOf('=') > 0);
  return formatSelector(matchers.map((line) => ({ name: line.slice(0, line.indexOf('=')), how: '=', value: line.slice(line.indexOf('=') + 1) })));
}

function seconds(text) {
  const time = /^\d+(\.\d+)?$/.test(text) ? Number(text) / (Number(text) > 1e11 ? 1000 : 1) : Date.parse(text) / 1000; // Grafana's are in ms
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
  state.filter ||= olderMatchers(parameters);
  if ((state.span_id || state.trace_id) && !parameters.has('view')) {
    state.view = 'span';
  }
  state.from = seconds(state.from);
  state.to = seconds(state.to);
  if (!state.range || !(state.range in RANGES || ['all', 'custom'].includes(state.range))) {
    state.range = state.from || state.to ? 'custom' : state.view === 'span' || state.view === 'devices' ? '1d' : '1h';
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

// replace: no step of its own for "back", as while a text is being typed
export function writeAddress(state, replace) {
  const wanted = addressOf(state);
  if (wanted !== location.pathname + location.search + location.hash) {
    history[replace ? 'replaceState' : 'pushState'](null, '', wanted);
  }
}

// "a-b" -> {from, to}, or null
export function parseSpan(text) {
  const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text);
  return found && Number(found[1]) < Number(found[2]) ? { from: Number(found[1]), to: Number(found[2]) } : null;
}
