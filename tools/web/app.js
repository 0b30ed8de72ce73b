// The page of `edgeprof serve`. The state is in the address (address.js). A change calls refresh(), which shows the
// form, the timeline and one view. A later refresh discards the answers of an earlier one.
import { forget, get, takePendingNames } from './api.js';
import { OF_ALL, OF_DAYS, addressOf, parseSpan, readAddress, serverUrl, usualRange, writeAddress } from './address.js';
import { CrashView } from './crashes.js';
import { DeviceView } from './devices.js';
import { DiffView } from './diff.js';
import { byId, copyText, element, largest } from './dom.js';
import { formatTime } from './format.js';
import { IncidentView } from './incidents.js';
import { loadMarks } from './marks.js';
import { listenForKeys } from './keyboard.js';
import { LeakView } from './leaks.js';
import { ProfileView } from './profile.js';
import { baseTimeOf, ofSpan, secondsOf, servicesPath, timeOf, timelinePath } from './query.js';
import { Selection } from './selection.js';
import { toggled } from './selector.js';
import { SpanView } from './spans.js';
import { StartView } from './start.js';
import { Timeline } from './timeline.js';
import { VerdictView } from './verdict.js';

const LIVE_MS = 5000;
const BUSY_MS = 250;
const NAMES_MS = 500; // until names are asked for again, each time longer
const NAMES_MOST_MS = 5000;
const OF_GRAPH = ['zoom', 'shape', 'order', 'colors', 'changes']; // the graph has done it already
const VIEWS = {
  start: { title: 'Services', make: StartView },
  flame: { title: 'Flame graph', make: ProfileView },
  diff: { title: 'Compare', make: DiffView },
  span: { title: 'Spans', make: SpanView },
  devices: { title: 'Devices', make: DeviceView },
  crashes: { title: 'Crashes', make: CrashView },
  incidents: { title: 'Incidents', make: IncidentView },
  verdict: { title: 'Verdict', make: VerdictView },
  leaks: { title: 'Leaks', make: LeakView },
};

const views = {};
let state = readAddress();
let services = [];
let asked = 0;
let timer = null;
let nothing = false; // the view has no data
let marksFor = null; // loads the timeline's marks, after the view has been shown
let namesAsked = 0; // how often in a row names were missing

// ---- messages instead of data ----

// some: whether the view has data, which is returned. Without data emptyOf() says why.
function filled(some) {
  nothing = !some;
  if (some) {
    byId('view').hidden = false;
    byId('empty').hidden = true;
  }
  return some;
}

function showEmpty(title, text, example = '', action = null) {
  const [h1, p, pre, button] = byId('empty').children;
  h1.textContent = title;
  p.textContent = text;
  pre.textContent = example;
  pre.hidden = !example;
  button.hidden = !action;
  button.textContent = action?.text ?? '';
  button.onclick = action?.act ?? null;
  byId('empty').hidden = false;
  byId('view').hidden = true;
}

