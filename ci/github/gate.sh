#!/usr/bin/env bash
# Runs the command, and asks the guard in the cluster how the Service got through what has happened since. It succeeds
# whatever the answer is, and hands on the exit code: 0 pass, 3 fail, 4 inconclusive, 5 if the command failed.
set -euo pipefail

since=$(date -u +%FT%TZ)
mapfile -t args < <(grep . <<<"$FLAGS")
[ -z "$NAMESPACE" ] || args+=("--namespace=$NAMESPACE")
said="the command failed"
level=error
code=5
# What comes from the cluster or the command is no workflow command: the runner takes none until it reads the token.
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$token"
if [ -z "$COMMAND" ] || bash -eo pipefail -c "$COMMAND" 2>&1; then
	code=0
	said=$(lapse gate "$TARGETS" "--since=$since" --wait=30m "${args[@]}" 2>&1) || code=$?
	echo "$said"
fi
printf '\n::%s::\n' "$token"
case $code in
0) level=notice ;;
4) level=warning ;;
esac
said="$TARGETS: $said"
printf '    %s\n' "${said//$'\n'/$'\n'    }" >>"$GITHUB_STEP_SUMMARY"
said=${said//'%'/%25}
said=${said//$'\n'/%0A}
echo "::$level title=Lapse::${said//$'\r'/%0D}"
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
