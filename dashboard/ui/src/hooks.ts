import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { dark, light, type Theme } from "./paint";

/** useTheme follows what the reader's system prefers. */
export function useTheme(): Theme {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isDark ? dark : light;
}

/** useWidth measures an element and follows its size. */
export function useWidth<T extends Element>(): [RefObject<T | null>, number] {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** Rows in view of a scrolled list: only these are in the document, however long the list is. */
export interface Visible<T> { ref: RefObject<T | null>; first: number; last: number; onScroll: () => void }

/** useVisible tells which rows of a list with equally tall rows are in view. */
export function useVisible<T extends HTMLElement>(rows: number, rowHeight: number): Visible<T> {
  const ref = useRef<T>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const spare = 8; // rows above and below, so that scrolling shows no gaps
  const first = Math.max(0, Math.min(rows - 1, Math.floor(top / rowHeight)) - spare);
  return {
    ref, first,
    last: Math.min(rows, Math.ceil((top + height) / rowHeight) + spare),
    onScroll: () => setTop(ref.current?.scrollTop ?? 0),
  };
}
