/** Requests of the browser put together from the rows that tell of them. */

import type { Row } from "../model.ts";
import { hash, type Rows } from "./rows.ts";

/** An exchange in numbers; all times are epoch milliseconds, 0 when not there yet. */
export interface Exchange {
  /** The row of the request, or the first that told of it. */
  row: number;
  /** The newest row. */
  last: number;
  began: number;
  answered: number;
  ended: number;
  status: number;
  failed: boolean;
}

const COLUMNS = 7;
const [ROW, LAST, BEGAN, ANSWERED, ENDED, STATUS, FAILED] = [0, 1, 2, 3, 4, 5, 6] as const;

/** Every exchange of an agent in the order in which they began, in one typed table. */
export class Exchanges {
  #table = new Float64Array(COLUMNS * 256);
  /** Open addressing: hash of the request's id, and its place in the table plus one. */
  #slots = new Uint32Array(2048);
  #read = 0;
  #first = 0;
  length = 0;
  readonly #rows: Rows;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Take in the rows that have come. */
  update(): void {
    this.#read = Math.max(this.#read, this.#rows.first);
    for (; this.#read < this.#rows.next; this.#read++) {
      if (this.#rows.lane(this.#read) === "network" && this.#rows.exchange(this.#read)) {
        this.#take(this.#read, this.#rows.get(this.#read)!);
      }
    }
  }

  /** The oldest whose request is still kept. */
  get first(): number {
    while (this.#first < this.length && this.#cell(this.#first, ROW) < this.#rows.first) {
      this.#first++;
    }
    return this.#first;
  }

  get(place: number): Exchange {
    return {
      row: this.#cell(place, ROW),
      last: this.#cell(place, LAST),
      began: this.#cell(place, BEGAN),
      answered: this.#cell(place, ANSWERED),
      ended: this.#cell(place, ENDED),
      status: this.#cell(place, STATUS),
      failed: this.#cell(place, FAILED) === 1,
    };
  }

  /** The newest exchange of a request's id, -1 for none. */
  find(req: string): number {
    return this.#slots[this.#slot(hash(req), req) + 1]! - 1;
  }

  #cell(place: number, column: number): number {
    return this.#table[place * COLUMNS + column]!;
  }

  #take(n: number, row: Row): void {
    let place = this.find(row.req!);
    // A redirect sends a new request under the same id: it is an exchange of its own.
    if (place < 0 || row.phase === "request") place = this.#add(n, row);
    const base = place * COLUMNS;
    this.#table[base + LAST] = n;
    if (row.status) this.#table[base + STATUS] = row.status;
    if (row.phase === "response") this.#table[base + ANSWERED] ||= row.at;
    if (row.phase === "end" || row.phase === "failed") this.#table[base + ENDED] = row.at;
    if (row.phase === "failed") this.#table[base + FAILED] = 1;
  }

  #add(n: number, row: Row): number {
    const place = this.length++;
    if ((place + 1) * COLUMNS > this.#table.length) {
      const larger = new Float64Array(this.#table.length * 2);
      larger.set(this.#table);
      this.#table = larger;
    }
    this.#table[place * COLUMNS + ROW] = n;
    this.#table[place * COLUMNS + BEGAN] = row.at;
    if (this.length * 4 > this.#slots.length) this.#spread();
    const key = hash(row.req!);
    this.#file(this.#slot(key, row.req!), key, place);
    return place;
  }

  #file(slot: number, key: number, place: number): void {
    this.#slots[slot] = key;
    this.#slots[slot + 1] = place + 1;
  }

  /** The slot of a request, or the free one where it belongs; without `req`, a free one. */
  #slot(key: number, req?: string): number {
    const mask = this.#slots.length - 1;
    let slot = (key * 2) & mask;
    while (this.#slots[slot + 1] && !(req && this.#slots[slot] === key && this.#is(slot, req))) {
      slot = (slot + 2) & mask;
    }
    return slot;
  }

  /** Two ids may have one hash, so the row itself is asked, as long as it is kept. */
  #is(slot: number, req: string): boolean {
    const row = this.#rows.get(this.#cell(this.#slots[slot + 1]! - 1, ROW));
    return !row || row.req === req;
  }

  #spread(): void {
    const old = this.#slots;
    this.#slots = new Uint32Array(old.length * 2);
    for (let at = 0; at < old.length; at += 2) {
      if (old[at + 1]) this.#file(this.#slot(old[at]!), old[at]!, old[at + 1]! - 1);
    }
  }
}
