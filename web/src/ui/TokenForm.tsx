/** Asks for a token and says what happened to the last one. */

import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  hint: string;
  refused: string | undefined;
  onToken: (token: string) => void;
}

/** Whether the last token came from this form, which is gone while the token is tried. */
let tried = false;

export function TokenForm({ title, hint, refused, onToken }: Props) {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const token = field.current!.value.trim();
    if (!token) return;
    tried = true;
    onToken(token);
  };
  // Otherwise the next one would be typed into the page, whose keys do things.
  useEffect(() => {
    if (refused && tried) field.current!.focus();
    tried = false;
  }, [refused]);
  return (
    <form class="empty token" onSubmit={submit}>
      <h2>{title}</h2>
      <p id="token-hint">
        {hint.split("`").map((part, n) => (n % 2 ? <code key={n}>{part}</code> : part))}
      </p>
      <div class="line">
        <input
          ref={field}
          type="password"
          autoComplete="off"
          spellcheck={false}
          aria-label="Token"
          aria-keyshortcuts="/"
          placeholder="Token"
          aria-describedby="token-hint token-refused"
          aria-invalid={refused ? "true" : "false"}
        />
        <button type="submit" class="main-action">
          Unlock
        </button>
      </div>
      <p id="token-refused" class="bad" role="alert">
        {refused ?? ""}
      </p>
    </form>
  );
}
