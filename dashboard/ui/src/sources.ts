import { type Group, judged, type Source, type Target, type Unobserved, type Window } from "./model";

/** A TargetGroup are targets that send the same to the same Service, each from another node. One alone is a group of itself. */
export interface TargetGroup extends Pick<Group, "name" | "kind" | "service" | "targets" | "sent" | "failed" | "notSent" | "late" | "rate" | "achievedRate" | "coverage"> {
  members: Target[]; // by zone, then by node; of many targets none until they have come
  agree?: boolean; // these are known of many targets
  failing?: string[];
  unobserved?: { start: number; end: number }[];
  measured?: { earliest: number; latest: number };
}

/** membersOf are targets by name, none of which have not come. */
export const membersOf = (names: string[] | undefined, target: (name: string) => Target | undefined): Target[] => (names ?? []).map(target).filter((t) => t !== undefined);

/** targetGroups puts judged targets together that differ in nothing but the node they are measured from. */
export function targetGroups(targets: Target[], sources: Source[]): TargetGroup[] {
  const zones = new Map(sources.map((s) => [s.name, s.zone]));
  const zone = (t: Target): string => zones.get(t.source ?? "") ?? "";
  const groups = new Map<string, { name: string; members: Target[] }>();
  const taken = new Set<string>(); // names
  for (const t of targets.filter((t) => judged(t.kind))) {
    const name = common(t);
    const key = [t.service, t.portName, t.kind, name].join("\n");
    const group = groups.get(key);
    if (group) group.members.push(t);
    else groups.set(key, { name: own(name, t, taken), members: [t] });
  }
  for (const g of groups.values()) g.members.sort((a, b) => compare(zone(a), zone(b)) || compare(a.node ?? "", b.node ?? "") || a.id - b.id);
  return [...groups.values()].map(summed);
}

/** own is a group's name, with its Service and port if another group has that name already, as publish.groupsOf makes it. */
function own(name: string, t: Target, taken: Set<string>): string {
  while (taken.has(name)) name += ` of ${t.service ?? ""} ${t.portName ?? ""}`;
  taken.add(name);
  return name;
}

/** summed adds up a group's members. */
function summed({ name, members }: { name: string; members: Target[] }): TargetGroup {
  const sum = (of: (t: Target) => number): number => members.reduce((all, t) => all + of(t), 0);
  return {
    name, members, kind: members[0]!.kind, ...(members[0]!.service && { service: members[0]!.service }), targets: members.length, sent: sum((t) => t.sent), failed: sum((t) => t.failed), notSent: sum((t) => t.notSent), late: sum((t) => t.late),
    rate: sum((t) => t.rate), achievedRate: sum((t) => t.achievedRate), coverage: Math.min(...members.map((t) => t.coverage)),
  };
}

/** common is a target's name without the node that it is measured from. */
function common(t: Target): string {
  const at = t.node ? t.name.lastIndexOf(` from ${t.node}`) : -1;
  return at > 0 ? t.name.slice(0, at) : t.name;
}

/** fromWhere is the rest of a member's name, with its zone: "node1 · zone a". */
export function fromWhere(t: Target, sources: Source[]): string {
  const zone = sources.find((s) => s.name === t.source)?.zone;
  const own = t.name.slice(common(t).length).replace(/^ from /, "");
  return zone ? `${own} · zone ${zone}` : own;
}

/** agree tells whether all members saw the same: each window of one lies in time with a window of every other one, and all were observed all along. */
export function agree(group: TargetGroup, windowsOf: (target: string) => Window[], unobserved: Unobserved[]): boolean {
  if (unobserved.some((u) => group.members.some((m) => m.name === u.target))) return false;
  return group.members.every((m) => windowsOf(m.name).every((w) => group.members.every((other) => windowsOf(other.name).some((o) => meet(w, o)))));
}

const meet = (a: Window, b: Window): boolean => a.start.earliest <= b.end.latest && b.start.earliest <= a.end.latest;

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** byService puts what is of a Service together, in the order of these, and leaves each Service's own order. */
export function byService<T extends { service?: string }>(all: T[], services: string[]): T[] {
  const order = (t: T): number => services.indexOf(t.service ?? "") >>> 0; // what is of none comes last
  return services.length > 1 ? [...all].sort((a, b) => order(a) - order(b)) : all;
}
