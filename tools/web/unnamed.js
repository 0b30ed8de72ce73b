// Which modules of a profile lack symbols, how much of the profile is in them, and the command that adds symbols.
import { serverUrl } from './address.js';
import { copyText, element } from './dom.js';
import { formatShare } from './format.js';
import { columnHeading, tableOf } from './table.js';

function command() {
  return `edgeprof symbols add --url ${serverUrl()} FILE`;
}

// null: every function has a name, or names may still come.
export function unnamedElement({ unnamed = [], total, names_pending: pending }) {
  const rows = pending ? [] : unnamed;
  if (rows.length === 0) {
    return null;
  }
  const sum = rows.reduce((all, row) => all + row.self, 0);
  const copy = element('button', { type: 'button', onclick: () => copyText(command()).then(() => { copy.textContent = 'Copied'; }) }, 'Copy');
  return element('details', { id: 'unnamed', class: 'labels' },
    element('summary', {}, `${rows.length === 1 ? '1 module lacks' : `${rows.length} modules lack`} symbols: ${sum ? `${formatShare(sum, total)} is addresses without names` : 'some callers are addresses without names'}`),
    tableOf([columnHeading('of all'), columnHeading('module', 'name'), columnHeading('build id')],
      rows.map((row) => element('tr', {}, element('td', {}, formatShare(row.self, total)), element('td', { class: 'name' }, row.module), element('td', { class: 'code' }, row.build_id || '(none)')))),
    element('p', {}, 'Give the server the file with the symbols, such as PROGRAM.dbg or the program before it was stripped. It must have this build id: ', element('code', {}, command()), ' ', copy));
}
