// Filters in Prometheus's syntax: version="1.2",device=~"pi-.*". The server interprets them.

export function parseSelector(text) {
  const matchers = [];
  let rest = text.trim().replace(/^\{/, '').replace(/\}$/, '').trim();
  while (rest) {
    const found = /^([^\s=!~,"{}]+)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",{}]*))\s*(?:,\s*|$)/.exec(rest);
    if (!found) {
      throw new Error(`A filter is name="value", name!="value", name=~"pattern" or name!~"pattern", with commas between: ${rest}`);
    }
    matchers.push({ name: found[1], how: found[2], value: found[4] ?? unquote(found[3]) });
    rest = rest.slice(found[0].length);
  }
  return matchers;
}

function unquote(text) {
  try {
    return JSON.parse(`"${text}"`);
  } catch {
    return text.replace(/\\(.)/g, '$1');
  }
}

export function formatSelector(matchers) {
  return matchers.map(({ name, how, value }) => `${name}${how}${JSON.stringify(value)}`).join(',');
}

// The matchers; none while the text is not a valid filter.
function matchersOf(text) {
  try {
    return parseSelector(text);
  } catch {
    return [];
  }
}

export function selects(text, name, value) {
  return matchersOf(text).some((one) => one.name === name && one.how === '=' && one.value === value);
}

// Adds name="value", or removes it when present.
export function toggled(text, name, value) {
  const others = matchersOf(text).filter((one) => one.name !== name || one.how !== '=');
  return formatSelector(selects(text, name, value) ? others : [...others, { name, how: '=', value }]);
}

export function withService(service, filter) {
  return filter ? `${service}{${filter.trim().replace(/^\{/, '').replace(/\}$/, '')}}` : service;
}
