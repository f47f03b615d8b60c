/** The keyboard, in a dialog. */

import { useEffect, useRef } from "preact/hooks";
import { BINDINGS } from "../logic/keys.ts";

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current!.showModal();
    return () => (before as HTMLElement | null)?.focus?.();
  }, []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose}>
      <h2 id="help-title">Keyboard</h2>
      <dl>
        {BINDINGS.map(({ shown, says }) => (
          <div key={shown}>
            <dt>
              {shown.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{says}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </dialog>
  );
}
