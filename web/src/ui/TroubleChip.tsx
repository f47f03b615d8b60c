/** Shows what went wrong alone, in every list that can be sifted. */

import type { House } from "../data/house.ts";

export function TroubleChip({ house }: { house: House }) {
  return (
    <button
      type="button"
      class="chip"
      aria-pressed={house.sieve.troubles}
      aria-keyshortcuts="e"
      onClick={() => house.sift({ troubles: !house.sieve.troubles })}
    >
      Only trouble
    </button>
  );
}
