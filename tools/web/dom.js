// Creates elements. Text from devices goes into text nodes and attributes, never into markup. A child may be a list: a
// call takes some 120,000 arguments at most, and lists may be longer.
export const byId = (id) => document.getElementById(id);

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? '' : value);
    }
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) {
      made.append(child);
    }
  }
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

// A button with two states.
export function toggle(text, attributes, onclick) {
  return element('button', { type: 'button', class: 'toggle', 'aria-pressed': 'false', ...attributes, onclick }, text);
}

export function press(button, on) {
  button.setAttribute('aria-pressed', String(on));
}

export function fillSelect(select, values, chosen, text = (value) => value || '(no name)') {
  select.replaceChildren();
  for (const value of values) {
    select.append(element('option', { value, selected: value === chosen }, text(value)));
  }
  select.value = chosen;
}

// The largest of the numbers, and of `least`.
export function largest(numbers, least) {
  return numbers.reduce((most, number) => Math.max(most, number), least);
}

export function saveText(name, type, text) {
  const href = URL.createObjectURL(new Blob([text], { type }));
  element('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}

export async function copyText(text) {
  if (navigator.clipboard && isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = element('textarea', { class: 'away', 'aria-hidden': 'true' });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy'); // pages over plain http have no clipboard API
  area.remove();
}
