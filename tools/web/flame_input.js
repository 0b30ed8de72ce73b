// Mouse, touch and keys of a flame graph.
import { hideTip } from './menu.js';

const DRAG = 4;
const STEP = 1.25; // of a turn of the wheel

function onKey(graph, event) {
  const down = graph.upright ? 'out' : 'in';
  const moves = { ArrowDown: down, ArrowUp: down === 'in' ? 'out' : 'in', ArrowLeft: 'left', ArrowRight: 'right' };
  const { current } = graph;
  if (!graph.layout || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  if (event.key in moves) {
    graph.pick(current ? step(graph, moves[event.key]) ?? current : graph.layout.root);
    const at = graph.canvas.reveal(graph.current);
    graph.tipAt(graph.current, at.x, at.y);
  } else if (event.key === 'Enter' && current) {
    hideTip();
    graph.zoomTo(current);
  } else if ((event.key.toLowerCase() === 'm' || event.key === 'ContextMenu' || (event.key === 'F10' && event.shiftKey)) && current?.parent) {
    graph.openMenu();
  } else if (event.key === 'Escape' && !graph.reset.disabled) {
    hideTip();
    graph.resetZoom();
  } else if (event.key.toLowerCase() === 'c' && current?.parent) {
    graph.copyName();
  } else {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

// A frame that can be seen, in one of four directions.
function step(graph, direction) {
  const { current, view, width } = graph;
  const visible = (node) => node && (Math.min(node.x1, view.x1) - Math.max(node.x0, view.x0)) / (view.x1 - view.x0) * width >= 1;
  const around = current.parent ? current.parent.children : [current];
  const at = around.indexOf(current);
  const moves = {
    in: () => current.children.find(visible),
    out: () => current.parent,
    left: () => around.slice(0, at).findLast(visible),
    right: () => around.slice(at + 1).find(visible),
  };
  return moves[direction]();
}

// With Ctrl the wheel zooms around the pointer. Without it the page scrolls.
function onWheel(graph, event) {
  if (!graph.layout || !(event.ctrlKey || event.metaKey)) {
    return;
  }
  event.preventDefault();
  const { view } = graph;
  const part = (event.clientX - graph.chart.getBoundingClientRect().left) / graph.width;
  const middle = view.x0 + part * (view.x1 - view.x0);
  const width = Math.min(1, Math.max(1e-7, (view.x1 - view.x0) * (event.deltaY > 0 ? STEP : 1 / STEP)));
  graph.zoomView({ x0: middle - part * width, x1: middle + (1 - part) * width });
}

// Dragging moves a zoomed graph sideways; a press without a movement is a click.
function onPress(graph, event) {
  if (event.button !== 0) {
    return;
  }
  const { view } = graph;
  const { clientX } = event;
  let moved = false;
  const move = (now) => {
    const by = (now.clientX - clientX) / graph.width * (view.x1 - view.x0);
    moved = moved || Math.abs(now.clientX - clientX) >= DRAG;
    if (moved && view.x1 - view.x0 < 1) {
      graph.zoomView({ x0: view.x0 - by, x1: view.x1 - by });
    }
  };
  const stop = (now) => {
    removeEventListener('pointermove', move);
    removeEventListener('pointerup', stop);
    removeEventListener('pointercancel', stop);
    const node = moved || now.type !== 'pointerup' ? null : graph.canvas.at(now);
    if (node) {
      hideTip();
      graph.zoomTo(node);
    }
  };
  addEventListener('pointermove', move);
  addEventListener('pointerup', stop);
  addEventListener('pointercancel', stop);
}

function onHover(graph, event) {
  const node = event.buttons ? null : graph.canvas.at(event);
  graph.chart.classList.toggle('over', Boolean(node));
  graph.tipAt(node, event.clientX, event.clientY);
  if (node && node !== graph.hovered) {
    graph.say(graph.options.describe(node));
  }
  graph.hovered = node;
}

function onMenu(graph, event) {
  const node = graph.canvas.at(event);
  if (node?.parent) {
    event.preventDefault();
    graph.pick(node);
    graph.openMenu({ x: event.clientX, y: event.clientY });
  }
}

export function listenToFrames(graph) {
  const { chart } = graph;
  chart.addEventListener('keydown', (event) => onKey(graph, event));
  chart.addEventListener('wheel', (event) => onWheel(graph, event), { passive: false });
  graph.canvas.canvas.addEventListener('pointerdown', (event) => onPress(graph, event));
  chart.addEventListener('pointermove', (event) => onHover(graph, event));
  chart.addEventListener('pointerleave', () => { hideTip(); graph.hovered = null; });
  chart.addEventListener('blur', () => hideTip());
  chart.addEventListener('contextmenu', (event) => onMenu(graph, event));
}
