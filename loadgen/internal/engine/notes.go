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

// Forget forgets the backends and peers that no request has referred to since the call before.
func (n *Notes) Forget() {
	n.Backends.Forget()
	n.Peers.Forget()
}
