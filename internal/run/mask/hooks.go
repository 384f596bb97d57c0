package mask

import "lapse/timeline"

// Hooks hides what looks like credentials in the commands of a template's hooks: they are recorded and reported.
// Nobody else has the fact yet.
func Hooks(f timeline.Fact) timeline.Fact {
	e, ok := f.(timeline.Event)
	if !ok || e.Snapshot == nil || e.Snapshot.Template == nil {
		return f
	}
	for _, c := range e.Snapshot.Template.Containers {
		if c.PreStop != nil {
			c.PreStop.Command = Text(c.PreStop.Command)
		}
	}
	return f
}
