/** The side panel of a view, and its parts. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

interface PanelProps {
  title: string;
  /** What tools call it; a click copies it. */
  name: string;
  note: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Panel({ title, name, note, onClose, children }: PanelProps) {
  return (
    <aside class="panel" aria-label={`${title} ${name}`}>
      <header>
        <h2>{title}</h2>
        <Copied text={name} />
        <span class="quiet">{note}</span>
        <span class="spring" />
        <button
          type="button"
          class="plain"
          aria-label="Close"
          title="Close (Esc)"
          onClick={onClose}
        >
          ✕
        </button>
      </header>
      <div class="panel-body" tabIndex={0} role="region" aria-label="Detail">
        {children}
      </div>
    </aside>
  );
}

export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="section">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Copied({ text }: { text: string }) {
  const [copied, setCopied] = useState("");
  const copy = () => void navigator.clipboard?.writeText(text).then(() => setCopied(text));
  return (
    <button type="button" class="key" title="Copy, to name it to the agent" onClick={copy}>
      {text}
      <span class="quiet">{copied === text ? " copied" : ""}</span>
    </button>
  );
}
