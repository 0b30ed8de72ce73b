// The page of `edgeprof serve`: what is selected (kept in the address, so that it can be shared), asking the API for
// it, and the figures around the viewer.
import { Viewer, element, formatShare, formatTime, formatValue } from '/viewer.js';

const LIVE_MS = 5000;
const byId = (id) => document.getElementById(id);
const viewer = new Viewer(byId('viewer'));
const state = { service: '', kind: '', value: '', group: '', range: '1h', from: '', to: '', tags: [], labels: [], live: false };
const KEYS = ['service', 'kind', 'value', 'group', 'range', 'from', 'to'];
let services = [];
let asked = 0;
let timer = null;

// ---- the address ----

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  for (const key of KEYS) {
    state[key] = parameters.get(key) ?? (key === 'range' ? '1h' : '');
  }
  state.tags = parameters.getAll('tag');
  state.labels = parameters.getAll('label');
  state.live = parameters.get('live') === '1';
}

function writeAddress() {
  const parameters = new URLSearchParams();
  for (const key of KEYS) {
    if (state[key]) {
      parameters.set(key, state[key]);
    }
  }
  state.tags.forEach((tag) => parameters.append('tag', tag));
  state.labels.forEach((label) => parameters.append('label', label));
  if (state.live) {
    parameters.set('live', '1');
  }
  history.replaceState(null, '', `#${parameters}`);
}

function query() {
  const parameters = new URLSearchParams({ service: state.service });
  for (const key of ['kind', 'value', 'group']) {
    if (state[key]) {
      parameters.set(key, state[key]);
    }
  }
  state.tags.forEach((tag) => parameters.append('tag', tag));
  state.labels.forEach((label) => parameters.append('label', label));
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

function fillSelect(select, values, chosen, text = (value) => value || '(no name)') {
  select.replaceChildren(...values.map((value) => element('option', { value, selected: value === chosen }, text(value))));
}

const UNITS = { nanoseconds: 'time', bytes: 'bytes', count: '' };

// What can be chosen of a service: "alloc" is a kind's value, "alloc:count" its count.
function kindOptions(rows) {
  const options = new Map();
  for (const row of rows.sort((a, b) => (a.kind < b.kind ? -1 : 1))) {
    const unit = UNITS[row.unit] ?? row.unit;
    options.set(row.kind, unit && !row.title.endsWith(unit) ? `${row.title}, ${unit}` : row.title);
    if (row.counts && row.kind !== 'cpu') {
      options.set(`${row.kind}:count`, `${row.title}, ${row.counts}`);
    }
  }
  return options;
}

function fillControls() {
  const names = [...new Set(services.map((row) => row.service))];
  if (!names.includes(state.service)) {
    state.service = names[0] ?? '';
    state.tags = [];
    state.labels = [];
  }
  const rows = services.filter((row) => row.service === state.service);
  const kinds = rows.map((row) => row.kind).sort();
  if (!kinds.includes(state.kind)) {
    state.kind = kinds.includes('cpu') ? 'cpu' : kinds[0] ?? '';
  }
  fillSelect(byId('service'), names, state.service);
  const options = kindOptions(rows);
  fillSelect(byId('kind'), [...options.keys()], state.kind + (state.value ? `:${state.value}` : ''), (value) => options.get(value));
  byId('kind-label').hidden = options.size < 2;
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
    ...[...set].sort().map((value) => chip('tags', `${key}=${value}`, value)),
  ]);
  byId('tags').hidden = parts.length === 0;
  byId('tags').replaceChildren(...parts);
}

// Labels of stacks: the values that have most, and what to split by.
function fillLabels(profile) {
  const parts = Object.entries(profile.labels).sort().flatMap(([key, values]) => [
    element('span', { class: 'key' }, `${key}:`),
    ...Object.entries(values).sort((a, b) => b[1] - a[1]).slice(0, 20)
      .map(([value, sum]) => chip('labels', `${key}=${value}`, value, formatValue(sum, profile.unit))),
  ]);
  const chosen = state.labels.filter((label) => !(label.slice(0, label.indexOf('=')) in profile.labels));
  parts.push(...chosen.map((label) => chip('labels', label, label)));
  byId('labels').hidden = parts.length === 0;
  byId('labels').replaceChildren(...parts);
  const tags = services.filter((row) => row.service === state.service).flatMap((row) => row.tags.flatMap(Object.keys));
  const keys = ['', ...new Set([...Object.keys(profile.labels), ...tags, ...(state.group ? [state.group] : [])])].sort();
  fillSelect(byId('group'), keys, state.group, (key) => key || 'nothing');
  byId('group-label').hidden = keys.length < 2;
}

function chip(list, tag, text, title) {
  return element('button', {
    type: 'button', class: 'chip', title, 'aria-pressed': String(state[list].includes(tag)),
    onclick: () => {
      const key = tag.slice(0, tag.indexOf('=') + 1);
      const others = state[list].filter((other) => !other.startsWith(key));
      state[list] = state[list].includes(tag) ? others : [...others, tag];
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
    figure(profile.measure === 'count' ? `${profile.title}, ${profile.counts}` : profile.title, formatValue(profile.total, profile.unit),
      profile.level ? `at the end of this time, in ${profile.processes} processes` : 'all stacks together'),
    ...(profile.count && profile.kind !== 'cpu' && profile.measure === 'value'
      ? [figure(profile.counts, profile.count.toLocaleString('en'), 'that this stands for')] : []),
    ...(profile.samples && profile.kind === 'cpu' ? [figure('samples', profile.samples.toLocaleString('en'), 'stacks captured')] : []),
    ...(profile.kind === 'cpu' && profile.unit === 'nanoseconds' && seconds > 0
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
  if (process.unknown_kinds) {
    parts.push(element('p', { class: 'bad' }, `${process.unknown_kinds} profiles are of kinds that this edgeprof does not know.`));
  }
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
  fillLabels(profile);
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
  [state.kind, state.value = ''] = byId('kind').value.split(':');
  state.group = byId('group').value;
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
