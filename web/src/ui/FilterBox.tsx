/** The packets' filter, applied as soon as it can be read. What is wrong is shown where it stands. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../data/api.ts";

interface Props {
  applied: string;
  /** What the server said to the applied one. */
  refused: api.Refused | undefined;
  onApply: (filter: string) => void;
}

const SETTLED_MS = 200;

export function FilterBox({ applied, refused, onApply }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(applied);
  const [wrong, setWrong] = useState<api.Refused | undefined>();
  const trouble = text === applied ? (refused ?? wrong) : wrong;

  useEffect(() => {
    setWrong(undefined);
    if (!text.trim()) {
      onApply("");
      return;
    }
    const stopped = new AbortController();
    const timer = setTimeout(() => {
      api
        .checkFilter(text, stopped.signal)
        .then(() => onApply(text))
        .catch((error: unknown) => {
          if (error instanceof api.Refused && error.position >= 0) setWrong(error);
        });
    }, SETTLED_MS);
    return () => (clearTimeout(timer), stopped.abort());
  }, [text]);

  const submit = (event: Event) => {
    event.preventDefault();
    if (trouble && trouble.position >= 0)
      field.current!.setSelectionRange(trouble.position, text.length);
    onApply(text);
  };
  return (
    <form class="filter" role="search" onSubmit={submit}>
      <input
        ref={field}
        type="search"
        class="code"
        placeholder="method == POST && (url =~ /api/ || status >= 400)"
        aria-label="Filter packets"
        aria-keyshortcuts="/"
        aria-invalid={trouble ? "true" : "false"}
        aria-describedby="filter-trouble"
        spellcheck={false}
        autoComplete="off"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div id="filter-trouble" class="filter-trouble" role="status">
        {trouble && (
          <>
            {trouble.position >= 0 && (
              <span
                class="code caret"
                aria-hidden="true"
                style={{ paddingLeft: `${trouble.position}ch` }}
              >
                ↑
              </span>
            )}
            <span class="bad">{trouble.message}</span> <span class="quiet">{trouble.hint}</span>
          </>
        )}
      </div>
    </form>
  );
}
