/** A Key is something the keyboard does. */
export interface Key { keys: string[]; shown: string; text: string; run: () => void }

const editable = "input, textarea, select, [contenteditable]";

/** keyOf names a key press as the table of keys does: "Shift+ArrowLeft", "]", "?". Empty where it is meant for something else. */
export function keyOf(e: KeyboardEvent): string {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return "";
  return e.shiftKey && e.key.length > 1 ? `Shift+${e.key}` : e.key;
}

/** press runs what a key press stands for, and tells whether it did. */
export function press(e: KeyboardEvent, table: Key[]): boolean {
  if ((e.target as Element | null)?.closest?.(editable) || document.querySelector("dialog[open]")) return false;
  const name = keyOf(e);
  const key = name && table.find((k) => k.keys.includes(name));
  if (!key) return false;
  e.preventDefault();
  key.run();
  return true;
}
