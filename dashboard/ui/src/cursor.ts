import type { Ns } from "./model";

/** Tell says in a few words what a row shows at an instant. */
export type Tell = (at: Ns) => string;

/**
 * Cursor is the instant that all rows tell about: where the pointer is, or where the keyboard put it. It moves
 * without anything being drawn anew; only texts change.
 */
export class Cursor {
  at: Ns | undefined;
  /** where a measurement by keyboard began */
  mark: Ns | undefined;
  private readonly cells = new Map<HTMLElement, Tell>();
  private readonly listeners = new Set<() => void>();

  moveTo(at: Ns | undefined): void {
    this.at = at;
    this.refresh();
  }

  /** markAt begins a measurement, or ends it with undefined. */
  markAt(mark: Ns | undefined): void {
    this.mark = mark;
    this.refresh();
  }

  /** refresh says everything again, after the text has changed. */
  refresh(): void {
    for (const [cell, tell] of this.cells) this.say(cell, tell);
    for (const listener of this.listeners) listener();
  }

  /** tellIn keeps a cell's text to what tell says; the returned function ends that. */
  tellIn(cell: HTMLElement, tell: Tell): () => void {
    this.cells.set(cell, tell);
    this.say(cell, tell);
    return () => this.cells.delete(cell);
  }

  /** onMove calls listener after each move; the returned function ends that. */
  onMove(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private say(cell: HTMLElement, tell: Tell): void {
    const text = this.at === undefined ? "" : tell(this.at);
    if (cell.textContent !== text) cell.textContent = text;
  }
}
