package loadgen

// notes are what the requests of a prober's targets showed beyond their outcomes, and was not handed on yet.
type notes struct {
	backends  backends
	peers     peers
	errors    errorTexts
	names     names
	failovers failovers
	changes   heldChanges
}
