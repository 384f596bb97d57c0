#!/bin/sh
# What the tests need beside Go, Node and git: a browser for the page, a C compiler for the race detector, a linter of
# shell scripts, what checks alerts for Prometheus, and what shapes the networks in which packets get lost.
# Installs Debian's packages where it may; else says what is missing.
set -eu
missing=
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v shellcheck >/dev/null 2>&1 || missing="$missing shellcheck"
command -v promtool >/dev/null 2>&1 || missing="$missing prometheus"
command -v gcc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
if [ "$(uname)" = Linux ]; then
	command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
	command -v nft >/dev/null 2>&1 || missing="$missing nftables"
fi
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "The tests need$missing: install it (Debian: apt-get install$missing)." >&2
	exit 2
fi
case $missing in
*prometheus*) # the package starts a server, unless there may be none
	mkdir -p /etc/systemd/system
	ln -sf /dev/null /etc/systemd/system/prometheus.service
	;;
esac
apt-get update -qq
# shellcheck disable=SC2086 # several packages
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
