package sample

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// The size of the run that [Large] makes up.
const (
	LargeLength = time.Hour
	LargePods   = 200
	LargeEvents = 5000

	largeRate     = 200 // requests per second of each of the ten targets: 2000 in all
	largeReplaced = 100 // how many of the Pods take the place of others while the run goes on
	largeServices = 4
)

// Large makes up a run of an hour at 2000 requests per second: ten targets of four Services, 200 Pods of which 100
// replace others in the course of a rolling upgrade, 5000 events, and a route that outlives its Pod at every tenth
// replacement.
func Large() *model.Timeline { return large().judge(LargeLength) }

func large() *script {
	command := []string{"./upgrade-all-nodes.sh"}
	c := newScript(timeline.Meta{ID: "20260314-022038-large", Command: command,
		Options: timeline.Options{Rate: largeRate, Gates: []string{"failed > 0"}}}, LargeLength)
	c.runs(command, 60*s, LargeLength-60*s)
	for i := range LargePods {
		p := &pod{
			service: fmt.Sprintf("shop/web-%d", i%largeServices),
			name:    fmt.Sprintf("web-%d-7f9c5d8b6-%05d", i%largeServices, i),
			node:    fmt.Sprintf("node-%02d", i%20), addr: fmt.Sprintf("10.40.%d.%d", i%20, i),
		}
		const first = LargePods - largeReplaced // of those that take the place of others
		if i >= first {
			p.created = replacedAt(i - first)
			p.listens = p.created + 8*s
		}
		if i < largeReplaced {
			p.deleted = replacedAt(i)
			p.unrouted, p.stops, p.gone = p.deleted+50*ms, p.deleted+100*ms, p.deleted+4*s
			if i%10 == 0 {
				p.unrouted = p.stops + 1200*ms
			}
		}
		c.pods = append(c.pods, p)
	}
	for service := range largeServices {
		c.measure(timeline.New, fmt.Sprintf("shop/web-%d", service), largeRate)
		c.measure(timeline.Reused, fmt.Sprintf("shop/web-%d", service), largeRate)
	}
	c.direct(c.pods[largeReplaced-1], largeRate)
	c.measure(timeline.Control, "", largeRate)
	for i := len(c.facts()); i < LargeEvents; i++ {
		c.says(60*s+time.Duration(i)*s*7/10, fmt.Sprintf("node/node-%02d: step %d done", i%20, i))
	}
	return c
}

// replacedAt is when the Pod with that index gives way to the next one.
func replacedAt(i int) time.Duration { return 90*s + time.Duration(i)*34*s }