// Why a view has no data. The list of services may not be loaded yet.
function emptyOf() {
  if (!nothing) {
    return;
  }
  if (state.view === 'crashes') {
    showEmpty('No crash in this range', 'Programs with EDGEPROF_CRASH=1 record crashes, and deliver them at their next start.', '',
      state.range === 'all' ? null : { text: 'All time', act: () => change({ range: 'all', at: '' }) });
    return;
  }
  if (state.view === 'incidents') {
    showEmpty('No incident in this range', 'Programs with EDGEPROF_INCIDENT=1 keep a history, and deliver it when a request is slow, for example.', '',
      state.range === 'all' ? null : { text: 'All time', act: () => change({ range: 'all', at: '' }) });
    return;
  }
  if (services.length === 0) {
    byId('timeline').hidden = true;
    showEmpty('No profiles yet', 'Start a service with the profiler, or profile an unmodified program:',
      `EDGEPROF_ENDPOINT=${serverUrl()} ./your-service\nedgeprof run --url ${serverUrl()} -- ./any-program`);
    return;
  }
  if (OF_DAYS.includes(state.view)) {
    showEmpty(...(state.view === 'leaks'
      ? ['No live heap in this range', 'Leaks are looked for in the kind live: .NET services have it at the levels medium and high, C programs with edgeprof run --native-memory.']
      : ['No version in this range', 'Versions are the tag version of the processes of this service.']));
    return;
  }
  const rows = services.filter((row) => row.service === state.service);
  if (state.service && rows.length === 0 && !state.span_id && !state.trace_id) {
    byId('timeline').hidden = true;
    showEmpty(`No service ${state.service}`, 'This server has no profile of a service with this name.', '', { text: 'All services', act: () => change({ view: 'start' }) });
    return;
  }
  const latest = largest(rows.map((row) => row.last), -Infinity);
  if (state.view === 'span' && (state.span_id || state.trace_id)) {
    showEmpty('No samples for this span', 'No stack in this range and kind has this id. The span may be in another range, or it was not sampled.', '',
      { text: 'All time', act: () => change({ range: 'all', at: '' }) });
  } else if (state.filter) {
    showEmpty('Nothing matches', `No profile in this range matches ${state.filter}.`, '', { text: 'Without the filter', act: () => change({ filter: '' }) });
  } else if (state.at) {
    showEmpty('No profiles in the selected range', 'Select another part of the timeline.', '', { text: 'Whole timeline', act: () => change({ at: '' }) });
  } else if (Number.isFinite(latest)) {
    showEmpty('No profiles in this range', `The latest profile of ${state.service} is from ${formatTime(latest)}.`, '',
      { text: 'Show the hour before that', act: () => change({ range: 'custom', from: String(Math.floor(latest) - 3600), to: String(Math.ceil(latest) + 1) }) });
  } else {
    showEmpty('No profiles in this range', 'Select a longer range.', '', { text: 'All time', act: () => change({ range: 'all', at: '' }) });
  }
}

function showProblem(text) {
  byId('problem').textContent = text;
  byId('problem').hidden = !text;
}

function busy(on) {
  clearTimeout(busy.timer);
  document.body.setAttribute('aria-busy', String(on));
  if (on) {
    busy.timer = setTimeout(() => { byId('busy').textContent = 'Loading …'; }, BUSY_MS);
  } else {
    byId('busy').textContent = '';
  }
}

// ---- changing ----

// replace: replaces the history entry; the page shows the change already, so there is no refresh
function change(patch, replace = false) {
  const longer = patch.view && patch.view !== state.view && [...OF_ALL, ...OF_DAYS].includes(patch.view) && ['1h', '1d'].includes(state.range) && state.range === usualRange(state.view);
  const wanted = longer ? { ...patch, range: usualRange(patch.view) } : patch;
  const shown = replace || Object.keys(patch).every((key) => OF_GRAPH.includes(key));
  state = shown ? Object.assign(state, wanted) : { ...state, ...wanted }; // a view that still loads shows it, too
  writeAddress(state, replace);
  if (shown) {
    showViews();
  } else {
    refresh();
  }
}

const selection = new Selection(change, () => { forget(); refresh(); });
const timeline = new Timeline(byId('timeline'), {
  onSelect: (which, span) => change({ [which]: span ? `${span.from}-${span.to}` : '', zoom: '' }),
  onZoom: (span) => change({ range: 'custom', from: String(span.from), to: String(span.to), at: '', zoom: '' }),
  onOut: (data) => zoomOut(data),
  onFit: (data) => fitToData(data),
  onGo: (patch) => change({ sort: '', find: '', ...patch }),
  onChart: (chart) => change({ chart }),
  onFilter: (values) => change({ filter: state.group.split('\n').reduce((filter, name, i) => toggled(filter, name, values[i]), state.filter) }),
});

