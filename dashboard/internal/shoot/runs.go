package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"lapse/dashboard"
	"lapse/dashboard/internal/past"
	"lapse/internal/run/screen"
)

// runs serves the page of a made-up guard.
func runs(flags *flag.FlagSet) func(context.Context) error {
	addr := flags.String("addr", "127.0.0.1:7070", "where to listen")
	services := flags.Int("services", 6, "how many Services are guarded")
	n := flags.Int("runs", 300, "how many runs there are, over 30 days")
	alone := flags.Bool("alone", false, "a folder of runs without a guard")
	return func(ctx context.Context) (err error) {
		dir, err := os.MkdirTemp("", "lapse-runs-*")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		made := past.Past{Services: *services, Runs: *n, Days: 30, Now: time.Now()}
		if err := made.Keep(dir); err != nil {
			return err
		}
		folder := screen.Folder(dir, nil, nil)
		if !*alone {
			folder.Now = made.Stands
		}
		ln, err := net.Listen("tcp", *addr)
		if err != nil {
			return err
		}
		fmt.Printf("http://%s/\n", ln.Addr())
		return dashboard.ServeFolder(ctx, ln, folder, dashboard.Options{})
	}
}
