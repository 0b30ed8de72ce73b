// Run by page_views_test.py beside copies of the page's scripts: the real ones on the least of a document.
class Place {
  constructor() {
    this.children = [];
    this.attributes = {};
    this.clientWidth = 1000;
  }

  append(...more) {
    for (const child of more) {
      this.children.push(child);
    }
  }

  replaceChildren(...more) {
    this.children = [];
    this.append(...more);
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  addEventListener() {}

  contains() {
    return false;
  }
}

const make = () => new Place();
globalThis.document = { createElement: make, createElementNS: make, documentElement: make(), getElementById: make };
globalThis.ResizeObserver = class { observe() {} };

const count = Number(process.argv[2]);
const { Lanes } = await import('./lanes.js');
const { fillSelect } = await import('./dom.js');
const numbers = Array.from({ length: count }, (_, i) => i);
const lanes = new Lanes(make(), { onChoose() {} });
const samples = numbers.map((number) => ({ number, start: number - count, length: 1.5, thread: 0, kind: 'wait', name: '[lock]' }));
lanes.show({ samples, threads: ['worker'], span: null }, { from: -Infinity, to: Infinity });
const shown = lanes.place.children[0].children.filter((child) => child.attributes.class?.startsWith('moment')).length;
const select = make();
fillSelect(select, numbers, 0);
console.log(JSON.stringify({ whole: lanes.whole, shown, options: select.children.length }));
