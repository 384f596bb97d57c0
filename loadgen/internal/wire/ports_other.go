//go:build !linux

package wire

// localPorts leaves the choice to the system: only Linux translates connections to Services.
func localPorts() (low, high uint16) { return 0, 0 }
