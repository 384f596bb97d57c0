//go:build !linux

package main

// pin does nothing: on other systems the watching threads run on any processor.
func pin(int) {}
