"""What runs inside the page: small, silent, and nothing that the page could trip over."""

WATCH_CHANGES = """
(() => {
  if (window.top !== window || window.__pilothouse) return;
  const seen = {added: 0, removed: 0, changed: 0, nodes: [], password: false};
  const watch = records => {
    for (const record of records) {
      if (record.type !== 'childList') { seen.changed++; continue; }
      seen.removed += record.removedNodes.length;
      for (const node of record.addedNodes) {
        seen.added++;
        if (seen.nodes.length < 12) seen.nodes.push(new WeakRef(node));
      }
    }
  };
  const observer = new MutationObserver(watch);
  const options = {subtree: true, childList: true, attributes: true, characterData: true};
  addEventListener('input', event => {
    if (event.composedPath()[0]?.type === 'password') seen.password = true;
  }, true);
  const arm = () => observer.observe(document, options);
  const reset = () => {
    seen.added = seen.removed = seen.changed = 0;
    seen.nodes = [];
    seen.password = false;
  };
  Object.defineProperty(window, '__pilothouse', {value: () => {
    watch(observer.takeRecords());
    const texts = [];
    for (const weak of seen.nodes) {
      const node = weak.deref();
      if (!node || !node.isConnected || /^(SCRIPT|STYLE|LINK|META)$/.test(node.nodeName)) continue;
      const text = (node.innerText ?? node.textContent ?? '').trim();
      if (text) texts.push(text.slice(0, 100));
      if (texts.length === 3) break;
    }
    const told = {added: seen.added, removed: seen.removed, changed: seen.changed, texts,
      password: seen.password, frames: window.length,
      aim: window.__pilothouseAim?.told() ?? null};
    reset();
    return told;
  }});
  // Loading a page is no change of it: what counts begins when the document is there, and anew
  // when all that it is made of is.
  addEventListener('load', () => { observer.takeRecords(); reset(); }, {once: true});
  if (document.readyState === 'loading') addEventListener('DOMContentLoaded', arm, {once: true});
  else arm();
})();
"""
"""Counts what changes in a document, keeps the first few texts that were added, and notices when a
password is typed (in the top document alone: `frames` says whether there are others)."""

WATCH_POINTER = """
(() => {
  if (window.__pilothouseAim) return;
  let targets = [], kinds = [], events = null, changed = false;
  const observer = new MutationObserver(() => { changed = true; });
  const options = {subtree: true, childList: true, attributes: true, characterData: true};
  const note = event => {
    if (!events || !event.isTrusted) return;
    if (event.type === 'mousedown' && !events.length) {
      observer.takeRecords();
      changed = false;
    }
    // The whole way, because what is under the pointer may be taken out of the page by its event.
    if (events.length < 50) events.push([event.type, event.composedPath()]);
  };
  for (const type of ['mousedown', 'mouseup', 'click', 'auxclick', 'contextmenu', 'mouseover',
    'drop']) addEventListener(type, note, {capture: true, passive: true});
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
    changed ||= observer.takeRecords().length > 0;
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
      changed,
      there: known.some(target => target.isConnected),
    };
  };
  Object.defineProperty(window, '__pilothouseAim', {value: {
    arm: (elements, wanted) => {
      [targets, kinds, events, changed] = [elements, wanted, [], false];
      observer.observe(document, options);
      return true;
    },
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

READ_CHANGES = "window.__pilothouse ? window.__pilothouse() : null"

WITH_CHANGES = """
(async () => {
  let value = (%s
  );
  if (typeof value === 'function') value = value();
  return [await value, window.__pilothouse ? window.__pilothouse() : null];
})()
"""
"""An expression or a function with what it changed, in one question instead of two."""

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
"""Where an element is, and what would take a click on its middle."""
