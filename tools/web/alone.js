// Starts the viewer in the file of `edgeprof flame`, which contains its profile as JSON.
import { byId } from './dom.js';
import { formatTime, formatValue } from './format.js';
import { Viewer } from './viewer.js';

const profile = JSON.parse(byId('edgeprof-profile').textContent);
byId('title').textContent = `${profile.service || 'profile'} ${profile.kind}${profile.measure === 'count' ? ` ${profile.counts}` : ''}: ` +
  `${formatValue(profile.total, profile.unit)}${profile.from ? `, from ${formatTime(profile.from)}` : ''}`;
new Viewer(byId('viewer')).show(profile);