// The steps with data. Where all have some, or none: all that is stored of the service.
function fitToData(data) {
  const has = Array.from({ length: data.buckets }, (_, i) => data.series.some((one) => one.values[i]));
  const first = has.indexOf(true);
  const last = has.lastIndexOf(true);
  const rows = services.filter((row) => row.service === state.service);
  const inside = first >= 0 && (first > 0 || last < data.buckets - 1);
  const span = inside ? { from: data.from + first * data.step, to: data.from + (last + 1) * data.step }
    : { from: Math.floor(rows.reduce((low, row) => Math.min(low, row.first), Infinity)), to: Math.ceil(largest(rows.map((row) => row.last), 0)) };
  if (span.from < span.to) {
    change({ range: 'custom', from: String(span.from), to: String(span.to), at: '', zoom: '' });
  }
}

// Twice the range, with the same middle, not into the future.
function zoomOut(data) {
  const half = data.step * data.buckets;
  const middle = data.from + half / 2;
  const to = Math.min(middle + half, Math.max(Date.now() / 1000, data.from + half));
  change({ range: 'custom', from: String(Math.max(0, Math.round(to - 2 * half))), to: String(Math.round(to)) });
}

// Copies the address with times that stay, for people who read it later. Returns what was done.
async function copyLink() {
  const time = timeOf(state);
  const end = Date.now() / 1000;
  const fixed = state.range === 'all' || state.at ? state : { ...state, range: 'custom', from: String(Math.floor(secondsOf(time.from, end, 0))), to: String(Math.ceil(secondsOf(time.to, end, end))) };
  await copyText(location.origin + addressOf({ ...fixed, live: '' }));
  return state.range === 'all' ? 'Copied a link to all time.' : 'Copied a link with these times.';
}

// ---- showing ----

function showViews() {
  const current = state.view in VIEWS ? state.view : 'flame';
  byId('views').replaceChildren(...Object.entries(VIEWS).map(([name, { title }]) => element('a', {
    href: addressOf({ ...state, view: name, zoom: '', sort: '', find: '' }), 'aria-current': name === current ? 'page' : null, 'data-view': name,
    onclick: (event) => {
      if (event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
        event.preventDefault();
        change({ view: name, zoom: '', sort: '', find: '' });
      }
    },
  }, title)));
  byId('heading').textContent = OF_ALL.includes(current) ? VIEWS[current].title : `${VIEWS[current].title} of ${state.service || 'all services'}`;
  document.title = `${OF_ALL.includes(current) ? VIEWS[current].title : state.service || 'Profiles'} – edgeprof`;
}

// Each view is created when it is first shown, and kept.
function viewOf() {
  const name = state.view in VIEWS ? state.view : 'flame';
  if (!views[name]) {
    const place = element('div', { 'data-of': name });
    byId('view').append(place);
    views[name] = { place, view: new VIEWS[name].make(place, { change, filled, link: copyLink, labels: (profile) => selection.showLabels(profile) }) };
  }
  for (const [other, { place }] of Object.entries(views)) {
    place.hidden = other !== name;
  }
  return views[name].view;
}

function spansFor(data) {
  const absolute = (time) => {
    if (!time) {
      return null;
    }
    const end = data.asked_to;
    const snap = (at) => data.from + Math.round((at - data.from) / data.step) * data.step;
    return { from: snap(secondsOf(time.from, end, data.from)), to: snap(secondsOf(time.to, end, end)) };
  };
  const comparing = state.view === 'diff';
  return { at: parseSpan(state.at) ?? (comparing ? absolute(timeOf(state)) : null), base: comparing ? absolute(baseTimeOf(state)) : null };
}

