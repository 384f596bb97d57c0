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

// A fetcher fetches a run's result as [deploy.Retrieve] does.
type fetcher func(ctx context.Context, run *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error)

// Retrieve fetches a run's result into dir, and prints it. It keeps what it fetched even if the rest does not come.
func Retrieve(
	ctx context.Context, run *deploy.Run, fetch fetcher, dir string, as saved.Output, stdout, stderr io.Writer,
) error {
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
	again := fmt.Sprintf("`lapse retrieve -n %s %s --out %s` fetches", run.Namespace, run.Name, dir)
	switch {
	case isOther(err) && kept > 0:
		return hint.Errorf("remove it, and try again", "%s is damaged, or a part of another run: %w", part.path, err)
	case err != nil && kept > 0:
		fmt.Fprintf(stderr, "kept the %d bytes that came, in %s: `lapse report` shows them, and %s the rest\n",
			kept, part.path, again)
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
				"While the Pod holds its recording, remove the file, and %s it\n", part.path, again)
		}
		tl, err := report.ReadJSON(bytes.NewReader(got.Timeline))
		if err != nil {
			return err
		}
		return saved.Deliver(stdout, dir, as, tl)
	}
	fmt.Fprintf(stdout, "%s\n", got.Verdict)
	const verdictOnly = "only the verdict of run %s is left: the Pod was gone before its result was fetched"
	return exit.With(verdictCode(got.Verdict), fmt.Errorf(verdictOnly, run.Name))
}

// verdictCode returns the exit code in a run's verdict, or [exit.Internal].
func verdictCode(verdict json.RawMessage) int {
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

// A partial is the recording of a run while it is fetched. It has another name than a whole one. A part of an earlier
// try is continued.
type partial struct {
	path string
	File *os.File
	have io.Reader // the part of an earlier try; nil: none
}

// openPart opens the part of the run's recording in dir, or begins one.
func openPart(dir string, run *deploy.Run) (*partial, error) {
	p := &partial{path: filepath.Join(dir, saved.PartialFile)}
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

// idOf returns the ID of the run whose recording the file at path begins with.
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

func (p *partial) Write(b []byte) (int, error) { return p.File.Write(b) }

// Keep gives the whole recording its name, if the file is what the Pod holds. After that the Pod is released.
func (p *partial) Keep(whole record.Receipt) error {
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

// keep returns the size of an incomplete recording. It removes an empty one.
func (p *partial) keep() int64 {
	info, err := os.Stat(p.path)
	if err != nil {
		return 0
	}
	if info.Size() == 0 {
		os.Remove(p.path)
	}
	return info.Size()
}
