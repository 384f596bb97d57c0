package main

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"time"

	vegetalib "github.com/tsenart/vegeta/v12/lib"
)

// runVegeta does what `vegeta attack -rate … -workers … -connections …` does, and writes its results as that does, in
// gob; buffered, which is kinder to it: the command makes a system call for each.
func runVegeta(_ context.Context, l load) (o outcome, err error) {
	var out io.Writer = io.Discard
	if l.Record != "" {
		f, err := os.Create(l.Record)
		if err != nil {
			return o, err
		}
		defer f.Close()
		buffered := bufio.NewWriter(f)
		defer func() { err = cmp.Or(err, buffered.Flush()) }()
		out = buffered
	}
	encode := vegetalib.NewEncoder(out)
	attacker := vegetalib.NewAttacker(vegetalib.Workers(uint64(l.Connections)), vegetalib.Connections(l.Connections))
	targets := vegetalib.NewStaticTargeter(vegetalib.Target{Method: "GET", URL: l.URL})
	pace := vegetalib.ConstantPacer{Freq: int(l.Rate), Per: time.Second}
	for r := range attacker.Attack(targets, pace, l.For, "bench") {
		o.Requests++
		if r.Error != "" || r.Code != 200 {
			o.Failed++
		}
		if l.Record == "" {
			continue
		}
		if err := encode(r); err != nil {
			return o, err
		}
	}
	return o, nil
}
