"""What runs inside the page: small, silent, and nothing that the page could trip over."""

WATCH_TIMERS = """
(() => {
  if (window.__pilothouseTimers) return;
  const LONGEST_MS = 300;
  const TYPES = ['mousedown', 'mouseup', 'click', 'keydown', 'keyup', 'input', 'change'];
  const later = window.setTimeout.bind(window);
  let pending = 0, waiting = [];
  const hold = delay => {
    pending++;
    // Timers of one delay run in their order: when this one does, the page's own has run.
    later(() => {
      if (--pending) return;
      const done = waiting;
      waiting = [];
      done.forEach(resolve => resolve());
    }, delay);
  };
  // An editor may live in a frame of the page's own; the page is asked for all of them.
  let owner = null;
  try { owner = window.top === window ? null : window.top.__pilothouseTimers; } catch {}
  const counted = owner?.hold ?? hold;
  const note = event => {
    const before = window.setTimeout;
    if (!event.isTrusted || before.pilothouse) return;
    const noting = new Proxy(before, {
      get: (target, name) => name === 'pilothouse' ? true : Reflect.get(target, name),
      apply: (target, self, args) => {
        const id = Reflect.apply(target, self, args);
        const delay = typeof args[1] === 'number' ? args[1] : 0;
        if (delay <= LONGEST_MS) counted(delay);
        return id;
      },
    });
    // Only while the handlers of this event run: what a page plans otherwise is no step's doing.
    window.setTimeout = noting;
    later(() => { if (window.setTimeout === noting) window.setTimeout = before; });
  };
  for (const type of TYPES) addEventListener(type, note, {capture: true, passive: true});
  Object.defineProperty(window, '__pilothouseTimers', {value: {
    hold,
    pending: () => pending,
    rest: () => pending ? new Promise(resolve => waiting.push(resolve)) : null,
  }});
})();
"""
"""Counts the short timers that handlers of trusted events set: what a key or a click left to be
done a moment later, such as an editor that notes its selection. A person is never quick enough to
come before it."""

REST = "() => window.__pilothouseTimers?.rest()"
"""Ends when those timers have run."""

