// Writes src/schema.ts, the types of timeline.json, from its JSON Schema: npm run types.
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const path = "src/schema.ts";
/** A reference with a description of its own would be a type of its own. */
const bare = (key, value) => (value?.$ref && key ? { $ref: value.$ref } : value);
const { Timeline, ...others } = JSON.parse(readFileSync("../../internal/report/timeline.schema.json", "utf8"), bare).$defs ?? {};
for (const [name, def] of Object.entries(others)) def.title = name; // the names of the types
const text = await compile({ ...Timeline, title: "Timeline", $defs: others }, "Timeline", {
  bannerComment: "// Generated from internal/report/timeline.schema.json by schema.mjs.",
  additionalProperties: false, maxItems: -1, style: { printWidth: 160 },
});
writeFileSync(path, text);
