// The page of `edgeprof serve`: what is selected (kept in the address, so that it can be shared), asking the API for
// it, and the figures around the viewer.
import { Viewer, element, formatShare, formatTime, formatValue } from '/viewer.js';

const LIVE_MS = 5000;
const byId = (id) => document.getElementById(id);
const viewer = new Viewer(byId('viewer'));
const state = { service: '', kind: '', range: '1h', from: '', to: '', tags: [], live: false };
let services = [];
let asked = 0;
let timer = null;

// ---- the address ----

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const key of ['service', 'kind', 'range', 'from', 'to']) {
    state[key] = parameters.get(key) ?? (key === 'range' ? '1h' : '');
  }
  state.tags = parameters.getAll('tag');
  state.live = parameters.get('live') === '1';
}

function writeAddress() {
  const parameters = new URLSearchParams();
  for (const key of ['service', 'kind', 'range', 'from', 'to']) {
    if (state[key]) {
      parameters.set(key, state[key]);
    }
  }
  state.tags.forEach((tag) => parameters.append('tag', tag));
  if (state.live) {
    parameters.set('live', '1');
  }
  history.replaceState(null, '', `#${parameters}`);
}

function query() {
  const parameters = new URLSearchParams({ service: state.service });
  if (state.kind) {
    parameters.set('kind', state.kind);
  }
  state.tags.forEach((tag) => parameters.append('tag', tag));
  if (state.range === 'custom') {
    for (const key of ['from', 'to']) {
      const time = Date.parse(state[key]);
      if (!Number.isNaN(time)) {
        parameters.set(key, String(time / 1000));
      }
    }
  } else if (state.range !== 'all') {
    parameters.set('from', `now-${state.range}`);
  }
  return parameters;
}


async function get(path) {
  const response = await fetch(path);
  const body = await response.json();
  if (!response.ok) {
    throw new Error(body.error ?? `status ${response.status}`);
  }
  return body;
}

// ---- controls ----

function fillSelect(select, values, chosen) {
  select.replaceChildren(...values.map((value) => element('option', { value, selected: value === chosen }, value || '(no name)')));
}

function fillControls() {
  const names = [...new Set(services.map((row) => row.service))];
  if (!names.includes(state.service)) {
    state.service = names[0] ?? '';
    state.tags = [];
  }
  const kinds = services.filter((row) => row.service === state.service).map((row) => row.kind).sort();
  if (!kinds.includes(state.kind)) {
    state.kind = kinds.includes('cpu') ? 'cpu' : kinds[0] ?? '';
  }
  fillSelect(byId('service'), names, state.service);
  fillSelect(byId('kind'), kinds, state.kind);
  byId('kind-label').hidden = kinds.length < 2;
  byId('range').value = state.range;
  byId('custom').hidden = state.range !== 'custom';
  byId('from').value = state.from;
  byId('to').value = state.to;
  byId('live').checked = state.live;
  fillTags();
}

function fillTags() {
  const values = new Map();
  for (const row of services.filter((other) => other.service === state.service)) {
    for (const set of row.tags) {
      for (const [key, value] of Object.entries(set)) {
        values.set(key, (values.get(key) ?? new Set()).add(value));
      }
    }
  }
  const parts = [...values].sort().flatMap(([key, set]) => [
    element('span', { class: 'key' }, `${key}:`),
    ...[...set].sort().map((value) => chip(`${key}=${value}`, value)),
  ]);
  byId('tags').hidden = parts.length === 0;
  byId('tags').replaceChildren(...parts);
}

function chip(tag, text) {
  return element('button', {
    type: 'button', class: 'chip', 'aria-pressed': String(state.tags.includes(tag)),
    onclick: () => {
      const key = tag.slice(0, tag.indexOf('=') + 1);
      const others = state.tags.filter((other) => !other.startsWith(key));
      state.tags = state.tags.includes(tag) ? others : [...others, tag];
      refresh();
    },
  }, text || '(empty)');
}

// ---- figures ----

function figure(text, value, title, bad = false) {
  return element('div', { class: bad ? 'figure bad' : 'figure', title }, element('b', {}, value), element('span', {}, text));
}

function sum(processes, pick) {
  return processes.reduce((total, process) => total + (process.stats ? pick(process.stats) : 0), 0);
}

function lossCount(stats) {
  return stats.losses.reduce((total, loss) => total + loss.count, 0);
}

