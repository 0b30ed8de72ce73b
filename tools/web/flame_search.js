// Search in a flame graph: text, or a regular expression; how much the frames found take; the next and the previous one.

// null: nothing is searched. Throws if the expression is none.
export function matcherOf(text, regex) {
  if (!text.trim()) {
    return null;
  }
  if (regex) {
    const pattern = new RegExp(text, 'i');
    return (name) => pattern.test(name);
  }
  const wanted = text.trim().toLowerCase();
  return (name) => name.toLowerCase().includes(wanted);
}

// The frames found, from left to right, and their value. A frame within another one of them counts once.
export function searchFrames({ rows }, match) {
  const nodes = [];
  const within = new Set();
  let sum = 0;
  for (const row of rows) {
    for (const node of row) {
      const outer = within.has(node.parent);
      const found = node.parent && match(node.data.name);
      if (found) {
        nodes.push(node);
        sum += outer ? 0 : node.data.value;
      }
      if (found || outer) {
        within.add(node);
      }
    }
  }
  nodes.sort((a, b) => a.x0 - b.x0 || a.depth - b.depth);
  return { nodes, sum, marks: new Set(nodes) };
}
