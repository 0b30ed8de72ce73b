// What the wheel does to a span of time: with Ctrl it zooms around the pointer; with Shift, or sideways, it moves the span.
const TURN = 1.25;

// part: of the width, where the pointer is; least: the shortest length. null: the page scrolls
export function turned(event, { from, to }, part, least) {
  const sideways = event.deltaX || (event.shiftKey ? event.deltaY : 0);
  if (!event.ctrlKey && !event.metaKey && !sideways) {
    return null;
  }
  event.preventDefault();
  const length = to - from;
  const longer = sideways ? length : Math.max(least, length * (event.deltaY > 0 ? TURN : 1 / TURN));
  const start = from + part * (length - longer) + (sideways ? Math.sign(sideways) * length / 10 : 0);
  return { from: start, to: start + longer, moved: Boolean(sideways) };
}
