#!/usr/bin/env bash
# Downloads a release of Lapse, checks its SHA-256, and puts it into the PATH of the next steps.
set -euo pipefail

fail() {
	echo "::error title=Lapse::$1"
	exit 1
}

case "$RUNNER_OS-$RUNNER_ARCH" in
Linux-X64) system=linux-amd64 ;;
Linux-ARM64) system=linux-arm64 ;;
*) fail "this action needs a Linux runner on x64 or arm64, and this one is $RUNNER_OS on $RUNNER_ARCH" ;;
esac
release=${RELEASES:-$REPOSITORY/releases/download}/$VERSION
name=lapse-$VERSION-$system
archive=$name.tar.gz
dir=$(mktemp -d "$RUNNER_TEMP/lapse.XXXXXX")
cd "$dir"
curl --fail --silent --show-error --location --retry 3 --output "$archive" "$release/$archive" ||
	fail "$release/$archive cannot be downloaded"
if [ -z "$SHA256" ]; then
	curl --fail --silent --show-error --location --retry 3 --output checksums.txt "$release/checksums.txt" ||
		fail "$release/checksums.txt cannot be downloaded"
	SHA256=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' checksums.txt)
fi
[[ $SHA256 =~ ^[0-9a-f]{64}$ ]] || fail "there is no SHA-256 of $archive"
sha256sum --check --status <<<"$SHA256  $archive" || fail "$archive has another SHA-256 than $SHA256"
tar -xzf "$archive"
[ -x "$name/lapse" ] || fail "$archive has no program"
echo "$dir/$name" >>"$GITHUB_PATH"
