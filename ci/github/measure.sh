#!/usr/bin/env bash
# Measures, and shows the result: the summary of the step, and an annotation for each incident. It succeeds whatever the
# verdict is, and hands on the exit code.
set -euo pipefail

# lines appends the lines of a text to args, each after a prefix.
lines() {
	local line
	while IFS= read -r line; do
		[ -z "$line" ] || args+=("$1$line")
	done <<<"$2"
}

run=$(mktemp -d "$RUNNER_TEMP/lapse-run.XXXXXX")/run
args=(run)
lines "" "$TARGETS"
lines "" "$FLAGS"
lines --fail-if= "$FAIL_IF"
[ -z "$NAMESPACE" ] || args+=("--namespace=$NAMESPACE")
[ -z "$DURATION" ] || args+=("--duration=$DURATION")
args+=("--out=$run")
[ -z "$COMMAND" ] || args+=(-- bash -eo pipefail -c "$COMMAND")

# What comes from the cluster or the command is no workflow command: the runner takes none until it reads the token.
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$token"
code=0
lapse "${args[@]}" 2>&1 || code=$?
if [ -e "$run/facts.lapse" ]; then
	lapse report "$run" -o markdown >>"$GITHUB_STEP_SUMMARY" || true
	lapse report "$run" -o github >"$run.annotations" || true
fi
printf '\n::%s::\n' "$token"
[ ! -e "$run.annotations" ] || cat "$run.annotations"
{
	echo "run=$run"
	echo "exit-code=$code"
} >>"$GITHUB_OUTPUT"
