// Cards with one value each, and the processes of a profile.
import { element } from './dom.js';
import { aDay, formatCores, formatDuration, formatShare, formatTime, formatValue } from './format.js';

export function figure(text, value, title, bad = false) {
  return element('div', { class: bad ? 'figure bad' : 'figure', title }, element('b', {}, value), element('span', {}, text));
}

// A number of things; one: the word for one of them.
export function countFigure(number, one, title) {
  return figure(number === 1 ? one : `${one}s`, number.toLocaleString('en'), title);
}

// Losses that are in the profiles, with less detail, are no missing samples.
export function lostOf(losses) {
  return losses.reduce((sum, loss) => sum + (loss.kept ? 0 : loss.count), 0);
}

export function lossText(losses) {
  return losses.filter((loss) => loss.count || loss.weight_ns).map((loss) =>
    `${loss.count.toLocaleString('en')} ${loss.reason}${loss.weight_ns ? ` (${formatValue(loss.weight_ns, 'nanoseconds')})` : ''}`).join(', ');
}

// Of all kinds: a device counts how each of its stacks ended, whatever the stack was captured for.
function stacksOf(stats) {
  return stats.exact + stats.gap + stats.cut;
}

function sum(processes, pick) {
  return processes.reduce((total, process) => total + (process.stats ? pick(process.stats) : 0), 0);
}

// whole: the profile covers the service; for a span, the duration of its profiles is not its own
export function profileFigures(profile, whole) {
  const seconds = profile.covered;
  const figures = [
    figure(profile.measure === 'count' ? `${profile.title}, ${profile.counts}` : profile.title, formatValue(profile.total, profile.unit),
      profile.level ? `at the end of this time, in ${profile.processes} processes` : 'all stacks together'),
    ...(profile.count && profile.kind !== 'cpu' && profile.measure === 'value'
      ? [figure(profile.counts, profile.count.toLocaleString('en'), 'all stacks together')] : []),
    ...(profile.samples && profile.kind === 'cpu' && profile.samples !== profile.count ? [figure('samples', profile.samples.toLocaleString('en'), 'stacks captured')] : []),
  ];
  return whole ? [
    ...figures,
    ...(profile.kind === 'cpu' && seconds > 0
      ? [figure('cores busy', formatCores(profile.total / 1e9 / seconds), 'mean over the time that the data covers')] : []),
    ...(aDay(profile.total, profile) ? [figure('flash', aDay(profile.total, profile), 'at the mean rate of the time that the data covers')] : []),
    figure('data covers', formatDuration(Math.max(0, seconds)), `without gaps; ${formatTime(profile.from)} to ${formatTime(profile.to)}`),
  ] : figures;
}

export function qualityFigures(processes) {
  const stacks = sum(processes, stacksOf);
  const lost = sum(processes, (stats) => lostOf(stats.losses));
  const cut = sum(processes, (stats) => stats.cut);
  return [
    figure(processes.length === 1 ? 'process' : 'processes', String(processes.length), 'sources of these profiles'),
    ...(stacks > 0 ? [
      figure('stacks exact', formatShare(sum(processes, (stats) => stats.exact), stacks),
        'of the stacks of all kinds since the processes started: unwound to the root with an exact rule for each frame'),
      figure('stacks cut', formatShare(cut, stacks), 'of the stacks of all kinds: not unwound to the root', cut > stacks / 10),
      figure('lost', lost.toLocaleString('en'), 'see the processes below for reasons', lost > 0),
    ] : []),
  ];
}

export function processElement(process) {
  const { stats } = process;
  const tags = Object.entries(process.tags).map(([key, value]) => `${key}=${value}`).join(', ');
  const who = [process.executable, process.pid ? `pid ${process.pid}` : '', process.host, process.arch, process.agent, tags];
  const parts = [element('p', {}, element('b', {}, process.service), ` ${who.filter(Boolean).join(' · ')}`),
    element('p', {}, `${process.profiles.toLocaleString('en')} profiles and ${process.samples_in_range.toLocaleString('en')} samples in this time, ${formatTime(process.first)} to ${formatTime(process.last)}`)];
  if (process.unknown_kinds) {
    parts.push(element('p', { class: 'bad' }, `${process.unknown_kinds} profiles are of kinds that this edgeprof does not know.`));
  }
  if (stats) {
    const stacks = stacksOf(stats);
    parts.push(element('p', {}, `Since its start ${stats.samples.toLocaleString('en')} CPU samples; ${stacks.toLocaleString('en')} stacks of all kinds: ` +
      `${formatShare(stats.exact, stacks)} exact, ${formatShare(stats.gap, stacks)} with a gap, ${formatShare(stats.cut, stacks)} cut; ` +
      `${stats.threads} threads; rules in the cache ${formatShare(stats.rule_hits, stats.rule_hits + stats.rule_misses)}`));
    const [lost, kept] = [false, true].map((one) => lossText(stats.losses.filter((loss) => loss.kept === one)));
    parts.push(lost ? element('p', { class: 'bad' }, `Lost: ${lost}`) : element('p', {}, 'Nothing lost.'), ...(kept ? [element('p', {}, `With less detail: ${kept}`)] : []));
  }
  return element('div', { class: 'process' }, ...parts);
}
