package deploy

// A hinted error carries advice for the person who meets it. Whoever prints errors looks for the
// method: errors.AsType[interface{ Hint() string }].
type hinted struct {
	error
	hint string
}

func withHint(err error, hint string) error { return hinted{err, hint} }

// Hint says what to do about the error, in one line.
func (e hinted) Hint() string { return e.hint }

func (e hinted) Unwrap() error { return e.error }
