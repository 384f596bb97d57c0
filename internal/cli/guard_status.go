package cli

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/deploy"
	"lapse/internal/guard"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
)

func newGuardStatus() *cobra.Command {
	var kube access.Kube
	var at, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how the guarded Services stand",
		Long: `Say how the guarded Services stand: of the guard in the namespace of -n (default "lapse"), which is
reached as "kubectl port-forward" reaches it, or of the one on this machine at --at.`,
		Example: "  lapse guard status\n  lapse guard status --at " + guard.DefaultPrivate,
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := checkFormat(format); err != nil {
				return err
			}
			client := http.DefaultClient
			if at == "" {
				var err error
				if client, err = statusClient(ctx, kube); err != nil {
					return exit.StoppedOr(ctx, err)
				}
			}
			at = cmp.Or(strings.Trim(strings.TrimPrefix(at, "http:"), "/"), guard.DefaultPrivate)
			r, err := guard.Ask(ctx, client, at)
			switch {
			case err != nil:
				return exit.StoppedOr(ctx, exit.AsUsage(err))
			case format == "json":
				return printJSON(cmd.OutOrStdout(), r)
			}
			return guard.Print(cmd.OutOrStdout(), r)
		},
	}
	guardKubeFlags(&kube, cmd.Flags())
	formatFlag(&format, cmd.Flags())
	cmd.Flags().StringVar(&at, "at", "", "the --status-listen of a guard on this machine")
	return cmd
}

// guardKubeFlags are [kubeFlags] of a verb that asks a guard of all its Services.
func guardKubeFlags(kube *access.Kube, f *pflag.FlagSet) {
	kubeFlags(kube, f)
	f.Lookup("namespace").Usage = "namespace of the guard (default: " + deploy.GuardNamespace + ")"
}

func formatFlag(format *string, f *pflag.FlagSet) {
	f.StringVarP(format, "output", "o", "table", "format: table, json")
}

func checkFormat(format string) error {
	if format == "table" || format == "json" {
		return nil
	}
	return noFormat(format)
}

// statusClient returns a client of what the guard in the namespace that is meant tells of all its Services.
func statusClient(ctx context.Context, kube access.Kube) (*http.Client, error) {
	return guardClient(ctx, kube, deploy.StatusPort, cmp.Or(kube.Namespace, deploy.GuardNamespace))
}

// guardClient returns a client of a port of the guard in the first of the namespaces that has one, whatever address it
// is told.
func guardClient(ctx context.Context, kube access.Kube, port int, namespaces ...string) (*http.Client, error) {
	cluster, err := kube.Connect(ctx)
	if err != nil {
		return nil, err
	}
	dial := deploy.DialGuard(cluster.Deploy(slog.New(slog.DiscardHandler)), port, namespaces...)
	return &http.Client{Transport: &http.Transport{DialContext: dial}}, nil
}
