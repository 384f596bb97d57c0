//go:build !linux

package main

import (
	"errors"
	"syscall"
	"time"
)

// Elsewhere than on Linux preflight ends every verb; these exist so that it can say so.

var errNotLinux = errors.New("not Linux")

func inNetns(string, func() error) error                                 { return errNotLinux }
func unshareNet() error                                                  { return errNotLinux }
func mayMakeNetns() error                                                { return errNotLinux }
func execInNetns(string, []string) error                                 { return errNotLinux }
func execBeside(int, []string) error                                     { return errNotLinux }
func execAsNode(string, string, []string, time.Duration, []string) error { return errNotLinux }
func execve([]string) error                                              { return errNotLinux }
func lockMachine() (func(), error)                                       { return nil, errNotLinux }
func runBeforeOthers() error                                             { return errNotLinux }
func closeInherited()                                                    {}
func daemonAttr() *syscall.SysProcAttr                                   { return nil }
func kill(int)                                                           {}
func inode(string) (uint64, error)                                       { return 0, errNotLinux }
func onOverlay(string) bool                                              { return false }
func unmountUnder(string) error                                          { return errNotLinux }
func mountsUnder(string) []string                                        { return nil }
