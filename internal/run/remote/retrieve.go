package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"lapse/correlate"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
)

// A Fetcher brings a run's result home as [deploy.Retrieve] does.
type Fetcher func(ctx context.Context, run *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error)

// Retrieve fetches a run's result into dir, and prints it. What it fetched it keeps, also if the rest does not come.
func Retrieve(ctx context.Context, run *deploy.Run, fetch Fetcher, dir string, as saved.Output, stdout, stderr io.Writer) error {
	release, err := saved.ClaimDir(dir)
	if err != nil {
		return err
	}
	defer release()
	part, err := openPart(dir, run)
	if err != nil {
		return err
	}
	got, err := fetch(ctx, run, part.have, part)
	if closeErr := part.File.Close(); err == nil {
		err = closeErr
	}
	kept := part.keep()
	switch {
	case isOther(err) && kept > 0:
		return hint.Errorf("remove it, and try again", "%s is damaged, or a part of another run: %w", part.path, err)
	case err != nil && kept > 0:
		fmt.Fprintf(stderr, "kept the %d bytes that came, in %s: `lapse report` shows them, and `lapse retrieve -n %s %s --out %s` fetches the rest\n",
			kept, part.path, run.Namespace, run.Name, dir)
		return exit.StoppedOr(ctx, err)
	case err != nil:
		os.Remove(dir) // only if nothing else is in it
		return exit.StoppedOr(ctx, err)
	case got.From == deploy.FromAgent:
		tl, err := saved.Load(dir, correlate.Options{}, nil)
		if err != nil {
			return err
		}
		return saved.Deliver(stdout, dir, as, tl)
	case got.From == deploy.FromLog:
		if kept > 0 && isOther(errors.Join(got.Failed...)) {
			fmt.Fprintf(stderr, "%s is damaged, or a part of another run: the result is from the Pod's log. "+
				"While the Pod holds its recording, remove the file, and `lapse retrieve -n %s %s --out %s` fetches it\n",
				part.path, run.Namespace, run.Name, dir)
		}
		tl, err := report.ReadJSON(bytes.NewReader(got.Timeline))
		if err != nil {
			return err
		}
		return saved.Deliver(stdout, dir, as, tl)
	}
	fmt.Fprintf(stdout, "%s\n", got.Verdict)
	return exit.With(VerdictCode(got.Verdict), fmt.Errorf("only the verdict of run %s is left: the Pod was gone before its result was fetched", run.Name))
}

// VerdictCode is the exit code that a run's verdict names, else that of something broken.
func VerdictCode(verdict json.RawMessage) int {
	var v struct{ ExitCode *int }
	if err := json.Unmarshal(verdict, &v); err != nil || v.ExitCode == nil {
		return exit.Internal
	}
	return *v.ExitCode
}

// isOther reports whether what was fetched is not the Pod's recording.
func isOther(err error) bool {
	_, other := errors.AsType[*agent.ChecksumError](err)
	refusal, refused := errors.AsType[*agent.RefusedError](err)
	return other || refused && refusal.Status == http.StatusRequestedRangeNotSatisfiable
}

// A Part is the recording of a run while it is fetched. It has another name than a whole one, and what an earlier try
// has fetched is continued.
type Part struct {
	path string
	File *os.File
	have io.Reader // what was there before; nil: nothing
}

// openPart opens the part of the run's recording in dir, or begins one.
func openPart(dir string, run *deploy.Run) (*Part, error) {
	p := &Part{path: filepath.Join(dir, saved.PartialFile)}
	if id, ok := idOf(p.path); ok && id != run.Name {
		return nil, exit.Usagef("give another --out", "%s is a part of run %s, not of %s", p.path, id, run.Name)
	}
	var err error
	if p.File, err = os.OpenFile(p.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("keep the recording: %w", err)
	}
	info, err := p.File.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("continue the recording: %w", err), p.File.Close())
	}
	if info.Size() > 0 {
		p.have = io.NewSectionReader(p.File, 0, info.Size())
	}
	return p, nil
}

// idOf is the ID of the run whose recording begins the file at path, if that can be read.
func idOf(path string) (id string, ok bool) {
	f, err := record.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil && !saved.IsDamage(err) || run.Meta.ID == "" {
		return "", false
	}
	return run.Meta.ID, true
}

func (p *Part) Write(b []byte) (int, error) { return p.File.Write(b) }

// Keep makes the whole recording safe, under its name, if the file is what the Pod holds: the Pod is released after
// that.
func (p *Part) Keep(whole record.Receipt) error {
	if err := saved.SyncFile(p.File); err != nil {
		return err
	}
	written, err := os.Open(p.path)
	if err != nil {
		return err
	}
	defer written.Close()
	if got, err := agent.ReceiptOf(written); err != nil {
		return err
	} else if got != whole {
		return &agent.ChecksumError{Got: got, Want: whole}
	}
	return saved.RenameFile(p.path, filepath.Join(filepath.Dir(p.path), saved.FactsFile))
}

// keep returns how many bytes are there of a recording that is not whole. A part of nothing is removed.
func (p *Part) keep() int64 {
	info, err := os.Stat(p.path)
	if err != nil {
		return 0
	}
	if info.Size() == 0 {
		os.Remove(p.path)
	}
	return info.Size()
}
