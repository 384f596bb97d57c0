//go:build !linux

package faultserver

// Prioritize does nothing here.
func Prioritize() {}
