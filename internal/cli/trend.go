package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lapse/correlate/trend"
	"lapse/internal/bucket"
	"lapse/internal/guard"
	"lapse/internal/report/document"
	trends "lapse/internal/report/trend"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/terminal"
)

const trendHelp = `Trend says what many runs show together, by Service and release. The first line says whether there
are runs enough: a median takes 6, a comparison of two releases 4 of each.

DIR is a folder of runs, which are judged anew, or of a history.ndjson, which -o ndjson writes (default
runs/). "guard" is the history of the guard in the namespace of -n (default "lapse"), s3://BUCKET/PREFIX
that of the guards with this --store; the key, and the server if it is not Amazon's, are in $AWS_…, as
"lapse guard" takes them. The exit code is 0 whatever is found, and 6 if a run or a line could not be read.`

func newTrend() *cobra.Command {
	var kube access.Kube
	var format string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "trend [DIR|guard|s3://BUCKET/PREFIX]",
		Short: "Say what many runs show together, by Service and release",
		Long:  trendHelp,
		Example: `  lapse trend runs
  lapse trend runs -o ndjson >> history/history.ndjson
  lapse trend history`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, ok := trends.Named(format)
			if !ok {
				return exit.Usagef("one of: "+trends.Names(), "unknown output format %q", format)
			}
			h, err := historyOf(cmd.Context(), append(args, "runs")[0], kube)
			if err != nil {
				return err
			}
			for _, err := range append(h.CutOff, h.Unread...) {
				fmt.Fprintf(cmd.ErrOrStderr(), "lapse: left out: %s\n", document.Clean(err.Error()))
			}
			if len(h.Lines) == 0 {
				return exit.Stopped("none of the runs and lines could be read")
			}
			runs := trends.Runs{Lines: h.Lines, Trend: trend.Of(h.Lines)}
			options := trends.Options{Screen: terminal.StyleOf(cmd.OutOrStdout()).Screen, Verbose: verbose}
			if err := f.Write(cmd.OutOrStdout(), runs, options); err != nil {
				return err
			}
			if n := len(h.Unread); n > 0 {
				return exit.Stopped("%d of the runs and lines could not be read", n)
			}
			return nil
		},
	}
	guardKubeFlags(&kube, cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+trends.Names())
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "all groups of runs, and all releases")
	return cmd
}

// historyOf returns the history of a directory, or of a guard in the cluster.
func historyOf(ctx context.Context, of string, kube access.Kube) (h saved.History, err error) {
	if strings.HasPrefix(of, bucket.Scheme) {
		return historyIn(ctx, of)
	}
	if of != guardArg {
		return saved.ReadHistory(of)
	}
	client, err := statusClient(ctx, kube)
	if err != nil {
		return h, err
	}
	h, err = guard.History(ctx, client, guard.DefaultPrivate)
	if err != nil {
		return h, exit.StoppedOr(ctx, exit.AsUsage(err))
	}
	if len(h.Lines)+len(h.Unread) == 0 {
		err = exit.Usagef("it has one from its first run on", "the guard has no history")
	}
	return h, err
}

// historyIn returns the history in a bucket.
func historyIn(ctx context.Context, location string) (h saved.History, err error) {
	b, err := bucket.Open(location, "")
	if err != nil {
		return h, exit.AsUsage(err)
	}
	keys, err := b.List(ctx, bucket.HistoryDir)
	if err != nil {
		return h, exit.StoppedOr(ctx, exit.Usagef("is it what `lapse guard` has for --store?", "list %s: %w", b, err))
	}
	if len(keys) == 0 {
		return h, exit.Usagef("it has one from the first run on", "%s has no history of a guard", b)
	}
	err = b.GetAll(ctx, keys, func(key string, text io.Reader) error { return h.Read(text, key) })
	return h, exit.StoppedOr(ctx, err)
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return exactly(1, "the DIR of a folder of runs, or \"guard\"")(cmd, args)
}
