// Numbers, times and devices as text.
const TIME_UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
const LONG = 600e9; // ns: longer times are minutes, hours and days
const BYTE_UNITS = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];

// Three digits that count.
function digits(number) {
  const size = Math.abs(number);
  return size >= 100 ? Math.round(number).toLocaleString('en') : number.toFixed(size >= 9.995 ? 1 : 2);
}

export function formatValue(value, unit) {
  if (unit === 'nanoseconds' && Math.abs(value) >= LONG) {
    return formatDuration(value / 1e9);
  }
  const units = unit === 'nanoseconds' ? TIME_UNITS : unit === 'bytes' ? BYTE_UNITS : [];
  for (const [size, name] of units) {
    if (Math.abs(value) >= size) {
      return `${digits(value / size)} ${name}`;
    }
  }
  const rounded = Math.round(value * 100) / 100;
  return unit === 'nanoseconds' ? `${rounded} ns` : unit === 'bytes' ? `${rounded} B` : rounded.toLocaleString('en');
}

export function formatShare(part, whole) {
  const share = whole ? 100 * part / whole : 0;
  return `${share === 0 ? 0 : digits(share)} %`;
}

// Parts of a million: 226766 -> "22.7 %"
export function formatPpm(ppm) {
  return `${Number((ppm / 1e4).toPrecision(ppm < 1e4 ? 2 : 3))} %`;
}

// With a sign, for differences.
export function formatSigned(value, text) {
  return value > 0 ? `+${text}` : value < 0 ? `−${text.replace(/^-/, '')}` : text;
}

// Milliseconds from a moment on, for an axis or a length.
export function formatMs(ms) {
  return Math.abs(ms) >= 10000 ? `${Number((ms / 1000).toPrecision(4))} s` : `${Number(ms.toPrecision(4))} ms`.replace('-', '−');
}

// Of a crash, an incident or a process.
export const deviceOf = ({ tags, host }) => tags.device || host || '(no name)';

const two = (number) => String(number).padStart(2, '0');

export function formatTime(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// 90 -> "1 min 30 s"
export function formatDuration(seconds) {
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  let left = Math.round(seconds);
  const text = [];
  for (const [size, name] of parts) {
    if (left >= size && text.length < 2) {
      text.push(`${Math.floor(left / size)} ${name}`);
      left %= size;
    } else if (text.length) {
      break;
    }
  }
  return text.join(' ') || `${Math.max(0, seconds).toFixed(seconds > 0 && seconds < 1 ? 1 : 0)} s`;
}

// Two significant digits.
export function formatCores(cores) {
  return cores >= 0.1 ? cores.toFixed(2) : String(Number(cores.toPrecision(2)));
}

// A bucket's value per second: CPU time per second is cores.
export function formatRate(value, seconds, unit, kind) {
  const rate = seconds ? value / seconds : 0;
  return kind === 'cpu' && unit === 'nanoseconds' ? `${formatCores(rate / 1e9)} cores` : `${formatValue(rate, unit)}/s`;
}

// An axis label: the day at midnight, otherwise the time, with seconds if necessary.
export function formatTick(date) {
  if (date.getHours() + date.getMinutes() + date.getSeconds() === 0) {
    return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  }
  return `${two(date.getHours())}:${two(date.getMinutes())}${date.getSeconds() ? `:${two(date.getSeconds())}` : ''}`;
}

const DAY = 86400;

// Of what wears out, such as flash: how much it is a day.
export function aDay(value, { kind, measure, covered, unit }) {
  return kind === 'write' && measure === 'value' && covered > 0 ? `${formatValue(value * DAY / covered, unit)} a day` : '';
}