WATCH_CHANGES = """
(() => {
  if (window.__pilothouse) return;
  const MOST_BATCHES = 100, MOST_NODES = 12;
  const COUNTS = ['added', 'removed', 'changed'];
  let batches = [], password = false, chooser = null, typed = null;
  let isNew = true, isLoaded = document.readyState === 'complete';
  const now = () => performance.timeOrigin + performance.now();
  const empty = at => ({at, added: 0, removed: 0, changed: 0, nodes: []});
  const join = (one, other) => {
    one.at = other.at;
    for (const name of COUNTS) one[name] += other[name];
    one.nodes = [...one.nodes, ...other.nodes].slice(0, MOST_NODES);
    return one;
  };
  const watch = records => {
    if (!records.length) return;
    const batch = empty(now());
    for (const record of records) {
      if (record.type !== 'childList') { batch.changed++; continue; }
      batch.removed += record.removedNodes.length;
      for (const node of record.addedNodes) {
        batch.added++;
        if (batch.nodes.length < MOST_NODES) batch.nodes.push(new WeakRef(node));
      }
    }
    batches.push(batch);
    if (batches.length > MOST_BATCHES) batches.splice(0, 2, join(batches[0], batches[1]));
  };
  const observer = new MutationObserver(watch);
  const options = {subtree: true, childList: true, attributes: true, characterData: true};
  // A shadow root is a tree of its own. A proxy of the function is the function to whoever looks.
  const roots = [];
  let isArmed = false;
  const watchRoot = root => {
    if (isArmed) observer.observe(root, options);
    else roots.push(new WeakRef(root));
  };
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = new Proxy(attach, {apply: (target, self, given) => {
    const root = Reflect.apply(target, self, given);
    watchRoot(root);
    return root;
  }});
  const note = event => {
    const field = event.composedPath()[0];
    if (field?.type === 'password') password = true;
    if (field instanceof Element) typed = new WeakRef(field);
  };
  addEventListener('input', note, true);
  addEventListener('change', note, true);
  const value = field => {
    if (!field || field.type === 'file') return null;
    if (field.type === 'checkbox' || field.type === 'radio') return String(field.checked);
    if (field.type === 'select-multiple')
      return [...field.selectedOptions].map(option => option.value).join(', ');
    return field.value ?? field.closest?.('[contenteditable]')?.innerText ?? null;
  };
  addEventListener('click', event => {
    const field = event.composedPath()[0];
    if (field?.type === 'file' && field.localName === 'input') chooser = event;
  }, true);
  const arm = () => {
    isArmed = true;
    observer.observe(document, options);
    for (const weak of roots.splice(0)) if (weak.deref()) observer.observe(weak.deref(), options);
    // Those that the document was written with were attached by nobody.
    const walk = tree => {
      for (const node of tree.querySelectorAll('*')) if (node.shadowRoot) {
        observer.observe(node.shadowRoot, options);
        walk(node.shadowRoot);
      }
    };
    walk(document);
  };
  const reset = () => { batches = []; password = false; chooser = typed = null; };
  // Of a step that changed nothing there is next to nothing to tell; all that is told costs time.
  const terse = told => Object.fromEntries(Object.entries(told).filter(([, one]) =>
    one !== null && one !== 0 && one !== false && !(Array.isArray(one) && !one.length)));
  const textOf = node => (node.innerText ?? node.textContent ?? '').trim().slice(0, 100);
  const texts = nodes => {
    const found = [];
    for (const weak of nodes) {
      const node = weak.deref();
      if (!node || !node.isConnected || /^(SCRIPT|STYLE|LINK|META)$/.test(node.nodeName)) continue;
      const text = textOf(node);
      if (text) found.push(text);
      if (found.length === 3) break;
    }
    return found;
  };
  const sum = some => {
    const all = some.reduce(join, empty(0));
    return {added: all.added, removed: all.removed, changed: all.changed, texts: texts(all.nodes)};
  };
  const readOwn = (known, since) => {
    watch(observer.takeRecords());
    const early = batches.filter(batch => batch.at >= known && batch.at < since);
    const told = {...sum(batches.filter(batch => batch.at >= since)),
      earlier: early.length ? sum(early) : null, password,
      chooser: chooser !== null && !chooser.defaultPrevented, frames: 0,
      value: password ? null : value(typed?.deref())?.slice(0, 2000) ?? null};
    reset();
    return told;
  };
  const readFrames = (known, since, missing) => {
    const told = [];
    for (let at = 0; at < window.length; at++) {
      try { told.push(window[at].__pilothouse(known, since, true)); } catch { missing(); }
    }
    return told;
  };
  const add = (one, other) => {
    for (const name of COUNTS) one[name] += other[name];
    one.texts.push(...other.texts);
  };
  Object.defineProperty(window, '__pilothouse', {value: (known, since, isInner) => {
    const told = readOwn(known, since);
    const early = () => told.earlier ??= sum([]);
    for (const inner of readFrames(known, since, () => { told.frames++; })) {
      // Another document in a frame is a change of the page, but for those that it came with.
      if (inner.document !== undefined && isLoaded && inner.bornAt >= known) {
        const side = inner.bornAt < since ? early() : told;
        add(side, {...sum([]), added: 1, texts: inner.document ? [inner.document] : []});
      }
      add(told, inner);
      if (inner.earlier) add(early(), inner.earlier);
      told.frames += inner.frames;
      told.password ||= inner.password;
      told.chooser ||= inner.chooser;
      told.value = told.password ? null : told.value ?? inner.value;
    }
    if (!isInner) return terse({...told, at: now(),
      unfinished: (window.__pilothouseTimers?.pending() ?? 0) > 0,
      aim: window.__pilothouseAim?.told() ?? null});
    if (isNew && document.readyState !== 'loading') {
      isNew = false;
      told.document = document.body ? textOf(document.body) : '';
      told.bornAt = performance.timeOrigin;
    }
    return told;
  }});
  // Loading a page is no change of it: what counts begins when the document is there, and anew
  // when all that it is made of is.
  addEventListener('load', () => {
    observer.takeRecords();
    reset();
    readFrames(0, 0, () => {});
    isLoaded = true;
  }, {once: true});
  if (document.readyState === 'loading') addEventListener('DOMContentLoaded', arm, {once: true});
  else arm();
})();
"""
"""Counts what changes in a document, in its shadow roots and in its frames, before and since a
moment, keeps the first few texts that were added, and notices when a password is typed. `frames` is
the number of frames of other origins, which have to be asked themselves. Nothing, none and no are
left out of the answer."""

