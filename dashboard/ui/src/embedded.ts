import type { TimelineFile } from "./model";
import { type Delta, PROTOCOL } from "./run";

/**
 * A saved report holds its run in the document: an element with this ID whose text is base64 of the gzip of
 * {"timeline": <timeline.json>}. A page that finds it shows that run and asks no server for anything.
 */
export const embeddedID = "lapse-run";

/** embeddedText is the data in this document, if it is a saved report. */
export const embeddedText = (): string | undefined => document.getElementById(embeddedID)?.textContent ?? undefined;

/** unpack reads a run from the text of that element. */
export async function unpack(text: string): Promise<TimelineFile> {
  const zipped = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const plain = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { timeline } = await new Response(plain).json();
  if (!timeline) throw new Error("it holds no timeline");
  return timeline;
}

/** whole makes a timeline into the delta that brings an empty store to it. */
export function whole(t: TimelineFile): Delta {
  const put: Record<string, unknown> = Object.create(null);
  Object.assign(put, { tool: t.tool, t0: t.t0, run: t.run, verdict: t.verdict, said: t.said, incidents: t.incidents, unobserved: t.unobserved, services: t.services, live: false, now: t.run.duration, bucketWidth: t.buckets.width });
  if (t.held) put.held = t.held;
  if (t.sources) put.sources = t.sources;
  if (t.routes) Object.assign(put, { routes: t.routes, late: t.late });
  if (t.controlPlane) put.controlPlane = t.controlPlane;
  if (t.keepServing) put.keepServing = t.keepServing;
  if (t.scorecard) put.scorecard = t.scorecard;
  for (const target of t.targets ?? []) put[`target/${target.name}`] = target;
  for (const window of t.windows ?? []) put[`window/${window.id}`] = window;
  for (const event of t.events ?? []) put[`event/${event.id}`] = event;
  for (const pod of t.pods ?? []) put[`pod/${pod.uid}`] = pod;
  for (const [name, series] of Object.entries(t.buckets.targets ?? {})) put[`bucket/${name}/0`] = { start: 0, ...series };
  return { protocol: PROTOCOL, epoch: "saved", seq: 0, reset: true, put };
}
