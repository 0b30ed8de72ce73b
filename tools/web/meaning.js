// What a special frame means, from docs/frames.md (the build makes frames.js of its tables).
import { element } from './dom.js';
import { FRAMES } from './frames.js';

const namesOf = (cell) => cell.split('`').filter((_, i) => i % 2);
const plain = (text) => text.replaceAll('`', '');

// null: it has none.
export function meaningOf(name) {
  const row = FRAMES.find(([cell]) => namesOf(cell).includes(name));
  return row ? { text: plain(row[1]), remedy: plain(row[2]) } : null;
}

export function showMeaning(name) {
  const { text, remedy } = meaningOf(name);
  const dialog = element('dialog', { class: 'meaning', 'aria-labelledby': 'meaning-title', onclose: () => dialog.remove() },
    element('h2', { id: 'meaning-title' }, name), element('p', {}, text),
    ...(remedy ? [element('h3', {}, 'What changes it'), element('p', {}, remedy)] : []),
    element('button', { type: 'button', onclick: () => dialog.close() }, 'Close'));
  document.body.append(dialog);
  dialog.showModal();
}
