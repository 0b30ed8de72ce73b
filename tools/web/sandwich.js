// Callers and callees of one function, with all its calls taken together: callers above, callees below. With a server the
// sums include calls that are too small to draw.
import { element } from './dom.js';
import { FlameGraph } from './flame.js';
import { formatShare, formatValue } from './format.js';
import { Table, columnHeading, shareCell, tableOf } from './table.js';

// The lines of a file with their values, and with their text where the server has it.
function sourceOf({ file, found, lines }, { unit, all, folders }) {
  const cells = ({ self, total }) => (total === undefined ? [element('td', { colspan: '3' })]
    : [shareCell(total, all), element('td', {}, formatValue(total, unit)), element('td', {}, self ? formatValue(self, unit) : '–')]);
  const rows = lines.flatMap((row, i) => [
    ...(found && i && row.line > lines[i - 1].line + 1 ? [element('tr', { class: 'gap' }, element('td', { colspan: '5' }, '⋯'))] : []),
    element('tr', {}, ...cells(row), element('td', { class: 'number' }, row.line ? String(row.line) : 'unknown'), element('td', { class: 'name' }, row.text === undefined ? null : element('code', {}, row.text)))]);
  const headings = [['%', 'with what the line calls'], ['cum', 'with what the line calls'], ['flat', 'the line alone'], ['line', null]];
  return element('div', {}, element('h3', {}, file || '(no file is known)'),
    element('div', { class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': `Lines of ${file}` }, tableOf([
      ...headings.map(([text, title]) => element('th', { scope: 'col', title }, text)), columnHeading('source', 'name')], rows)),
    ...(found || !file ? [] : [element('p', { class: 'note' }, folders ? 'This file is not below the folders of `edgeprof serve --source DIR`.' : 'Its text is shown by `edgeprof serve --source DIR`.')]));
}

export class Sandwich {
  // open(name): goes on with another function; close(): back to the flame graph; tip(node, whole)
  constructor(parent, { open, close, tip }) {
    this.open = open;
    this.title = element('h2', {});
    this.hint = element('p', { class: 'empty', id: 'fn-hint', hidden: true });
    this.figures = element('p', { class: 'note', id: 'fn-figures' });
    const up = element('div', {});
    const down = element('div', {});
    const tables = element('div', { class: 'columns' });
    this.source = element('section', { id: 'fn-source', class: 'source', hidden: true });
    this.body = element('div', { class: 'stacked' }, this.figures, up, down, this.source, element('details', { id: 'fn-tables' }, element('summary', {}, 'As tables'), tables));
    parent.append(element('div', { class: 'bar' }, this.title, element('button', { type: 'button', id: 'fn-close', onclick: close }, 'Back to the flame graph')), this.hint, this.body);
    const options = { plain: true, describe: (node) => this.describe(node), tip: (node) => tip(node, this.data.total), callers: open,
      actions: [{ text: 'Callers and callees', title: 'Go on with this function', act: open }] };
    this.callers = new FlameGraph(up, { ...options, id: 'callers', title: 'Callers', upright: true });
    this.callees = new FlameGraph(down, { ...options, id: 'callees', title: 'Callees' });
    this.tables = ['callers', 'callees'].map((side) => this.table(tables, side));
  }

  table(parent, side) {
    const place = element('div', {});
    parent.append(place);
    return new Table(place, {
      id: `${side}-table`, filterId: `${side}-filter`, filterText: `Filter ${side}`, noun: side, title: side === 'callers' ? 'Called by' : 'Calls',
      sort: { column: 'value', down: true }, textOf: (row) => row.name,
      columns: [
        { key: 'value', text: '%', title: `of ${side === 'callers' ? 'all calls' : 'the function with callees'}`, down: true, value: (row) => row.value, cell: (row) => shareCell(row.value, this.data.total) },
        { key: 'figure', text: 'value', down: true, value: (row) => row.value, cell: (row) => formatValue(row.value, this.data.unit) },
        { key: 'name', text: 'function', class: 'name', value: (row) => row.name, cell: (row) => (row.none ? element('td', { class: 'name' }, element('i', {}, row.name))
          : element('td', { class: 'name' }, element('button', { type: 'button', onclick: () => this.open(row.name) }, row.name))) },
      ],
    });
  }

  // data: as api/source answers; null: not asked for
  showSource(data) {
    const files = (data?.files ?? []).filter((file) => file.file || file.lines.length > 1);
    this.source.hidden = files.length === 0;
    this.source.replaceChildren(...files.map((file) => sourceOf(file, data)));
  }

  describe({ data }) {
    const { all, total, unit } = this.data;
    return `${data.name}: ${formatValue(data.value, unit)}, ${formatShare(data.value, total)} of the function, ${formatShare(data.value, all)} of all`;
  }

  // data: as api/callers answers
  show(data) {
    this.data = data;
    const { unit, all, total, self } = data;
    this.title.textContent = `Callers and callees of ${data.function}`;
    this.hint.hidden = Boolean(total);
    this.hint.textContent = `${data.function} is in no stack of this range. Case matters.`;
    this.body.hidden = !total;
    if (!total) {
      return;
    }
    this.figures.textContent = `With callees ${formatValue(total, unit)}, ${formatShare(total, all)} of all; itself ${formatValue(self, unit)}, ${formatShare(self, all)} of all. Recursion counts once.`;
    const rest = (rows, name) => {
      const left = total - rows.reduce((sum, row) => sum + row.value, 0);
      return left > 0 ? [...rows, { name, value: left, none: true }] : rows;
    };
    const more = (count, rows) => (count > rows.length ? `; ${count - rows.length} small ones are omitted` : '');
    this.tables[0].show(rest(data.callers, '(no caller: root of the stack)'), more(data.caller_count, data.callers));
    this.tables[1].show(rest(data.callees, '(the function itself)'), more(data.callee_count, data.callees));
    this.callers.show(data.callers_tree);
    this.callees.show(data.callees_tree);
  }
}
