#!/bin/sh
# The page's tests need a Chromium. Installs Debian's where it may.
set -eu
command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "The page's tests need chromium: install it (Debian: apt-get install chromium)." >&2
	exit 2
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
