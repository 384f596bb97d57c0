import type { Incident } from "./model";
import { mostHarmful } from "./opening";
import type { Run } from "./run";

/** An Answer is what a reader wants to know first: of the most harmful incident, in the words of the judged document. */
export interface Answer { incident: Incident; more: number /* incidents besides */ }

/** answerOf is the answer of a run; none if nothing failed. */
export function answerOf(run: Run): Answer | undefined {
  const [incident, ...others] = mostHarmful(run.incidents);
  return incident && { incident, more: others.length };
}

/** markdown is the answer as it can be pasted into an issue or a pull request. */
export function markdown(run: Run, link: string): string {
  const { said } = run;
  if (!said) return "";
  const answer = answerOf(run);
  return [
    `**${said.word}**: ${escaped([said.headline, said.extent].filter(Boolean).join("; "))}`,
    "",
    ...(answer ? [...fields(answer), ""] : []),
    ...(answer?.incident.said.patch ? ["```sh", answer.incident.said.patch, "```", ""] : []),
    escaped([said.measured, run.tool && `${run.tool.name} ${run.tool.version}`, run.info?.id, link].filter(Boolean).join(" · ")),
    "",
  ].join("\n").replaceAll("\u00a0", " ");
}

function fields({ incident: { said } }: Answer): string[] {
  const field = (name: string, text: string): string[] => (text ? [`- **${name}**: ${escaped(text)}`] : []);
  return [
    ...field("When", said.when),
    ...said.what.flatMap((w) => field("What", `${w.of} ${w.text}`)),
    ...field("Why", said.why),
    ...said.do.flatMap((text) => field("Do", text)),
  ];
}

/** escaped keeps Markdown from reading names and messages as its own signs. */
const escaped = (text: string): string => text.replace(/[\\`*_<>|[\]]/g, "\\$&");
