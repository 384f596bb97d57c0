package run

// Version is Lapse's own. The linker sets it; a build without it says so.
var Version = "dev"
