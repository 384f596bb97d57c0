package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// repairs are how to put right what steps have disturbed.
type repairs struct {
	mu    sync.Mutex
	undos []undo // guarded by mu
}

// An undo puts right what a step has disturbed.
type undo struct {
	what string
	do   func(ctx context.Context) error
}

// undoing has something put right at the end, unless [repairs.undone] has done so before.
func (r *repairs) undoing(what string, do func(ctx context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undos = append(r.undos, undo{what, do})
}

// undone puts right now what was disturbed, and reports whether there was such a thing.
func (r *repairs) undone(ctx context.Context, what string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.undos, func(u undo) bool { return u.what == what })
	if i < 0 {
		return false, nil
	}
	err := r.undos[i].do(ctx)
	r.undos = slices.Delete(r.undos, i, i+1)
	return true, err
}

// undoAll puts everything right, the last disturbance first. It is not to be interrupted.
func (r *repairs) undoAll(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range slices.Backward(r.undos) {
		if e := u.do(ctx); e != nil {
			err = errors.Join(err, fmt.Errorf("undo %q: %w", u.what, e))
		}
	}
	r.undos = nil
	return err
}
