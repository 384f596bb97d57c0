package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/internal/guard"
	"lapse/internal/hint"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
)

// Where `lapse guard arm` finds the token if no file is named, and how to make one.
const (
	envToken = "LAPSE_GUARD_TOKEN"
	newToken = "as `openssl rand -hex 32` makes one"
)

func newGuardArm() *cobra.Command {
	var kube access.Kube
	var place guardPlace
	var file string
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "arm svc/NAME [flags]",
		Short: "Measure a guarded Service at the full rate, before a disruption that no sign announces",
		Long: `Measure a guarded Service at the full rate, as after a sign of a disruption. It takes the token of the
guard (--token-file, or $` + envToken + `).`,
		Example: "  lapse guard arm svc/web -n shop --for 30m --token-file token",
		Args:    exactly(1, "the Service, svc/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			service, err := gateService(args[0], kube)
			if err != nil {
				return err
			}
			token := os.Getenv(envToken)
			if file != "" {
				token, err = guard.ReadToken(file)
			}
			if err != nil || token == "" {
				return exit.Usagef("--token-file FILE, or $"+envToken, "the guard's token is needed: %w",
					cmp.Or(err, errors.New("there is none")))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			at, client, err := findGuard(ctx, kube, place, service)
			if err != nil {
				return err
			}
			armed, err := guard.Arm(ctx, client, at, token, service, length)
			if err != nil {
				advice := cmp.Or(hint.Of(err), "see `lapse guard arm --help`, and `lapse guard status`")
				return exit.StoppedOr(ctx, exit.Usagef(advice, "%w", err))
			}
			until := armed.Until.Format(time.RFC3339)
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is armed until %s\n", armed.Service, until)
			return err
		},
	}
	kubeFlags(&kube, cmd.Flags())
	f := cmd.Flags()
	f.DurationVar(&length, "for", guard.DefaultArmed, "how long to wait for the disruption, at most 1h")
	f.StringVar(&file, "token-file", "", "a `FILE` with the guard's token (default: $"+envToken+")")
	placeFlags(&place, f)
	return cmd
}