async function showTimeline(still) {
  const without = OF_ALL.includes(state.view) || OF_DAYS.includes(state.view);
  byId('timeline').hidden = without;
  if (without) {
    return;
  }
  const asked = state.view === 'span' && (state.span_id || state.trace_id) ? ofSpan(state) : state;
  const data = await get(timelinePath(asked));
  if (still()) {
    selection.data = data;
    const comparing = state.view === 'diff';
    timeline.marks = [];
    timeline.show(data, spansFor(data), { comparing, chart: state.chart, onlyTimes: comparing && Boolean(state.basefilter) });
    if (state.view !== 'span') {
      marksFor = () => loadMarks(state).then((marks) => still() && timeline.showMarks(marks), () => {}); // without marks it is right, too
    }
  }
}

async function showAll(still) {
  // Requests that the address determines start at once; others need the list of services.
  const early = state.service || OF_ALL.includes(state.view) || (state.view === 'span' && (state.span_id || state.trace_id)) ? [viewOf().show(state, still), showTimeline(still)] : [];
  early.forEach((one) => one.catch(() => {}));
  ({ services } = await get(servicesPath(state)));
  if (!still()) {
    return;
  }
  const names = [...new Set(services.map((row) => row.service))];
  if (!state.service && names.length) {
    state.service = names[0];
    if (!OF_ALL.includes(state.view) && !state.span_id && !state.trace_id) {
      writeAddress(state, true); // a link shows the same service when others have come
    }
  }
  selection.show(state, services);
  showViews();
  nothing ||= early.length + services.length === 0;
  await Promise.all(early.length || nothing ? early : [viewOf().show(state, still), showTimeline(still)]);
  if (still()) {
    emptyOf();
  }
}

async function refresh() {
  const own = ++asked;
  const still = () => own === asked;
  nothing = false;
  clearTimeout(timer);
  showViews();
  busy(true);
  try {
    await showAll(still);
    if (still()) {
      showProblem('');
    }
  } catch (error) {
    if (still()) {
      showProblem(error.pending ? '' : error.message);
    }
  }
  if (!still()) {
    return;
  }
  busy(false);
  await marksFor?.();
  if (!still()) {
    return;
  }
  marksFor = null;
  document.body.dataset.ready = String(own);
  const pending = takePendingNames();
  document.body.dataset.names = pending ? 'pending' : 'known';
  namesAsked = pending ? namesAsked + 1 : 0;
  if (pending) {
    byId('busy').textContent = `Reading symbols: ${pending.toLocaleString('en')} addresses have no name yet …`;
    timer = setTimeout(refresh, Math.min(NAMES_MS * namesAsked, NAMES_MOST_MS));
    return;
  }
  if (state.live || services.length === 0) {
    timer = setTimeout(() => { forget(); refresh(); }, LIVE_MS);
  }
}

function onAddress() {
  const before = addressOf(state);
  state = readAddress();
  if (addressOf(state) !== before) {
    refresh();
  }
}

byId('skip').addEventListener('click', (event) => {
  event.preventDefault();
  byId('main').focus();
});
addEventListener('popstate', onAddress);
addEventListener('hashchange', onAddress);
listenForKeys([
  ...Object.entries(VIEWS).map(([name, { title }], i) => ({ key: String(i + 1), text: title, act: () => change({ view: name, zoom: '', sort: '', find: '' }) })),
  { key: '/', text: 'search', act: () => document.querySelector('#view > :not([hidden]) input[type="search"]')?.focus() },
  { key: 'f', text: 'filter by labels', act: () => byId('filter-text').focus() },
  { key: 't', text: 'to the timeline', act: () => document.querySelector('#plot .edge.at')?.focus() },
  { key: 'g', text: 'to the flame graph', act: () => document.querySelector('#view > :not([hidden]) .chart')?.focus() },
  { key: 'r', text: 'refresh', act: () => { forget(); refresh(); } },
  { key: 'l', text: 'live, or not', act: () => byId('live').click() },
  { key: 'd', text: 'dark, light, or as the system', act: () => globalThis.nextTheme() },
]);
writeAddress(state, true);
refresh();
