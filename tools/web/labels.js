// The values of one label: the share of each, and how it developed. Opened on demand, because each label is a request.
import { get } from './api.js';
import { element } from './dom.js';
import { formatValue } from './format.js';
import { queryOf, windowOf } from './query.js';
import { selects } from './selector.js';
import { spark } from './spark.js';
import { columnHeading, shareCell, tableOf } from './table.js';

function labelRows(key, timeline, state, onFilter) {
  const all = timeline.series.reduce((sum, one) => sum + one.total, 0);
  return timeline.series.map((one) => element('tr', {},
    element('td', { class: 'name' }, one.rest ? `${timeline.groups - timeline.series.length + 1} others`
      : element('button', { type: 'button', title: `Only ${key}=${one.name}`, 'aria-pressed': String(selects(state.filter, key, one.name)), onclick: () => onFilter(key, one.name) }, one.name || '(none)')),
    shareCell(one.total, all),
    element('td', {}, formatValue(one.total, timeline.unit)),
    element('td', { class: 'graph' }, spark(one.values, `${one.rest ? 'others' : one.name} over time`))));
}

async function fillLabel(place, key, state, onFilter) {
  const timeline = await get(`api/timeline?${queryOf(state, windowOf(state), { group: key, series: '20', buckets: '60' })}`);
  place.replaceChildren(tableOf([columnHeading(key, 'name'), ...['share', 'value', 'over time'].map((text) => columnHeading(text))], labelRows(key, timeline, state, onFilter)));
}

const opened = new Set(); // keys; they stay open when another value is chosen

export function labelDetails(key, state, onFilter) {
  const place = element('div', {});
  return element('details', {
    class: 'label-values', 'data-key': key, open: opened.has(key),
    ontoggle: (event) => {
      opened[event.currentTarget.open ? 'add' : 'delete'](key);
      if (event.currentTarget.open && !place.firstChild) {
        fillLabel(place, key, state, onFilter).catch((error) => place.replaceChildren(element('p', { class: 'note' }, error.message)));
      }
    },
  }, element('summary', {}, `Share and trend of ${key}`), place);
}
