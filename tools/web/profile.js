// The view of one profile: key values, flame graph, functions, and its processes.
import { get } from './api.js';
import { element } from './dom.js';
import { processElement, profileFigures, qualityFigures } from './figures.js';
import { profileQuery } from './query.js';
import { unnamedElement } from './unnamed.js';
import { Viewer } from './viewer.js';

const PROCESSES = 100;

export class ProfileView {
  // app: app.js's object for views. whole: the profile covers a service, so processes and callers are available
  constructor(parent, app, whole = true) {
    this.app = app;
    this.whole = whole;
    this.figures = element('div', { id: 'figures', class: 'figures' });
    this.list = element('div', { id: 'process-list' });
    const place = element('div', { id: 'viewer' });
    this.unsampled = element('p', { id: 'unsampled', class: 'problem', hidden: '' });
    this.unnamed = element('div', {});
    parent.append(this.figures, ...(whole ? [this.unsampled] : []), place, this.unnamed);
    if (whole) {
      parent.append(element('details', { id: 'processes', class: 'card' }, element('summary', {}, 'Processes and losses'), this.list));
    }
    this.viewer = new Viewer(place, {
      load: (name) => get(`api/callers?${this.address(this.state)}&function=${encodeURIComponent(name)}`),
      source: (name) => get(`api/source?${this.address(this.state)}&function=${encodeURIComponent(name)}`),
      files: (name) => [
        ['pprof', 'pprof: go tool pprof, Grafana', 'pb.gz'], ['speedscope', 'speedscope', 'speedscope.json'], ['html', 'HTML: one file, needs no server', 'html'],
      ].map(([format, text, ending]) => ({ text, href: `api/export?${this.address(this.state)}&format=${format}`, file: `${name}.${ending}` })),
      link: () => app.link(),
      onChange: ({ filter, ...patch }) => app.change({ ...patch, ...(filter === undefined ? {} : { find: filter }) }, ['search', 'regex', 'sort', 'filter'].some((key) => key in patch) || filter !== undefined),
    });
  }

  address(state) {
    return profileQuery(state);
  }

  async show(state, still) {
    this.state = state;
    const query = this.address(state);
    const stats = this.whole ? get(`api/stats?${query}`) : Promise.resolve(null);
    stats.catch(() => {}); // the await reports errors
    const profile = await get(`api/profile?${query}`);
    if (!still()) {
      return;
    }
    this.app.labels(profile);
    if (!this.app.filled(profile.total > 0)) {
      return;
    }
    this.unsampled.hidden = true;
    this.figures.replaceChildren(...profileFigures(profile, this.whole));
    this.unnamed.replaceChildren(...[unnamedElement(profile)].filter(Boolean));
    this.viewer.set({ ...state, filter: state.find });
    if (profile !== this.shown) {
      this.shown = profile;
      await this.viewer.show(profile);
    } else {
      await this.viewer.showFunction();
    }
    const told = await stats;
    const processes = told?.processes;
    if (still() && processes) {
      this.unsampled.textContent = told.unsampled;
      this.unsampled.hidden = !told.unsampled;
      this.figures.replaceChildren(...profileFigures(profile, this.whole), ...qualityFigures(processes));
      this.list.replaceChildren(...processes.slice(0, PROCESSES).map(processElement));
    }
  }
}
