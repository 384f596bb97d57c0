import { useEffect, useRef, useState } from "preact/hooks";
import { decode, encode, type View } from "./view";

const rest = 150; // ms: while the reader drags, the address waits

/** useView keeps the view and the address's fragment the same, in both directions. */
export function useView(): [View, (change: (v: View) => View) => void] {
  const [view, setView] = useState(() => decode(location.hash));
  const written = useRef(location.hash.replace(/^#/, ""));
  useEffect(() => {
    const fragment = encode(view);
    if (fragment === written.current) return;
    const timer = setTimeout(() => {
      written.current = fragment;
      history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    }, rest);
    return () => clearTimeout(timer);
  }, [view]);
  useEffect(() => {
    const changed = () => {
      written.current = location.hash.replace(/^#/, "");
      setView(decode(location.hash));
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return [view, setView];
}
