// What the menu of a frame offers.
import { copyText } from './dom.js';
import { meaningOf, showMeaning } from './meaning.js';

function stackText(node) {
  const names = [];
  for (let at = node; at.parent; at = at.parent) {
    names.push(at.data.name);
  }
  return names.join('\n');
}

export function frameMenu(graph, node) {
  const { name, module } = node.data;
  const { callers } = graph.options;
  const copy = (what, text) => copyText(text).then(() => graph.say(`Copied: ${what}`));
  const changes = graph.options.plain || graph.options.color ? [] : [
    { text: 'Focus: only stacks with this function', act: () => graph.change('focus', name) },
    { text: 'Hide this function', act: () => graph.change('hide', name) },
    { text: 'Collapse its recursion', act: () => graph.change('recursion', name) },
    ...(module ? [{ text: `Collapse module ${module}`, act: () => graph.change('module', module) }] : []),
    { text: 'Highlight all its frames', act: () => graph.find(name) },
  ];
  return [
    ...(meaningOf(name) ? [{ text: `What ${name} means`, act: () => showMeaning(name) }] : []),
    { text: 'Zoom to this frame', act: () => graph.zoomTo(node) },
    ...(callers ? [{ text: 'Callers and callees', act: () => callers(name) }] : []),
    ...changes,
    { text: 'Copy name', act: () => copy(name, name) },
    { text: 'Copy stack', act: () => copy('the stack, innermost function first', stackText(node)) },
  ];
}
