// A menu at a place of the window, by mouse and keyboard, and the tooltip of a frame.
import { element } from './dom.js';

let openMenu = null;

function closeMenu(focus = true) {
  if (openMenu) {
    const { node, back, away } = openMenu;
    openMenu = null;
    removeEventListener('pointerdown', away, true);
    removeEventListener('scroll', away, true);
    node.remove();
    if (focus) {
      back?.focus({ preventScroll: true });
    }
  }
}

// Within the window.
function placeAt(node, x, y) {
  const { width, height } = node.getBoundingClientRect();
  node.style.setProperty('left', `${Math.max(4, Math.min(x, innerWidth - width - 8))}px`);
  node.style.setProperty('top', `${Math.max(4, y + height + 8 > innerHeight && y > height ? y - height - 8 : Math.min(y, innerHeight - height - 8))}px`);
}

function onMenuKey(event, items) {
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (to !== undefined) {
    items[(to + items.length) % items.length].focus();
  } else if (event.key === 'Escape' || event.key === 'Tab') {
    closeMenu();
  } else if (event.key.length === 1 && event.key !== ' ') {
    items.find((item) => item.textContent.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
  } else {
    event.stopPropagation();
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

// items: [{text, act | href, file}]; back: gets the focus when the menu closes
export function showMenu(x, y, label, items, back) {
  closeMenu(false);
  const made = items.map(({ text, act, href, file }) => element(href ? 'a' : 'button', {
    role: 'menuitem', tabindex: '-1', ...(href ? { href, download: file } : { type: 'button' }), onclick: () => { closeMenu(); act?.(); },
  }, text));
  const node = element('div', { class: 'menu', role: 'menu', 'aria-label': label, onkeydown: (event) => onMenuKey(event, made) }, ...made);
  const away = (event) => !node.contains(event.target) && closeMenu(false);
  document.body.append(node);
  placeAt(node, x, y);
  openMenu = { node, back, away };
  addEventListener('pointerdown', away, true);
  addEventListener('scroll', away, true);
  made[0].focus({ preventScroll: true });
}

// Below a button.
export function showMenuAt(button, label, items) {
  const box = button.getBoundingClientRect();
  showMenu(box.left, box.bottom + 2, label, items, button);
}

let hint = null;

// rows: [[name, text]]. Screen readers get the same from the line below the graph.
export function showTip(x, y, title, rows) {
  if (!hint) {
    hint = element('div', { class: 'tip', 'aria-hidden': 'true' });
    document.body.append(hint);
  }
  hint.hidden = false;
  hint.replaceChildren(element('b', {}, title), element('table', {}, element('tbody', {}, ...rows.filter(([, text]) => text).map(([name, ...texts]) =>
    element('tr', {}, element('th', {}, name), ...texts.map((text) => element('td', texts.length === 1 ? { colspan: '3' } : {}, text)))))));
  placeAt(hint, x + 14, y + 16);
}

export function hideTip() {
  if (hint) {
    hint.hidden = true;
  }
}
