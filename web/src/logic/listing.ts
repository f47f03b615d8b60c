/** Which rows a list shows, in the order of their clock. */

import type { Lane, Row } from "../model.ts";
import type { Rows } from "./rows.ts";

export interface Sieve {
  lanes: ReadonlySet<Lane>;
  /** Only what went wrong. */
  troubles: boolean;
  /** Case does not matter. */
  text: string;
}

const SLICE = 2_000;
/** Rows that are unpacked at a time while a text is looked for: a few milliseconds of work. */

export function matches(row: Row, text: string): boolean {
  return `${row.text}\n${row.url ?? ""}\n${row.key}`.toLowerCase().includes(text);
}

/** The numbers of the rows that pass a sieve. Grows with the rows, in bounded slices of work. */
export class Listing {
  #numbers = new Uint32Array(1024);
  #start = 0;
  #end = 0;
  #sieved = 0;
  readonly #rows: Rows;
  readonly #sieve: Sieve;
  readonly #text: string;

  constructor(rows: Rows, sieve: Sieve) {
    this.#rows = rows;
    this.#sieve = sieve;
    this.#text = sieve.text.trim().toLowerCase();
    this.#sieved = rows.first;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  /** The row number at a place of the list. */
  number(place: number): number {
    return this.#numbers[this.#start + place]!;
  }

  /** Take in what has come; false when there is more to do, in another slice. */
  update(): boolean {
    const rows = this.#rows;
    while (this.#start < this.#end && this.#numbers[this.#start]! < rows.first) this.#start++;
    this.#sieved = Math.max(this.#sieved, rows.first);
    const until = this.#text ? Math.min(rows.next, this.#sieved + SLICE) : rows.next;
    for (; this.#sieved < until; this.#sieved++) {
      if (this.#passes(this.#sieved)) this.#insert(this.#sieved);
    }
    return this.#sieved === rows.next;
  }

  /** Where a row would stand. */
  place(n: number): number {
    const at = this.#rows.at(n);
    let low = this.#start;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >> 1;
      const found = this.#numbers[middle]!;
      if (this.#rows.at(found) < at || (this.#rows.at(found) === at && found < n)) low = middle + 1;
      else high = middle;
    }
    return low - this.#start;
  }

  /** Where a row stands, -1 if it is not listed. */
  find(n: number): number {
    const place = n < 0 ? -1 : this.place(n);
    return place >= 0 && place < this.length && this.number(place) === n ? place : -1;
  }

  #passes(n: number): boolean {
    if (!this.#sieve.lanes.has(this.#rows.lane(n))) return false;
    if (this.#sieve.troubles && this.#rows.level(n) !== "error" && this.#rows.level(n) !== "warn") {
      return false;
    }
    return !this.#text || matches(this.#rows.get(n)!, this.#text);
  }

  /** Sources are read one after the other, so a row may be a little older than the last one. */
  #insert(n: number): void {
    if (this.#end === this.#numbers.length) this.#grow();
    const at = this.#rows.at(n);
    let place = this.#end;
    while (place > this.#start && this.#rows.at(this.#numbers[place - 1]!) > at) place--;
    this.#numbers.copyWithin(place + 1, place, this.#end);
    this.#numbers[place] = n;
    this.#end++;
  }

  #grow(): void {
    const kept = this.#numbers.subarray(this.#start, this.#end);
    const larger = new Uint32Array(Math.max(1024, kept.length * 2));
    larger.set(kept);
    this.#numbers = larger;
    this.#end = kept.length;
    this.#start = 0;
  }
}
