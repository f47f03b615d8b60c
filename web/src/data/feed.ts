/** All that is known of one agent's timeline. */

import { Exchanges } from "../logic/exchanges.ts";
import { Rows } from "../logic/rows.ts";
import type { Rows as Told } from "../model.ts";

export class Feed {
  readonly rows = new Rows();
  readonly exchanges = new Exchanges(this.rows);
  /** Where the stream goes on after a break. */
  cursor = "";
  /** Rows that had left the server's rings before they were read. */
  missed = 0;

  take({ rows, cursor, missed }: Told): void {
    for (const row of rows) this.rows.push(row);
    this.cursor = typeof cursor === "string" ? cursor : JSON.stringify(cursor);
    for (const many of Object.values(missed ?? {})) this.missed += many;
  }
}
