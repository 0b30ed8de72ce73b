// The table of a profile's functions: self (flat) and total (cum).
import { element } from '/dom.js';
import { formatValue } from '/format.js';
import { Table, shareCell } from '/table.js';

export class Functions extends Table {
  constructor(parent, options) {
    const state = { profile: null };
    const value = (row, key) => formatValue(row[key], state.profile.unit);
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
  }

  name(row) {
    const place = row.file ? `${row.file}:${row.line}` : row.module;
    const { find, callers } = this.options;
    return element('td', { class: 'name' },
      element('button', { type: 'button', title: 'Find in the flame graph', onclick: () => find(row.name) }, row.name),
      callers ? element('button', { type: 'button', class: 'quiet', title: `Callers and callees of ${row.name}`, onclick: () => callers(row.name) }, 'callers') : null,
      place ? element('small', {}, place) : null);
  }

  showProfile(profile) {
    this.state.profile = profile;
    const more = profile.functions - profile.top.length;
    this.show(profile.top, (more > 0 ? `; ${more} small ones are omitted` : '') +
      (profile.pruned ? `; ${profile.pruned} small frames are not drawn` : ''));
  }
}
