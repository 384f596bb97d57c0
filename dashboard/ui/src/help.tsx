import { useLayoutEffect, useRef } from "preact/hooks";
import type { Key } from "./keys";
import { bar, looks, type Theme } from "./paint";
import { Swatch } from "./swatch";

const pointer: [string, string][] = [
  ["Drag", "zoom to a stretch"],
  ["Shift + drag", "measure the time between two instants"],
  ["Ctrl + wheel", "zoom about the pointer; on the axis and the overview the wheel alone does"],
  ["Shift + wheel", "pan; so does dragging the axis"],
  ["Overview", "drag the part in view or its edges; double-click shows the whole run"],
];

/** Help lists what keys and pointer do, and what the lanes' states look like. */
export function Help({ keys, theme, onClose }: { keys: Key[]; theme: Theme; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog class="help" ref={dialog} aria-labelledby="help-title" data-testid="help" onClose={onClose} onClick={(e) => { if (e.target === dialog.current) onClose(); }}>
      <div class="help-body">
        <header><h2 id="help-title">Keys, pointer, and what is what</h2><button type="button" onClick={onClose}>Close</button></header>
        <dl class="keys">{keys.map((k) => <div key={k.shown}><dt>{k.shown.split(" ").map((s) => <kbd key={s}>{s}</kbd>)}</dt><dd>{k.text}</dd></div>)}</dl>
        <dl class="keys">{pointer.map(([what, text]) => <div key={what}><dt>{what}</dt><dd>{text}</dd></div>)}</dl>
        <ul class="states">
          {Object.entries(looks).filter(([state]) => state !== "command").map(([state, look]) => (
            <li key={state}><Swatch theme={theme} draw={(p) => bar(p, look, 0, 18, "")} /><b>{look.letter}</b> {state.startsWith("node") || state === "cordoned" ? `node ${look.label}` : look.label}</li>
          ))}
        </ul>
        <p class="faint">Brackets <b>[ ]</b> are a window's error bars: it began after the outer edge and no later than the inner one, and ended likewise. Hatched grey is time in which nothing was measured or watched: neither up nor down.</p>
      </div>
    </dialog>
  );
}
