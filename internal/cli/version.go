package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
	"lapse/internal/run/version"
)

// built says what this program is.
type built struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitzero"` // with "-dirty" if it was built from changed files
	Go       string `json:"go"`
	Platform string `json:"platform"` // as in linux/amd64
	Image    string `json:"image"`    // of the Job, where nothing names another
}

func newVersion() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, what it was built from, and the Job's default image",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return printBuilt(cmd.OutOrStdout(), format, builtFrom(info))
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

// builtFrom returns what this program is. info may be nil.
func builtFrom(info *debug.BuildInfo) built {
	b := built{
		Version:  version.Version,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Image:    builtInImage,
	}
	if info == nil {
		return b
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if b.Commit != "" {
		b.Commit += changed
	}
	return b
}

func printBuilt(w io.Writer, format string, b built) error {
	switch format {
	case "json":
		return printJSON(w, b)
	case "table":
		_, err := fmt.Fprintf(w, "lapse %s\n", b.Version)
		rows := [][2]string{{"commit", b.Commit}, {"go", b.Go}, {"platform", b.Platform}, {"image", b.Image}}
		for _, row := range rows {
			if err == nil && row[1] != "" {
				_, err = fmt.Fprintf(w, "%-9s %s\n", row[0], row[1])
			}
		}
		return err
	}
	return noFormat(format)
}

// noFormat is the error about an output format that is neither json nor table.
func noFormat(format string) error {
	return exit.Usagef("one of: json, table", "unknown output format %q", format)
}

func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
