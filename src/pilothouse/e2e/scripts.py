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
      password: seen.password, frames: window.length};
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
