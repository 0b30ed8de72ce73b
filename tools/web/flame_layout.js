// Places the frames of a tree: rows of frames by depth, each from x0 to x1, parts of the width of the root.

// order: 'name' sorts by name, otherwise the largest frame is first
export function layOut(tree, order) {
  const first = order === 'name' ? (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) : (a, b) => b.value - a.value;
  const root = { data: tree, parent: null, depth: 0, x0: 0, x1: 1, children: [] };
  const rows = [];
  for (let row = [root]; row.length; row = row.flatMap((node) => node.children)) {
    rows.push(row);
    for (const node of row) {
      const { children, value } = node.data;
      const scale = value > 0 ? (node.x1 - node.x0) / value : 0;
      let x = node.x0;
      for (const data of children ? [...children].sort(first) : []) {
        const x1 = Math.min(node.x1, x + data.value * scale);
        node.children.push({ data, parent: node, depth: node.depth + 1, x0: x, x1, children: [] });
        x = x1;
      }
    }
  }
  return { root, rows };
}

// The first frame of a row that ends behind x, by halving.
export function firstBehind(row, x) {
  let low = 0;
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].x1 > x) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// How many rows have a frame between x0 and x1: a frame lies below its caller, so the first empty row ends them.
export function rowsWithin(rows, { x0, x1 }) {
  const end = rows.findIndex((row) => !(row[firstBehind(row, x0)]?.x0 < x1));
  return end < 0 ? rows.length : end;
}

export function frameAt(rows, depth, x) {
  const row = rows[depth] ?? [];
  const node = row[firstBehind(row, x)];
  return node && node.x0 <= x ? node : null;
}

// A frame in an address: its depth and name.
export function placeOf(node) {
  return node?.parent ? `${node.depth}:${node.data.name}` : '';
}

// The widest frame with this name at this depth.
export function frameOf(rows, text) {
  const colon = text.indexOf(':');
  const name = text.slice(colon + 1);
  const found = colon > 0 ? (rows[Number(text.slice(0, colon))] ?? []).filter((node) => node.data.name === name) : [];
  return found.reduce((best, node) => (best && best.data.value >= node.data.value ? best : node), null);
}
