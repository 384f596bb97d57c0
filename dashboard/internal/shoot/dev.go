package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/timeline"
)

// dev serves the page with a made-up run. Besides, `npm run dev` in dashboard/ui serves the sources with reloading, and
// asks this server for the data.
func dev(flags *flag.FlagSet) func(context.Context) error {
	addr := flags.String("addr", "127.0.0.1:7070", "where to listen")
	live := flags.Bool("live", false, "play the run in real time")
	at := flags.Duration("at", sample.Length, "show the run as it was at this instant")
	more := flags.Int("events", 0, "how many further events to make up")
	large := flags.Bool("large", false, "show an hour at 2000 requests per second")
	return func(ctx context.Context) error { return serve(ctx, *addr, *live, *large, *at, *more) }
}

// serve shows the page until ctx ends.
func serve(ctx context.Context, addr string, live, large bool, at time.Duration, more int) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	store := dashboard.NewStore()
	page := publish.To(store)
	if live {
		at = 0
	}
	if large {
		err = page.Show(sample.Large(), sample.LargeLength)
	} else {
		err = show(page, at, more)
	}
	if err != nil {
		return err
	}
	if live {
		go play(ctx, page, more)
	}
	fmt.Printf("http://%s/\n", ln.Addr())
	return dashboard.Serve(ctx, ln, store, dashboard.Options{
		Timeline: func(w io.Writer) error { return json.NewEncoder(w).Encode(sample.Run(sample.Length)) },
	})
}

// play lets the run happen until ctx ends.
func play(ctx context.Context, page *publish.Publisher, more int) {
	start := time.Now()
	for ctx.Err() == nil && time.Since(start) < sample.Length+time.Second {
		if err := show(page, time.Since(start), more); err != nil {
			log.Print(err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// show puts the run as it was at an instant.
func show(page *publish.Publisher, at time.Duration, more int) error {
	run := sample.Run(at)
	for i := range more {
		seen := at * time.Duration(i) / time.Duration(more)
		run.Events = append(run.Events, model.Event{
			Event: timeline.Event{
				ID: uint32(1000 + i), Seen: seen, Writer: "lapse",
				Kind: timeline.CommandOutput, Detail: fmt.Sprintf("line %d of the command's output", i),
			}, At: model.Instant{Earliest: seen, Latest: seen},
		})
	}
	return page.Show(run, at)
}