function showFigures(profile, processes) {
  const seconds = profile.to - profile.from;
  const samples = sum(processes, (stats) => stats.samples);
  const exact = sum(processes, (stats) => stats.exact);
  const cut = sum(processes, (stats) => stats.cut);
  const lost = sum(processes, lossCount);
  const measured = samples > 0;
  byId('figures').replaceChildren(
    figure(profile.kind === 'cpu' ? 'CPU time' : profile.kind, formatValue(profile.total, profile.unit), 'all stacks together'),
    ...(profile.samples ? [figure('samples', profile.samples.toLocaleString('en'), 'stacks captured')] : []),
    ...(profile.unit === 'nanoseconds' && seconds > 0
      ? [figure('cores busy', (profile.total / 1e9 / seconds).toFixed(3), 'mean over the time that the data covers')] : []),
    figure('data covers', `${Math.max(0, seconds).toFixed(0)} s`, `${formatTime(profile.from)} to ${formatTime(profile.to)}`),
    figure(processes.length === 1 ? 'process' : 'processes', String(processes.length), 'that sent these profiles'),
    ...(measured ? [
      figure('stacks exact', formatShare(exact, samples), 'walked to the root, every frame by a rule; since the processes started'),
      figure('stacks cut', formatShare(cut, samples), 'not walked to the root', cut > samples / 10),
      figure('lost', lost.toLocaleString('en'), 'see below for the reasons', lost > 0),
    ] : []));
}

function processElement(process) {
  const { stats } = process;
  const tags = Object.entries(process.tags).map(([key, value]) => `${key}=${value}`).join(', ');
  const who = [process.executable, process.pid ? `pid ${process.pid}` : '', process.host, process.arch, process.agent, tags];
  const parts = [element('p', {}, element('b', {}, process.service), ` ${who.filter(Boolean).join(' · ')}`),
    element('p', {}, `${process.profiles} profiles, ${formatTime(process.first)} to ${formatTime(process.last)}`)];
  if (stats) {
    parts.push(element('p', {}, `${stats.samples.toLocaleString('en')} samples, ${formatShare(stats.exact, stats.samples)} exact, ` +
      `${formatShare(stats.gap, stats.samples)} with a gap, ${formatShare(stats.cut, stats.samples)} cut; ` +
      `${stats.threads} threads; rules in the cache ${formatShare(stats.rule_hits, stats.rule_hits + stats.rule_misses)}`));
    const losses = stats.losses.filter((loss) => loss.count || loss.weight_ns);
    parts.push(losses.length
      ? element('p', { class: 'bad' }, `Lost: ${losses.map((loss) =>
        `${loss.count.toLocaleString('en')} ${loss.reason}${loss.weight_ns ? ` (${formatValue(loss.weight_ns, 'nanoseconds')})` : ''}`).join(', ')}`)
      : element('p', {}, 'Nothing lost.'));
  }
  return element('div', { class: 'process' }, ...parts);
}

// ---- showing ----

function show(part) {
  byId('data').hidden = part !== 'data';
  byId('empty').hidden = part !== 'empty';
}

function showEmpty(title, text, example) {
  const [h1, p, pre] = byId('empty').children;
  h1.textContent = title;
  p.textContent = text;
  pre.textContent = example;
  pre.hidden = !example;
  show('empty');
}

function showProblem(text) {
  byId('problem').textContent = text;
  byId('problem').hidden = !text;
}

function showData(profile, stats) {
  if (!profile.total) {
    const latest = Math.max(...services.filter((row) => row.service === state.service).map((row) => row.last));
    showEmpty('Nothing in this time', Number.isFinite(latest)
      ? `The latest profile of ${state.service} is of ${formatTime(latest)}. Choose a longer time or other tags.` : '', '');
    return;
  }
  show('data');
  document.title = `${state.service} – edgeprof`;
  showFigures(profile, stats.processes);
  byId('process-list').replaceChildren(...stats.processes.slice(0, 100).map(processElement));
  viewer.show(profile);
}

// A later refresh makes an earlier one's answer void.
async function refresh() {
  const own = ++asked;
  clearTimeout(timer);
  try {
    ({ services } = await get('/api/services'));
    fillControls();
    writeAddress();
    if (services.length === 0) {
      showEmpty('No profiles yet', 'Start a service with the profiler in it, or profile a program as it is:',
        `EDGEPROF_ENDPOINT=${location.origin} ./your-service\nedgeprof run -- ./any-program`);
    } else {
      const parameters = query();
      const [profile, stats] = await Promise.all([get(`/api/profile?${parameters}`), get(`/api/stats?${parameters}`)]);
      if (own === asked) {
        showData(profile, stats);
      }
    }
    showProblem('');
  } catch (error) {
    showProblem(`The server does not answer as it should: ${error.message}`);
  }
  document.body.dataset.ready = String(own);
  if (own === asked && (state.live || services.length === 0)) {
    timer = setTimeout(refresh, LIVE_MS);
  }
}

function onChange() {
  state.service = byId('service').value;
  state.kind = byId('kind').value;
  state.range = byId('range').value;
  state.from = byId('from').value;
  state.to = byId('to').value;
  state.live = byId('live').checked;
  refresh();
}

byId('selection').addEventListener('change', onChange);
byId('selection').addEventListener('submit', (event) => {
  event.preventDefault();
  onChange();
});
addEventListener('hashchange', () => {
  readAddress();
  refresh();
});
readAddress();
refresh();
