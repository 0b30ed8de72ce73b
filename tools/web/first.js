// Requests what the first view needs while the other modules still load. The view's own requests get
// the same answers (api.js).
import { readAddress } from './address.js';
import { get } from './api.js';
import { profileQuery, startPaths, timelinePath } from './query.js';

const state = readAddress();
if (state.view === 'start') {
  startPaths(state).forEach((path) => get(path).catch(() => {}));
} else if (state.view === 'flame') {
  state.service ||= (await get('api/services').catch(() => null))?.services[0]?.service ?? '';
  for (const path of state.service ? [`api/profile?${profileQuery(state)}`, timelinePath(state), `api/stats?${profileQuery(state)}`] : []) {
    get(path).catch(() => {}); // the view reports errors
  }
}
