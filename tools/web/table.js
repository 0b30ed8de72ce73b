// A table with sortable columns and a text filter.
//
// columns: [{key, text, title, class, down (sorted largest first), value(row) to sort by, cell(row) a node or text}]
import { element } from './dom.js';
import { formatShare } from './format.js';

const SHOWN = 500;

function compareBy(value, down) {
  const sign = down ? -1 : 1;
  return (a, b) => {
    const x = value(a);
    const y = value(b);
    return x < y ? -sign : x > y ? sign : 0;
  };
}

// A cell with a value and a bar for its share.
export function shareCell(part, whole) {
  const cell = element('td', { class: 'share' }, formatShare(part, whole));
  cell.style.setProperty('--part', `${whole ? Math.min(100, 100 * Math.abs(part) / whole) : 0}%`);
  return cell;
}

export function columnHeading(text, name = null) {
  return element('th', { scope: 'col', class: name }, text);
}

// A table as it stands: cells of headings, and rows.
export function tableOf(headings, rows) {
  return element('table', {}, element('thead', {}, element('tr', {}, headings)), element('tbody', {}, rows));
}

export class Table {
  constructor(parent, options) {
    this.options = { onChange: () => {}, noun: 'rows', ...options };
    this.sort = { ...options.sort };
    this.rows = [];
    this.filter = element('input', {
      type: 'search', placeholder: options.filterText ?? 'Filter the table', size: String(Math.max(20, options.filterText?.length ?? 0)), 'aria-label': options.filterText ?? 'Filter the table',
      id: options.filterId ?? 'filter', oninput: () => { this.draw(); this.changed(); },
    });
    this.place = element('div', { class: 'table-scroll', id: options.id, tabindex: '0', role: 'region', 'aria-label': options.title });
    this.note = element('p', { class: 'note' });
    parent.append(element('div', { class: 'bar' }, element('h2', {}, options.title), this.filter), this.place, this.note);
  }

  set({ sort = '', filter = '' }) {
    const column = sort.replace(/^-/, '');
    this.sort = this.options.columns.some((one) => one.key === column) ? { column, down: sort.startsWith('-') } : { ...this.options.sort };
    this.filter.value = filter;
    this.draw();
  }

  changed() {
    const { column, down } = this.sort;
    const usual = column === this.options.sort.column && down === this.options.sort.down;
    this.options.onChange({ sort: usual ? '' : `${down ? '-' : ''}${column}`, filter: this.filter.value });
  }

  show(rows, note = '') {
    this.rows = rows;
    this.more = note;
    this.draw();
  }

  sortBy(column) {
    this.sort = { column: column.key, down: this.sort.column === column.key ? !this.sort.down : Boolean(column.down) };
    this.draw();
    this.place.querySelector('th[aria-sort] button').focus();
    this.changed();
  }

  heading(column) {
    const { sort } = this;
    const direction = sort.column === column.key ? (sort.down ? 'descending' : 'ascending') : null;
    const arrow = direction ? (sort.down ? ' ↓' : ' ↑') : '';
    return element('th', { scope: 'col', 'aria-sort': direction, class: column.class, title: column.title },
      element('button', { type: 'button', onclick: () => this.sortBy(column) }, column.text + arrow));
  }

  // is(row): the row is the one shown elsewhere; scroll: bring it into view
  mark(is, scroll = false) {
    this.options.chosen = is;
    const [row] = [...this.place.querySelectorAll('tbody tr')].filter((one, i) => this.current(one, this.shown[i]));
    if (row && scroll) {
      this.place.scrollTop = row.offsetTop - row.offsetHeight;
    }
  }

  current(line, row) {
    const chosen = Boolean(this.options.chosen?.(row));
    if (chosen) {
      line.setAttribute('aria-current', 'true');
    } else {
      line.removeAttribute('aria-current');
    }
    return chosen;
  }

  row(row) {
    const line = element('tr', {}, ...this.options.columns.map((column) => {
      const cell = column.cell(row);
      const made = cell instanceof HTMLTableCellElement ? cell : element('td', {}, cell);
      made.classList.add(...(column.class ? column.class.split(' ') : []));
      return made;
    }));
    this.current(line, row);
    return line;
  }

  wanted() {
    const text = this.filter.value.trim().toLowerCase();
    const column = this.options.columns.find((one) => one.key === this.sort.column);
    return this.rows.filter((row) => !text || this.options.textOf(row).toLowerCase().includes(text))
      .sort(compareBy(column.value, this.sort.down));
  }

  draw() {
    const rows = this.wanted();
    const shown = rows.slice(0, SHOWN);
    this.shown = shown;
    this.place.replaceChildren(tableOf(this.options.columns.map((column) => this.heading(column)), shown.map((row) => this.row(row))));
    this.note.textContent = `${shown.length} of ${rows.length} ${this.options.noun}${this.more ?? ''}`;
  }
}
