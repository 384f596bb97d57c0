// Package version has the version of Lapse, and where it is published.
package version

// Version and Homepage are set by the linker, Homepage from project.env. A build without them says so.
var (
	Version  = "dev"
	Homepage = ""
)
