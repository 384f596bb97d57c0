package mask

import "lapse/timeline"

// Hooks hides likely credentials in the commands of a template's hooks. It changes the fact: nobody else may have it
// yet.
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
