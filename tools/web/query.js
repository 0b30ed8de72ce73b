// From what is shown to what the API is asked for.
import { RANGES, parseSpan } from '/address.js';
import { formatSelector, withService } from '/selector.js';

// The time that the timeline covers, in the API's words. Comparing with the time before shows that time, too.
export function windowOf(state) {
  if (state.range === 'custom') {
    return { from: state.from, to: state.to };
  }
  if (state.range === 'all') {
    return { from: '', to: '' };
  }
  const length = RANGES[state.range];
  return { from: `now-${state.view === 'diff' && !state.base && !state.at ? 2 * length : length}s`, to: '' };
}

// The time that figures are of.
export function timeOf(state) {
  const chosen = parseSpan(state.at);
  if (chosen) {
    return { from: String(chosen.from), to: String(chosen.to) };
  }
  return state.range in RANGES ? { from: `now-${RANGES[state.range]}s`, to: '' } : windowOf(state);
}

// The time that is compared with; null when there is none before.
export function baseTimeOf(state) {
  const chosen = parseSpan(state.base);
  if (chosen) {
    return { from: String(chosen.from), to: String(chosen.to) };
  }
  if (state.base === 'same') {
    return timeOf(state);
  }
  const own = parseSpan(state.at) ?? parseSpan(`${state.from}-${state.to}`);
  if (own && (state.at || state.range === 'custom')) {
    return { from: String(Math.max(0, 2 * own.from - own.to)), to: String(own.from) };
  }
  const length = RANGES[state.range];
  return length ? { from: `now-${2 * length}s`, to: `now-${length}s` } : null;
}

function put(parameters, values) {
  for (const [key, value] of Object.entries(values)) {
    if (value) {
      parameters.set(key, value);
    }
  }
  return parameters;
}

// Of a span or trace nothing else needs to be known, not the service either.
export function ofSpan(state) {
  const ids = ['span_id', 'trace_id'].filter((name) => state[name]).map((name) => ({ name, how: '=', value: state[name].toLowerCase() }));
  const service = { name: 'service_name', how: '=~', value: '.+' };
  return { ...state, service: '', filter: [formatSelector([service, ...ids]), state.filter].filter(Boolean).join(',') };
}

export function queryOf(state, time = timeOf(state), more = {}) {
  const parameters = new URLSearchParams({ service: withService(state.service, state.filter) });
  return put(parameters, { kind: state.kind, value: state.value, ...time, ...more });
}