WATCH_POINTER = """
(() => {
  if (window.__pilothouseAim) return;
  const TYPES = ['mousedown', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu',
    'mouseover', 'dragstart', 'drop', 'gotpointercapture'];
  let targets = [], kinds = [], events = null, changed = false, moved = false;
  const take = records => {
    changed ||= records.length > 0;
    moved ||= records.some(record => record.type === 'childList');
  };
  const observer = new MutationObserver(take);
  const options = {subtree: true, childList: true, attributes: true, characterData: true};
  const has = type => events.some(([each]) => each === type);
  const note = event => {
    if (!events || !event.isTrusted) return;
    if (event.type === 'mousedown' && !has('mousedown')) {
      observer.takeRecords();
      changed = moved = false;
    }
    // A page that keeps the pointer for itself has done something with the press.
    if (event.type === 'gotpointercapture') changed = true;
    // What takes the final event may change the page, too, but that is no reason why it did.
    if (kinds.includes(event.type) && has('mousedown')) {
      take(observer.takeRecords());
      observer.disconnect();
    }
    // The whole way, because what is under the pointer may be taken out of the page by its event.
    if (events.length < 50) events.push([event.type, event.composedPath()]);
  };
  // Also for every step: a document that is opened anew, as popups are written, loses them.
  const listen = () => {
    for (const type of TYPES) addEventListener(type, note, {capture: true, passive: true});
  };
  listen();
  // An event from a closed shadow root shows no more of itself than the root's host.
  const isHidden = (node, target) => {
    let root = target.getRootNode();
    for (; root instanceof ShadowRoot; root = root.host.getRootNode())
      if (root.mode === 'closed' && root.host === node) return true;
    return false;
  };
  const reaches = (way, target) => way.includes(target) || isHidden(way[0], target) ||
    [...(target.labels ?? [])].some(label => way.includes(label));
  const describe = node => {
    if (!(node instanceof Element)) return node ? 'the document' : '';
    const id = node.id ? `#${node.id}` : '';
    const classes = [...node.classList].slice(0, 3).map(name => `.${name}`).join('');
    const text = (node.textContent ?? '').trim().replace(/\\s+/g, ' ').slice(0, 40);
    return node.tagName.toLowerCase() + id + classes + (text ? ` "${text}"` : '');
  };
  const judge = more => {
    const known = [...targets, ...more];
    if (!events || !known.length) return null;
    take(observer.takeRecords());
    observer.disconnect();
    const hits = way => known.some(target => reaches(way, target));
    const of = (...types) => events.filter(([type]) => types.includes(type)).map(([, way]) => way);
    const [down] = of('mousedown');
    const last = of(...kinds);
    const final = last.length ? (last.some(hits) ? 'hit' : 'missed') : '';
    return {
      down: down ? (hits(down) ? 'hit' : 'missed') : '',
      final,
      took: describe((down && !hits(down) ? down : final === 'missed' ? last.at(-1) : [])[0]),
      // A drag that nobody took has left things where they were, however it has marked them.
      changed: final || !has('dragstart') ? changed : moved,
      there: known.some(target => target.isConnected),
    };
  };
  Object.defineProperty(window, '__pilothouseAim', {value: {
    arm: (elements, wanted) => {
      [targets, kinds, events, changed, moved] = [elements, wanted, [], false, false];
      listen();
      for (const root of new Set([document, ...elements.map(element => element.getRootNode())]))
        observer.observe(root, options);
      return true;
    },
    begun: () => events?.some(([type, way]) => type === 'mousedown' ||
      (kinds.includes(type) && targets.some(target => reaches(way, target)))) ?? false,
    // A hit is done with; of a miss the selector is asked once more.
    told: () => {
      const told = judge([]);
      if (told?.final === 'hit' && told.down !== 'missed') [targets, events] = [[], null];
      return told;
    },
    check: elements => {
      const told = judge(elements);
      [targets, events] = [[], null];
      return told;
    },
  }});
})();
"""
"""Runs in every frame, before the page's own scripts."""

