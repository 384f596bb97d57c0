import type { Scale } from "./scale";

// What things look like. Colours are Okabe and Ito's, which people with any colour vision can tell
// apart, and every state also has a texture of its own and, where it fits, a letter. Each colour means one thing: orange
// a client's request that failed, amber a state on the way down, grey-violet a Pod that is gone as it should be, green
// answered or ready, light blue on the way up, greys how many answers took how long. Crosses in the text's colour are
// broken; blue in the page is what is selected, or can be. test/colours.test.ts holds which parts of the page have which colour.

export interface Theme {
  name: "light" | "dark";
  text: string;
  faint: string;
  line: string;
  grid: string;
  panel: string; // the ground of everything
  ok: string;
  okSoft: string;
  bad: string;
  badDeep: string;
  badSoft: string;
  gone: string; // a Pod that ended as it should
  goneDeep: string;
  warn: string; // a state on the way down
  waiting: string;
  hatch: string;
  hatchGround: string;
}

export const light: Theme = {
  name: "light", text: "#1b2026", faint: "#5b6570", line: "#c9cfd6", grid: "#e9edf1", panel: "#ffffff",
  ok: "#009e73", okSoft: "#8fd0bb", bad: "#d55e00", badDeep: "#8f3f00", badSoft: "#f3b88f", gone: "#b9b3c9", goneDeep: "#8f87a6", warn: "#e69f00", waiting: "#56b4e9",
  hatch: "#9aa4ae", hatchGround: "#f1f3f5",
};
export const dark: Theme = {
  name: "dark", text: "#e8ebee", faint: "#9aa5b0", line: "#3a424b", grid: "#232a31", panel: "#171c21",
  ok: "#00a67a", okSoft: "#0b6e55", bad: "#e8690b", badDeep: "#ffb27a", badSoft: "#7d3a0a", gone: "#565069", goneDeep: "#7d7596", warn: "#e69f00", waiting: "#56b4e9",
  hatch: "#6b7682", hatchGround: "#1c2229",
};

export type Context = CanvasRenderingContext2D;

/** A Plot is one row's drawing area. */
export interface Plot { ctx: Context; scale: Scale; height: number; theme: Theme; top?: number /* px left free above the bars, for whiskers */ }

type Texture = "plain" | "stripes" | "dense" | "dots" | "cross";

const patterns = new Map<string, CanvasPattern>();

/** texture returns ground overdrawn with a repeating ink pattern, so that it can be told without colour. */
function texture(ctx: Context, kind: Texture, ink: string, ground: string): CanvasPattern | string {
  if (kind === "plain") return ground;
  const key = `${kind} ${ink} ${ground}`;
  let pattern = patterns.get(key);
  if (!pattern) {
    pattern = ctx.createPattern(tile(kind, ink, ground), "repeat")!;
    patterns.set(key, pattern);
  }
  return pattern;
}

function tile(kind: Texture, ink: string, ground: string): HTMLCanvasElement {
  const size = kind === "dense" ? 4 : kind === "dots" ? 5 : 7;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, size, size);
  ctx.strokeStyle = ctx.fillStyle = ink;
  ctx.lineWidth = 1.2;
  if (kind === "dots") ctx.fillRect(1, 1, 1.5, 1.5);
  else slant(ctx, size);
  if (kind === "cross") {
    ctx.scale(-1, 1);
    ctx.translate(-size, 0);
    slant(ctx, size);
  }
  return canvas;
}

/** slant draws one diagonal that continues from tile to tile. */
function slant(ctx: Context, size: number): void {
  ctx.beginPath();
  for (const shift of [-size, 0, size]) {
    ctx.moveTo(shift, size);
    ctx.lineTo(shift + size, 0);
  }
  ctx.stroke();
}

const widths = new Map<string, number>();

