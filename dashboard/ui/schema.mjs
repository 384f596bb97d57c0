// Writes src/schema.ts, the types of timeline.json, from its JSON Schema; with --check it only compares.
//   node schema.mjs [--check]
import { readFileSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";

const path = "src/schema.ts";
/** A reference with a description of its own would be a type of its own. */
const bare = (key, value) => (value?.$ref && key ? { $ref: value.$ref } : value);
const { Timeline, ...others } = JSON.parse(readFileSync("../../report/timeline.schema.json", "utf8"), bare).$defs ?? {};
for (const [name, def] of Object.entries(others)) def.title = name; // the names of the types
const text = await compile({ ...Timeline, title: "Timeline", $defs: others }, "Timeline", {
  bannerComment: "// Generated from report/timeline.schema.json by schema.mjs: npm run types.",
  additionalProperties: false, maxItems: -1, style: { printWidth: 160 },
});
if (!process.argv.includes("--check")) writeFileSync(path, text);
else if (readFileSync(path, "utf8") !== text) {
  console.error(`${path} is not what the schema gives: npm run types`);
  process.exit(1);
}
