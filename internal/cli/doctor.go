package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lapse/internal/doctor"
	"lapse/internal/hint"
	"lapse/internal/image"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/resolve"
	"lapse/internal/run/spec"
)

// doctorFlags are the flags of lapse doctor.
type doctorFlags struct {
	kube   access.Kube
	image  string
	page   string
	format string
}

func newDoctor() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine and the cluster allow, with the fix of each trouble",
		Long: `Check this machine: its system, clock, scheduler, limit of open files, and the page's address; and the
cluster: that the API server answers, your rights, whether the namespace lets the run's Pod in (a dry
run: nothing is created), and whether the image is on the nodes, or in its registry for their platforms.
Without a cluster, URLs can still be measured.

Exit code 2: a run in the cluster would not begin.`,
		Example: "  lapse doctor -n shop",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.format != "table" && f.format != "json" {
				return noFormat(f.format)
			}
			report, err := f.examine(cmd.Context())
			if err != nil {
				return err
			}
			if err := f.print(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			return exit.AsUsage(report.Failed())
		},
	}
	flags := cmd.Flags()
	kubeFlags(&f.kube, flags)
	flags.StringVar(&f.image, "image", "", "image of the Job (default: "+defaultImage+")")
	flags.StringVar(&f.page, "dashboard", "127.0.0.1:8080", "address to serve the page on")
	flags.StringVarP(&f.format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

// examine checks this machine, and the cluster if there is one.
func (f *doctorFlags) examine(ctx context.Context) (doctor.Report, error) {
	report := doctor.Report{SchemaVersion: 1, Findings: doctor.Machine(f.page)}
	o, err := Options()
	if err != nil {
		return report, err
	}
	o.Kube, o.Image, o.ID = f.kube, f.image, spec.NewID()
	if err := chooseImage(o); err != nil {
		return report, err
	}
	cluster, err := f.kube.Connect(ctx)
	if err != nil {
		found := err.Error()
		if report.Findings[0].Level == doctor.OK { // requests are measured from this system
			found += "; URLs can be measured"
		}
		report.Findings = append(report.Findings, doctor.Finding{
			Check: "cluster", Level: doctor.Warn, Found: found, Fix: hint.Of(err),
		})
		return report, nil
	}
	config := resolve.JobConfig(o, cluster.Namespace)
	registry := image.Registry{UserAgent: userAgent()}
	report.Findings = append(report.Findings, doctor.Cluster(ctx, cluster, config, registry)...)
	return report, nil
}

func (f *doctorFlags) print(w io.Writer, report doctor.Report) error {
	if f.format == "json" {
		return printJSON(w, report)
	}
	for _, found := range report.Findings {
		text := strings.ReplaceAll(found.Found, "\n", "\n      ")
		level := strings.ToUpper(string(found.Level))
		if _, err := fmt.Fprintf(w, "%-5s %s: %s\n", level, found.Check, text); err != nil {
			return err
		}
		if found.Fix == "" {
			continue
		}
		fix := strings.ReplaceAll(found.Fix, "\n", "\n           ")
		if _, err := fmt.Fprintf(w, "      fix: %s\n", fix); err != nil {
			return err
		}
	}
	return nil
}