READ_CHANGES = "window.__pilothouse ? window.__pilothouse(%d, %d) : null"
"""Asks for the changes since two moments of the page's clock: what came before the first is known,
what came before the second is earlier than the step."""
READ_FRAME = "window.__pilothouse ? window.__pilothouse(%d, %d, true) : null"
"""The same of a frame, whose pointer's events are asked for apart."""

WITH_CHANGES = """
async __pilothouseMoments => {
  let value = (%s
  );
  if (typeof value === 'function') value = value();
  return [await value, window.__pilothouse ? window.__pilothouse(...__pilothouseMoments) : null];
}
"""
"""An expression or a function with what it changed, in one question instead of two. It is given the
moments, because the browser compiles no text twice that stays the same."""

OVERLAY_TEXT = """
() => {
  const vite = document.querySelector('vite-error-overlay');
  if (vite?.shadowRoot) {
    const part = name => vite.shadowRoot.querySelector(name)?.textContent?.trim() ?? '';
    return ['vite', [part('.message-body') || part('.message'), part('.file'), part('.frame')]
      .filter(Boolean).join('\\n')];
  }
  for (const portal of document.querySelectorAll('nextjs-portal')) {
    const dialog = portal.shadowRoot?.querySelector('[role="dialog"], [data-nextjs-dialog]');
    if (dialog) return ['next', dialog.textContent.trim()];
  }
  const frame = document.querySelector('#webpack-dev-server-client-overlay');
  const text = frame?.contentDocument?.body?.innerText?.trim();
  return text ? ['webpack', text] : null;
}
"""
"""The text of the error overlay of a dev server, which says more than any screenshot."""

HIT_TEST = """
element => {
  const describe = node => {
    if (!node) return '';
    const id = node.id ? '#' + node.id : '';
    const classes = [...node.classList].slice(0, 3).map(name => '.' + name).join('');
    return node.tagName.toLowerCase() + id + classes;
  };
  const box = element.getBoundingClientRect();
  const x = box.x + box.width / 2, y = box.y + box.height / 2;
  const top = document.elementFromPoint(x, y);
  const free = !element.isConnected || !top || top === element || element.contains(top) ||
    top.contains(element);
  return {
    element: describe(element),
    box: [Math.round(box.x), Math.round(box.y), Math.round(box.width), Math.round(box.height)],
    cover: free ? '' : describe(top),
    coverText: free ? '' : (top.innerText ?? '').trim().slice(0, 80),
    disabled: element.matches(':disabled') || element.getAttribute('aria-disabled') === 'true',
    visible: box.width > 0 && box.height > 0 &&
      getComputedStyle(element).visibility !== 'hidden',
  };
}
"""
"""Function that returns where an element is, and what would take a click on its middle."""

FIELD_VALUE = """
element => [
  String(element.value ?? (element.isContentEditable ? element.innerText : '')),
  element.tagName === 'TEXTAREA' || element.isContentEditable || element.ariaMultiLine === 'true',
]
"""
"""Function that returns what is typed into a field, and whether it takes several lines."""
