// Other trees made of a profile's tree: without a function, inverted, or callers and callees of one function. All are made
// in the same way: each stack becomes another stack, and the new tree is their sum.
//
// A tree: {name, value (with callees), self, count (of samples), module, file, line, children}. The server leaves out the smallest calls; their
// values stay in their callers' values only. So how many samples a part of a caller's value has may be unknown: NaN.

const LEFT_OUT = { name: '[too small to draw]' };

function newTree() {
  return { name: 'all', value: 0, self: 0, count: 0, children: [], byName: new Map() };
}

function childOf(parent, frame) {
  let child = parent.byName.get(frame.name);
  if (!child) {
    child = { ...frame, value: 0, self: 0, count: 0, children: [], byName: new Map() };
    parent.byName.set(frame.name, child);
    parent.children.push(child);
  }
  return child;
}

// Adds a stack, outermost frame first. self: whether the value is the innermost function's own.
function addStack(tree, stack, value, self, count) {
  let at = tree;
  at.value += value;
  at.count += count;
  for (const frame of stack) {
    at = childOf(at, frame);
    at.value += value;
    at.count += count;
  }
  at.self += self ? value : 0;
}

// Calls visit(stack, value, self, count) for each stack with a value of its own. Without recursion: stacks may be deep.
function eachStack(tree, visit) {
  const stack = [];
  const open = [{ node: tree, depth: 0 }];
  for (let now = open.pop(); now; now = open.pop()) {
    const { node, depth } = now;
    stack.length = Math.max(0, depth - 1);
    if (depth) {
      stack.push(node);
    }
    const children = node.children ?? [];
    const below = children.reduce((sum, child) => sum + child.value, 0);
    const self = Math.min(node.self ?? node.value - below, node.value);
    const rest = node.value - below - self;
    const count = self > 0 && rest > 0 ? NaN : children.reduce((left, child) => left - child.count, node.count);
    if (self > 0) {
      visit(stack, self, true, count);
    }
    if (rest > 0) {
      visit(stack, rest, false, count);
    }
    for (let i = children.length - 1; i >= 0; i--) {
      open.push({ node: children[i], depth: depth + 1 });
    }
  }
}

// change(stack) -> another stack, or null to leave it out
function rebuild(tree, change) {
  const made = newTree();
  eachStack(tree, (stack, value, self, count) => {
    const changed = change(stack, self);
    if (changed) {
      addStack(made, changed, value, self, count);
    }
  });
  return made;
}

export function invert(tree) {
  return rebuild(tree, (stack, self) => (self ? [...stack].reverse() : [LEFT_OUT]));
}

function withoutRecursion(stack, name) {
  const first = stack.findIndex((frame) => frame.name === name);
  const last = stack.findLastIndex((frame) => frame.name === name);
  return first === last ? stack : [...stack.slice(0, first + 1), ...stack.slice(last + 1)];
}

function moduleAsOne(stack, module) {
  const made = [];
  for (const frame of stack) {
    if (frame.module !== module) {
      made.push(frame);
    } else if (made.at(-1)?.module !== module) {
      made.push({ name: module, module });
    }
  }
  return made;
}

// What the menu of a frame can do to the graph: [name of the change, name of the function or module].
export const CHANGES = {
  focus: { text: 'only stacks with', stack: (stack, name) => (stack.some((frame) => frame.name === name) ? stack : null) },
  hide: { text: 'without', stack: (stack, name) => stack.filter((frame) => frame.name !== name) },
  recursion: { text: 'no recursion of', stack: withoutRecursion },
  module: { text: 'as one frame:', stack: moduleAsOne },
};

export function applyChanges(tree, changes) {
  return changes.reduce((now, [change, name]) => rebuild(now, (stack) => CHANGES[change].stack(stack, name)), tree);
}

// Changes in an address. What cannot be read is no change.
export function readChanges(text) {
  try {
    const changes = JSON.parse(text || '[]');
    return Array.isArray(changes) ? changes.filter((one) => Array.isArray(one) && Object.hasOwn(CHANGES, one[0]) && typeof one[1] === 'string') : [];
  } catch {
    return [];
  }
}

// Callers and callees of a function as api/callers answers them; of recursive calls the outermost counts.
export function callersOf(tree, name) {
  const outermost = (stack) => stack.findIndex((frame) => frame.name === name);
  const only = (change) => rebuild(tree, (stack) => (outermost(stack) < 0 ? null : change(stack, outermost(stack))));
  const root = (made) => made.children[0] ?? { ...made, name };
  const callees = only((stack, at) => stack.slice(at));
  const callers = only((stack, at) => stack.slice(0, at + 1).reverse());
  let self = 0;
  eachStack(tree, (stack, value, own) => { self += own && stack.at(-1)?.name === name ? value : 0; });
  const found = { callers: root(callers), callees: root(callees) };
  return {
    function: name, all: tree.value, total: callees.value, self, callers_tree: found.callers, callees_tree: found.callees,
    callers: found.callers.children, caller_count: found.callers.children.length, callees: found.callees.children, callee_count: found.callees.children.length,
  };
}
