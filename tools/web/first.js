// Requests what the first view needs, before the rest of the page's script runs. The view's own requests get the same
// answers (api.js).
import { readAddress } from './address.js';
import { get } from './api.js';
import { profileQuery, startPaths, timelinePath } from './query.js';

const askEarly = (path) => get(path).catch(() => null); // the view reports errors

async function askFirst(state) {
  if (state.view === 'start') {
    startPaths(state).forEach(askEarly);
  } else if (state.view === 'flame') {
    state.service ||= (await askEarly('api/services'))?.services[0]?.service ?? '';
    (state.service ? [`api/profile?${profileQuery(state)}`, timelinePath(state), `api/stats?${profileQuery(state)}`] : []).forEach(askEarly);
  }
}

askFirst(readAddress());
