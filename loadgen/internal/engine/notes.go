package engine

// Notes are what the requests of a prober's targets showed beyond their outcomes, and was not handed on yet.
type Notes struct {
	Backends  backends
	Peers     peers
	Errors    errorTexts
	Names     names
	Failovers failovers
	Changes   heldChanges
}
