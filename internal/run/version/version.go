// Package version has the version of Lapse.
package version

// Version is set by the linker. A build without it says so.
var Version = "dev"
