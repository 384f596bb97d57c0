//go:build !linux

package loadgen

func reserveFiles(int) {}
