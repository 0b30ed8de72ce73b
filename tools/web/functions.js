// The table of a profile's functions: self (flat) and total (cum), and the hottest lines of each.
import { element } from './dom.js';
import { aDay, formatShare, formatValue } from './format.js';
import { meaningOf, showMeaning } from './meaning.js';
import { Table, shareCell } from './table.js';

export class Functions extends Table {
  constructor(parent, options) {
    const state = { profile: null };
    const value = (row, key) => [formatValue(row[key], state.profile.unit), aDay(row[key], state.profile)].filter(Boolean).join(', ');
    super(parent, {
      id: 'top', title: 'Functions', noun: 'functions', sort: { column: 'self', down: true }, textOf: (row) => row.name,
      columns: [
        { key: 'self', text: 'flat %', title: 'function alone', down: true, value: (row) => row.self, cell: (row) => shareCell(row.self, state.profile.total) },
        { key: 'flat', text: 'flat', class: 'optional', down: true, value: (row) => row.self, cell: (row) => value(row, 'self') },
        { key: 'total', text: 'cum %', title: 'with callees', down: true, value: (row) => row.total, cell: (row) => shareCell(row.total, state.profile.total) },
        { key: 'cum', text: 'cum', class: 'optional', down: true, value: (row) => row.total, cell: (row) => value(row, 'total') },
        { key: 'name', text: 'function', class: 'name', value: (row) => row.name, cell: (row) => this.name(row) },
      ],
      ...options,
    });
    this.state = state;
    this.opened = new Set(); // names of functions whose lines are shown
  }

  name(row) {
    const { find, callers } = this.options;
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'Find in the flame graph', onclick: () => find(row.name) }, row.name),
      callers ? element('button', { type: 'button', class: 'quiet', title: `Callers and callees of ${row.name}`, onclick: () => callers(row.name) }, 'callers') : null,
      meaningOf(row.name) ? element('button', { type: 'button', class: 'quiet', title: `What ${row.name} means`, onclick: () => showMeaning(row.name) }, 'what is this?') : null,
      this.placeOf(row));
  }

  // The hottest line. For a function with several it opens their list.
  placeOf(row) {
    const text = row.file ? `${row.file}:${row.line}` : row.module;
    if (!row.lines) {
      return text ? element('small', {}, text) : null;
    }
    return element('details', {
      open: this.opened.has(row.name), ontoggle: (event) => this.onLines(row, event.currentTarget),
    }, element('summary', { title: 'The hottest line; select to see the others' }, text || `line ${row.line}`));
  }

  onLines(row, place) {
    this.opened[place.open ? 'add' : 'delete'](row.name);
    if (place.open && !place.querySelector('ol')) {
      const more = row.line_count - row.lines.length;
      place.append(element('ol', {}, ...row.lines.map((line) => this.lineItem(row, line))),
        ...(more > 0 ? [element('small', {}, `${more} cooler lines are omitted`)] : []));
    }
  }

  lineItem(row, { file = row.file, line, self, total }) {
    const number = line ? String(line) : 'unknown line';
    return element('li', {}, element('b', {}, file ? `${file.replace(/^.*\//, '')}:${number}` : number),
      ` flat ${formatShare(self, this.state.profile.total)}, cum ${formatShare(total, this.state.profile.total)}`);
  }

  showProfile(profile) {
    this.state.profile = profile;
    const more = profile.functions - profile.top.length;
    this.show(profile.top, (more > 0 ? `; ${more} small ones are omitted` : '') +
      (profile.pruned ? `; ${profile.pruned} small frames are not drawn` : ''));
  }
}
