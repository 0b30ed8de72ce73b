// Places of an axis's labels.

// Round numbers within [from, to], about `count` of them.
export function numberTicks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) {
    ticks.push(i * step);
  }
  return ticks;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];

// Round local times within [from, to], in seconds since 1970. Steps of days begin at midnight, also when clocks change.
export function timeTicks(from, to, count) {
  const step = STEPS.find((one) => (to - from) / one <= Math.max(1, count)) ?? STEPS.at(-1);
  const midnight = new Date(from * 1000);
  midnight.setHours(0, 0, 0, 0);
  const ticks = [];
  if (step < 86400) {
    const start = midnight / 1000;
    for (let at = start + Math.ceil((from - start) / step) * step; at <= to; at += step) {
      ticks.push(new Date(at * 1000));
    }
    return ticks;
  }
  for (const day = midnight; day / 1000 <= to; day.setDate(day.getDate() + step / 86400)) {
    if (day / 1000 >= from) {
      ticks.push(new Date(day));
    }
  }
  return ticks;
}
