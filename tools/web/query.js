// Converts the state to parameters of the API.
import { OF_ALL, RANGES, parseSpan } from './address.js';
import { formatSelector, withService } from './selector.js';

// The timeline's range, as API parameters. For a comparison with the previous range it includes that range.
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

// The range of the profile.
export function timeOf(state) {
  const chosen = parseSpan(state.at);
  if (chosen) {
    return { from: String(chosen.from), to: String(chosen.to) };
  }
  return state.range in RANGES ? { from: `now-${RANGES[state.range]}s`, to: '' } : windowOf(state);
}

// A time of these in seconds since 1970: "now-60s" is a minute before `end`, '' is `usual`.
export function secondsOf(text, end, usual) {
  return text === '' ? usual : text.startsWith('now-') ? end - parseFloat(text.slice(4)) : Number(text);
}

// The range of the baseline; null when there is none.
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

// A span or trace is selected by its id alone, without the service.
export function ofSpan(state) {
  const ids = ['span_id', 'trace_id'].filter((name) => state[name]).map((name) => ({ name, how: '=', value: state[name].toLowerCase() }));
  const service = { name: 'service_name', how: '=~', value: '.+' };
  return { ...state, service: '', filter: [formatSelector([service, ...ids]), state.filter].filter(Boolean).join(',') };
}

// Of several spans of the selected service.
export function ofSpans(state, ids) {
  return { ...state, group: '', filter: [state.filter, formatSelector([{ name: 'span_id', how: '=~', value: ids.join('|') }])].filter(Boolean).join(',') };
}

// What a span computed and waited for is in one kind, unless another one was chosen.
export function kindFor(state) {
  return state.kind || (state.view === 'span' ? 'wall' : '');
}

export function queryOf(state, time = timeOf(state), { group = '', ...more } = {}) {
  const parameters = new URLSearchParams({ service: withService(state.service, state.filter) });
  group.split('\n').filter(Boolean).forEach((key) => parameters.append('group', key));
  return put(parameters, { kind: kindFor(state), value: state.value, ...time, ...more });
}

export function profileQuery(state) {
  return queryOf(state, undefined, { group: state.group });
}

// Tags are shown of the selected service only.
export function servicesPath(state) {
  return OF_ALL.includes(state.view) ? 'api/services?tags-of=-' : `api/services${state.service ? `?tags-of=${encodeURIComponent(state.service)}` : ''}`;
}

// Of all services: the range only.
export function timeQuery(state) {
  return put(new URLSearchParams(), timeOf(state));
}

// What the view of all services asks: services, CPU time, devices, crashes, incidents.
export function startPaths(state) {
  const time = timeQuery(state);
  const services = new URLSearchParams({ service: '{service_name=~".+"}', kind: 'cpu', group: 'service_name', series: '100', buckets: '60' });
  return [servicesPath(state), `api/timeline?${services}&${time}`, `api/devices?${time}`, `api/crashes?${time}`, `api/incidents?${time}`];
}

export function timelinePath(state) {
  const buckets = innerWidth < 700 ? 100 : 240;
  return `api/timeline?${queryOf(state, windowOf(state), { group: state.view === 'diff' ? '' : state.group, buckets: String(buckets) })}`;
}
