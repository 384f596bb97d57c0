// Command shoot shows the page to whoever works on it, and takes its picture with Debian's chromium:
//
//	go run ./dashboard/internal/shoot dev [-live]          a made-up run, on http://127.0.0.1:7070/
//	go run ./dashboard/internal/shoot runs                   the runs of a made-up guard
//	go run ./dashboard/internal/shoot picture -o page URL    page-light.png, page-dark.png
//
// A saved run is shown by `lapse serve DIR`. A report saved with -o html can be pictured too, as file:///… .
package main

import (
	"context"
	"flag"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
)

// verbs are what the command does. Each defines its flags and returns what to do when they are parsed.
var verbs = map[string]func(*flag.FlagSet) func(context.Context) error{"dev": dev, "picture": picture, "runs": runs}

func main() {
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		log.Fatalf("shoot takes one of %v", slices.Sorted(maps.Keys(verbs)))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	run := verbs[os.Args[1]](flags)
	_ = flags.Parse(os.Args[2:]) // which exits on an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
