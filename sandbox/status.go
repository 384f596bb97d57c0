package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"lapse/sandbox/build"
)

const goos = runtime.GOOS

// ended lists the components that should run and do not.
func (s *sandbox) ended() (names []string) {
	for _, p := range s.Processes {
		if !p.alive() {
			names = append(names, p.Name)
		}
	}
	return names
}

func runStatus(ctx context.Context, a *app, args []string) error {
	if err := parseVerb(a, "status", args, nil); err != nil {
		return err
	}
	s, err := loadUp(a.dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s, Kubernetes %s, API server https://%s, up %s\n\n",
		s.options().describe(), build.KubernetesVersion, s.Endpoint, time.Since(s.Started).Round(time.Second))
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tSTATE\tMEMORY\tCPU")
	for _, p := range s.Processes {
		fmt.Fprintf(table, "%s\t%d\t%s\n", p.Name, p.PID, describe(p))
	}
	fmt.Fprintln(table)
	notReady := s.describeNodes(ctx, table)
	table.Flush()
	if names := s.ended(); len(names) > 0 {
		return fmt.Errorf("not running: %s; run `sandbox up` to start afresh (logs: %s)",
			strings.Join(names, ", "), s.path("logs"))
	}
	return notReady
}

func describe(p process) string {
	st, err := readStat(p.PID)
	if err != nil || !p.alive() {
		return "ended\t\t"
	}
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux that Go runs on
	return fmt.Sprintf("running\t%d MiB\t%.1f s", residentMiB(p.PID), float64(st.ticks)/ticksPerSecond)
}

func residentMiB(pid int) int {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize() / (1 << 20)
}

func (s *sandbox) describeNodes(ctx context.Context, table *tabwriter.Writer) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	var failed []error
	fmt.Fprintln(table, "NODE\tADDRESS\tPODS\tREADY")
	for _, n := range s.nodes() {
		ready := "yes"
		if err := api.nodeReady(ctx, n.Name); err != nil {
			ready = err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", n.Name, err))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", n.Name, n.Addr, n.PodCIDR, ready)
	}
	return errors.Join(failed...)
}
