// Package integration holds whole runs against the truth: `lapse run`, as a process or in this one, measures servers
// and networks that fail in known ways. What it does to a network, it does in a namespace of its own, as root.
package integration

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"lapse/internal/cli"
	"lapse/loadgen/faultserver"
)

// atOnce is how many of the parallel tests run at the same time, unless -parallel says otherwise: most of them wait
// for a run.
const atOnce = "4"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	faultserver.Prioritize()
	testscript.Main(m, map[string]func(){
		"lapse": func() { os.Exit(cli.Main(context.Background(), os.Args, os.Stdout, os.Stderr)) },
	})
}
