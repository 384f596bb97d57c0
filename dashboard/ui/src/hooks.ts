import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { dark, light, type Theme } from "./paint";
import type { Run } from "./run";

/** usePrinting tells whether the page is being put on paper. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const [before, after] = [() => setPrinting(true), () => setPrinting(false)];
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    return () => {
      removeEventListener("beforeprint", before);
      removeEventListener("afterprint", after);
    };
  }, []);
  return printing;
}

/** useTheme is the theme the reader chose, or what the system prefers; paper is light. */
export function useTheme(chosen: "system" | "light" | "dark"): Theme {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(query.matches);
  const printing = usePrinting();
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  const theme = !printing && (chosen === "dark" || (chosen === "system" && isDark)) ? dark : light;
  useLayoutEffect(() => { document.documentElement.dataset["theme"] = theme.name; }, [theme]);
  return theme;
}

/** useClock ticks once a second while it is wanted. */
export function useClock(wanted: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!wanted) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [wanted]);
  return now;
}

const screenful = 300; // px about the window in which rows are drawn, so that scrolling shows no gaps

/** One observer for all elements: each has a function that is told whether it is near what is on the screen. */
const nearby = new WeakMap<Element, (near: boolean) => void>();
const observer = new IntersectionObserver((entries) => {
  for (const e of entries) nearby.get(e.target)?.(e.isIntersecting);
}, { rootMargin: `${screenful}px 0px` });

/** useNear tells whether an element is on the screen, or nearly so. Where nobody asked, and on paper, everything is. */
export function useNear(ref: RefObject<Element | null>, asked: boolean): boolean {
  const [near, setNear] = useState(false);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element || !asked) return;
    nearby.set(element, setNear);
    observer.observe(element);
    return () => observer.unobserve(element);
  }, [asked]);
  return usePrinting() || !asked || near;
}

const paperWidth = 970; // px: what A4 and Letter have in landscape, between margins

/** useDetails has the page ask for parts of a run that its state does not hold, while they are shown. Without a run it asks for nothing. */
export function useDetails(run: Run | undefined, ...parts: string[]): void {
  useEffect(() => {
    if (!run?.many) return;
    const ends = parts.map((p) => run.want(p));
    return () => ends.forEach((end) => end());
  }, [run, run?.many, ...parts]);
}

/** useWidth measures an element and follows its size; on paper it is as wide as that. */
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
  return [ref, usePrinting() ? paperWidth : width];
}

/** Rows in view of a scrolled list: only these are in the document, however long the list is. */
export interface Visible<T> { ref: RefObject<T | null>; first: number; last: number; onScroll: () => void }

const mostOnPaper = 400;

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
  const printing = usePrinting();
  if (printing) return { ref, first: 0, last: Math.min(rows, mostOnPaper), onScroll() {} };
  const spare = 8; // rows above and below, so that scrolling shows no gaps
  const first = Math.max(0, Math.min(rows - 1, Math.floor(top / rowHeight)) - spare);
  return {
    ref, first,
    last: Math.min(rows, Math.ceil((top + height) / rowHeight) + spare),
    onScroll: () => setTop(ref.current?.scrollTop ?? 0),
  };
}