/** widthOf measures a text, each only once: the rows write few different ones, very often. */
export function widthOf(ctx: Context, text: string): number {
  const key = `${ctx.font}\n${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    if (widths.size > 5000) widths.clear();
    widths.set(key, (width = ctx.measureText(text).width));
  }
  return width;
}

/** Look is how a state of a lane is drawn. */
export interface Look { letter: string; label: string; fill(t: Theme, ctx: Context): CanvasPattern | string; edge(t: Theme): string; low?: boolean }

const look = (letter: string, label: string, kind: Texture, ink: (t: Theme) => string, ground: (t: Theme) => string, low = false): Look => ({
  letter, label, low, edge: ink, fill: (t, ctx) => texture(ctx, kind, ink(t), ground(t)),
});
const mix = (colour: string, share: string) => colour + share; // share: two hex digits of opacity

/** The states of Pods, endpoints and nodes. One word looks the same wherever it stands. */
export const looks: Record<string, Look> = {
  "pending": look("P", "pending", "dots", (t) => t.faint, (t) => t.hatchGround, true),
  "creating": look("C", "creating", "dots", (t) => t.waiting, (t) => mix(t.waiting, "22"), true),
  "running": look("n", "running, not ready", "plain", (t) => t.waiting, (t) => mix(t.waiting, "55")),
  "not-ready": look("n", "not ready", "plain", (t) => t.waiting, (t) => mix(t.waiting, "55")),
  "ready": look("R", "ready", "plain", (t) => t.ok, (t) => t.okSoft),
  "terminating+serving": look("s", "terminating, serving", "stripes", (t) => t.warn, (t) => mix(t.warn, "55")),
  "terminating": look("T", "terminating", "dense", (t) => t.warn, (t) => mix(t.warn, "44")),
  "crashed": look("X", "exited, or waiting to be restarted", "cross", (t) => t.text, (t) => mix(t.faint, "33")),
  "cordoned": look("c", "cordoned", "dots", (t) => t.warn, (t) => mix(t.warn, "33")),
  "node not ready": look("N", "not ready", "cross", (t) => t.text, (t) => mix(t.faint, "33")),
  "healthy": look("H", "healthy", "plain", (t) => t.ok, (t) => t.okSoft),
  "unhealthy": look("U", "unhealthy", "stripes", (t) => t.warn, (t) => mix(t.warn, "55")),
  "refused": look("r", "refused: nothing listens", "cross", (t) => t.text, (t) => mix(t.faint, "33")),
  "unanswered": look("u", "no answer in 800 ms", "dense", (t) => t.text, (t) => mix(t.faint, "33")),
  "answering": look("A", "answering", "plain", (t) => t.ok, (t) => t.okSoft),
  "no answer": look("u", "no answer", "dense", (t) => t.text, (t) => mix(t.faint, "33")),
  "command": look("", "command", "plain", (t) => t.faint, (t) => mix(t.faint, "33")),
};

/** A state this page does not know yet is shown as itself. */
export const lookOf = (state: string): Look => Object.hasOwn(looks, state) ? looks[state]! : look(state.slice(0, 1), state, "dots", (t) => t.text, (t) => t.hatchGround);

type Painter = (t: Theme, ctx: Context) => CanvasPattern | string;

/** Classes of failures differ in tone and texture: all are failures, and have their colour. */
const classFills: Record<string, Painter> = {
  refused: (t) => t.bad,
  reset: (t, ctx) => texture(ctx, "stripes", t.badDeep, t.badSoft),
  eof: (t, ctx) => texture(ctx, "dots", t.badDeep, t.badSoft),
  timeout_connect: (t) => t.badDeep,
  timeout_response: (t, ctx) => texture(ctx, "cross", t.badDeep, t.bad),
  unreachable: (t, ctx) => texture(ctx, "cross", t.badDeep, t.badSoft),
  http_5xx: (t) => t.badSoft,
  no_slot: (t, ctx) => texture(ctx, "dots", t.badDeep, t.bad),
};

/** classFill is what the failures of a class look like. */
export const classFill = (t: Theme, ctx: Context, name: string): CanvasPattern | string =>
  Object.hasOwn(classFills, name) ? classFills[name]!(t, ctx) : texture(ctx, "cross", t.faint, t.hatchGround);

const ramps = {
  light: [[0xe9, 0xed, 0xf1], [0xb4, 0xbd, 0xc6], [0x7d, 0x88, 0x93]],
  dark: [[0x20, 0x26, 0x2c], [0x3f, 0x49, 0x52], [0x6b, 0x76, 0x82]],
} as const;

const shades = 32;

/** heat is the scale of the latency map, from few to many, as pixels of an image. */
export function heat(t: Theme): Uint32Array {
  const ramp = ramps[t.name];
  const bytes = new Uint8ClampedArray(4 * shades);
  for (let i = 0; i < shades; i++) {
    const at = (i / (shades - 1)) * (ramp.length - 1);
    const [a, b, share] = [ramp[Math.floor(at)]!, ramp[Math.ceil(at)]!, at % 1];
    bytes.set([0, 1, 2].map((k) => a[k]! + (b[k]! - a[k]!) * share).concat(255), 4 * i);
  }
  return new Uint32Array(bytes.buffer);
}

/** bar draws one state from x0 to x1, with its label as far as there is room. */
export function bar(p: Plot, state: Look, x0: number, x1: number, text = state.label): void {
  const { ctx, height, theme } = p;
  const width = Math.max(x1 - x0, 1);
  const top = state.low ? height * 0.28 : 2;
  const bottom = state.low ? height * 0.72 : height - 2;
  ctx.fillStyle = state.fill(theme, ctx);
  ctx.fillRect(x0, top, width, bottom - top);
  ctx.fillStyle = state.edge(theme);
  ctx.fillRect(x0, top, Math.min(2, width), bottom - top);
  ctx.font = "11px system-ui, sans-serif";
  const left = Math.max(x0, 0);
  const room = Math.min(x1, p.scale.width) - left - 10;
  const shown = text === state.label ? [text, state.letter].find((s) => s && widthOf(ctx, s) < room) : shortened(ctx, text, room);
  if (shown) caption(p, shown, left + 6);
}

/** shortened cuts a text off where the room ends; empty if too little would remain. */
function shortened(ctx: Context, text: string, room: number): string {
  const width = widthOf(ctx, text);
  if (width < room) return text;
  const fit = Math.floor((room / width) * text.length) - 2;
  return fit > 5 ? `${text.slice(0, fit)}…` : "";
}

/** caption writes a word onto a row, on a ground that keeps it legible over textures. */
function caption({ ctx, height, theme }: Plot, text: string, x: number): void {
  const width = widthOf(ctx, text);
  ctx.fillStyle = theme.name === "light" ? "#ffffffb8" : "#10141899";
  ctx.fillRect(x - 2, height / 2 - 6.5, width + 4, 13);
  ctx.fillStyle = theme.text;
  ctx.textBaseline = "middle";
  ctx.fillText(text, x, height / 2 + 0.5);
}

/** noData hatches a stretch in which nothing was measured or watched: it must not look like health. */
export function noData({ ctx, height, theme, top = 2 }: Plot, from: number, to: number): void {
  const [x0, x1] = [Math.round(from), Math.round(to)];
  ctx.clearRect(x0, 0, x1 - x0, height);
  ctx.fillStyle = texture(ctx, "stripes", theme.hatch, theme.hatchGround);
  ctx.fillRect(x0, top, Math.max(x1 - x0, 1), height - 2 - top);
}

/** availability draws a stretch of a strip: answered below, and the share that failed hanging from the top. */
export function availability({ ctx, height, theme, top = 2 }: Plot, from: number, to: number, failed: number, gone = false): void {
  const x0 = Math.round(from); // whole pixels, so that neighbours leave no seam
  const width = Math.max(Math.round(to) - x0, 1);
  const tall = height - 2 - top;
  ctx.fillStyle = theme.okSoft;
  ctx.fillRect(x0, top, width, tall);
  if (failed <= 0) return;
  ctx.fillStyle = gone ? texture(ctx, "stripes", theme.goneDeep, theme.gone) : texture(ctx, "stripes", theme.badDeep, theme.bad);
  ctx.fillRect(x0, top, width, Math.max(4, failed * tall));
}

/** whiskerSpace is the pixels that whiskers take above the bars of a row. */
export const whiskerSpace = 8;

/**
 * whiskers draws a window above the bars of a row, ├─███─┤: it began between the left tick and the block, and ended between the block and
 * the right tick. There is no tick where only the view ended, not the trouble.
 */
export function whiskers({ ctx, scale, theme }: Plot, w: { start: { earliest: number; latest: number }; end: { earliest: number; latest: number }; open: { start: boolean; end: boolean } }): void {
  const [a, b] = [scale.x(w.start.earliest), scale.x(w.end.latest)];
  if (b < -8 || a > scale.width + 8) return;
  const [from, to] = [scale.x(w.start.latest), Math.max(scale.x(w.end.earliest), scale.x(w.start.latest))];
  ctx.fillStyle = theme.text;
  ctx.fillRect(a, 3, Math.max(b - a, 1), 1.5);
  ctx.fillRect(from - 0.5, 1.5, Math.max(to - from, 1) + 1, 4.5);
  if (!w.open.start) ctx.fillRect(a - 0.75, 0.5, 1.5, 6.5);
  if (!w.open.end) ctx.fillRect(b - 0.75, 0.5, 1.5, 6.5);
}

/** none hatches where a count is zero and ought not to be. */
function none({ ctx, height, theme }: Plot, x0: number, x1: number): void {
  ctx.fillStyle = texture(ctx, "cross", theme.text, mix(theme.faint, "33"));
  ctx.fillRect(x0, 2, Math.max(x1 - x0, 1), height - 4);
}

/** paintReady draws how many endpoints were ready for a while, as a share of the most there ever were. */
export function paintReady(p: Plot, share: number, ready: number, from: number, to: number): void {
  const { ctx, height, theme } = p;
  if (!ready) none(p, from, to);
  const top = height - 3 - share * (height - 8);
  ctx.fillStyle = theme.okSoft;
  ctx.fillRect(from, top, to - from, height - 3 - top);
  ctx.fillStyle = ready ? theme.ok : theme.text;
  ctx.fillRect(from, top, Math.max(to - from, 1), 2);
  ctx.font = "600 11px system-ui, sans-serif";
  if (to - Math.max(from, 0) < 14) return;
  ctx.textBaseline = "middle";
  ctx.fillStyle = theme.name === "light" || !ready ? "#ffffffc8" : "#10141899";
  const x = Math.max(from, 0) + 4;
  const y = ready ? Math.min(top + 11, height - 9) : height / 2;
  ctx.fillRect(x, y - 7, widthOf(ctx, String(ready)) + 4, 13);
  ctx.fillStyle = ready ? theme.text : "#1b2026";
  ctx.fillText(String(ready), x + 2, y);
}

/** commandLine underlines the time in which the wrapped command ran. */
export function commandLine({ ctx, height, theme }: Plot, from: number, to: number): void {
  ctx.fillStyle = theme.text;
  ctx.fillRect(from, height - 2, Math.max(to - from, 2), 2);
}
