// Keys for the whole page, and the list of all keys under "?". The flame graph and the timeline have additional keys.
import { byId, element } from './dom.js';

const ELSEWHERE = [
  ['Flame graph', [['← → ↑ ↓', 'move from frame to frame'], ['Enter', 'zoom to the frame'], ['M', 'menu of the frame'], ['Esc', 'zoom out'], ['C', 'copy the frame’s name']]],
  ['Search in the flame graph', [['Enter', 'next one found'], ['Shift Enter', 'previous one']]],
  ['Timeline (Tab leads to its handles)', [['← →', 'move the start or end by one step'], ['Page ↑ ↓', 'by ten steps'], ['Home End', 'to the first or last'], ['Esc', 'clear the selection']]],
];

// keys: [{key, text, act}]
export function listenForKeys(keys) {
  const dialog = byId('keys');
  const list = (rows) => element('dl', {}, ...rows.flatMap(([key, text]) => [element('dt', {}, element('kbd', {}, key)), element('dd', {}, text)]));
  dialog.replaceChildren(
    element('h2', { id: 'keys-title' }, 'Keyboard'),
    list([...keys.map(({ key, text }) => [key.length === 1 ? key.toUpperCase() : key, text]), ['?', 'this list']]),
    ...ELSEWHERE.flatMap(([title, rows]) => [element('h3', {}, title), list(rows)]),
    element('button', { type: 'button', onclick: () => dialog.close() }, 'Close'));
  const help = () => (dialog.open ? dialog.close() : dialog.showModal());
  byId('help').addEventListener('click', help);
  addEventListener('keydown', (event) => {
    const typing = event.target.closest?.('input:not([type="checkbox"]), select, textarea');
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.key !== 'Escape')) {
      return;
    }
    if (event.key === '?') {
      help();
    } else if (event.key === 'Escape' && typing) {
      typing.blur();
      return;
    } else if (!dialog.open) {
      const found = keys.find(({ key }) => key === event.key.toLowerCase());
      if (!found) {
        return;
      }
      found.act();
    } else {
      return;
    }
    event.preventDefault();
  });
}
