package service

import (
	"fmt"
	"slices"
)

// An Autoscaler sets the number of a workload's Pods.
type Autoscaler struct {
	Kind, Name string
	Target     Reference
	Field      string // of the least number
	Min        *int32 // its value; nil if it is not set
	Default    int    // the least number if it is not set
	Max        int
}

// Object returns KIND/NAME.
func (a *Autoscaler) Object() string { return a.Kind + "/" + a.Name }

// Least returns the number of Pods that the autoscaler keeps when load is low.
func (a *Autoscaler) Least() int {
	if a.Min != nil {
		return int(*a.Min)
	}
	return a.Default
}

// Evidence returns the field with the least number.
func (a *Autoscaler) Evidence() Evidence {
	if a.Min == nil {
		return Evidence{a.Object(), a.Field, fmt.Sprintf("not set: %d", a.Least())}
	}
	return Evidence{a.Object(), a.Field, fmt.Sprint(*a.Min)}
}

// Scaler returns the autoscaler of a workload, nil if none is known.
func (s *State) Scaler(w *Workload) *Autoscaler {
	i := slices.IndexFunc(s.Autoscalers, func(a Autoscaler) bool {
		return a.Target.Kind == w.Kind && a.Target.Name == w.Meta.Name
	})
	if i < 0 {
		return nil
	}
	return &s.Autoscalers[i]
}
