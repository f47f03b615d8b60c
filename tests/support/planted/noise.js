// Noise for a page: what goes wrong beside the fault, at times that the seed in the address decides.
// body[data-noisy] is set when each kind has been heard twice.
const asked = new URLSearchParams(location.search);
let state = Number(asked.get('seed') || 1) >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
};
const pause = ms => new Promise(over => setTimeout(over, ms));
const get = (path, id) => fetch(path, {headers: id ? {'x-request-id': id} : {}}).then(a => a.text());
const post = path => fetch(path, {method: 'POST', body: '{}'}).then(a => a.text());
const boom = text => { throw new TypeError(text); };
const done = () => { document.body.append(Object.assign(document.createElement('i'), {id: 'done'})); };

const rounds = {
  poll: () => get('/api/poll'),
  flaky: () => get('/api/flaky'),
  left: () => get('/api/left'),
  beacon: async () => { navigator.sendBeacon('/collect', 'seen'); },
  pixel: () => new Promise(over => {
    Object.assign(new Image(), {onerror: over}).src = '/pixel.gif?' + random();
  }),
  warnings: async () => {
    for (const _ of [1, 2]) console.error('Warning: each child in a list should have a "key" prop.');
  },
  socket: () => new Promise(over => {
    new WebSocket('ws://' + location.host + '/hmr').onerror = over;
  }),
  thrower: async () => { setTimeout(() => boom('ResizeObserver loop limit exceeded')); },
};
const wanted = (asked.get('noise') || '').split(',').filter(Boolean);
const heard = Object.fromEntries(wanted.map(name => [name, 0]));
const run = async name => {
  for (;;) {
    await rounds[name]().catch(() => 0);
    heard[name] += 1;
    if (Object.values(heard).every(times => times >= 2)) document.body.dataset.noisy = 'yes';
    await pause(30 + 120 * random());
  }
};
addEventListener('DOMContentLoaded', () => wanted.forEach(run));
