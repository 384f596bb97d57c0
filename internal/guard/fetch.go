package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lapse/internal/hint"
	"lapse/internal/history"
	"lapse/internal/run/saved"
)

const (
	runsPath    = "/v1/runs"
	historyPath = "/v1/" + saved.HistoryFile
)

// files are those of a run that are fetched. The last one shows that a run was judged.
var files = []string{saved.FactsFile, saved.TimelineFile}

// serveRuns lists the judged runs.
func (g *guard) serveRuns(w http.ResponseWriter, _ *http.Request) {
	names := slices.DeleteFunc(saved.Runs(g.Out), func(name string) bool {
		_, err := os.Stat(filepath.Join(g.Out, name, saved.TimelineFile))
		return err != nil
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(append([]string{}, names...)) // who asked may have gone
}

// serveFile serves a file of a run.
func (g *guard) serveFile(w http.ResponseWriter, r *http.Request) {
	run, file := r.PathValue("run"), r.PathValue("file")
	if !slices.Contains(files, file) || !isName(run) {
		http.NotFound(w, r)
		return
	}
	http.ServeFile(newFlow(w), r, filepath.Join(g.Out, run, file))
}

// isName reports whether a run's name is that of a directory beside others.
func isName(run string) bool { return filepath.IsLocal(run) && run == filepath.Base(run) && run != "." }

// How long an answer may take that is longer than those of the gate, for which the server has a limit.
const (
	mostStill = 30 * time.Second // for each flowChunk
	mostFlow  = time.Hour        // in all
	flowChunk = 8 << 10          // bytes
)

// A flow is an answer that goes on while it is read, as through a slow port-forward. It is cut when it is not read, or
// after [mostFlow].
type flow struct {
	http.ResponseWriter
	control *http.ResponseController
	end     time.Time
}

func newFlow(w http.ResponseWriter) *flow {
	return &flow{w, http.NewResponseController(w), time.Now().Add(mostFlow)}
}

func (f *flow) Write(text []byte) (written int, err error) {
	for chunk := range slices.Chunk(text, flowChunk) {
		at := time.Now().Add(mostStill)
		if at.After(f.end) {
			at = f.end
		}
		_ = f.control.SetWriteDeadline(at) // not every ResponseWriter has one
		n, err := f.ResponseWriter.Write(chunk)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// History returns the history of the guard at an address: nothing before its first run.
func History(ctx context.Context, client *http.Client, address string) (h saved.History, err error) {
	return historyAt(ctx, client, address+historyPath)
}

func historyAt(ctx context.Context, client *http.Client, url string) (h saved.History, err error) {
	err = get(ctx, client, url, func(body io.Reader) error {
		return h.Read(body, "the guard's history")
	})
	if part, ok := errors.AsType[notWhole](err); ok {
		h.Unread, err = append(h.Unread, part), nil
	}
	if errors.Is(err, errNotThere) {
		return h, nil
	}
	return h, err
}

// Fetch copies the judged runs of the guard at an address into dir, but those that are there, and the lines of history
// of those that the guard does not have any more. fetched is called after each run. The error names lines that cannot
// be read, too.
func Fetch(ctx context.Context, client *http.Client, address, dir string, fetched func(run string)) error {
	var runs []string
	list := func(body io.Reader) error { return json.NewDecoder(body).Decode(&runs) }
	if err := get(ctx, client, address+runsPath, list); err != nil {
		return err
	}
	for _, run := range runs {
		if !isName(run) {
			return fmt.Errorf("%s is no guard: it has a run named %q", address, run)
		}
		switch ok, err := fetchRun(ctx, client, address+runsPath+"/"+run, filepath.Join(dir, run)); {
		case err != nil:
			return fmt.Errorf("fetch %s: %w", run, err)
		case ok:
			fetched(run)
		}
	}
	gone, err := historyAt(ctx, client, address+historyPath+"?gone=1")
	return errors.Join(append(gone.Unread, err, addLines(dir, gone.Lines))...)
}

// addLines appends lines to the history in dir, but those of runs that are there.
func addLines(dir string, lines []history.Line) error {
	there := saved.Runs(dir)
	path := filepath.Join(dir, saved.HistoryFile)
	if h, err := saved.ReadHistory(path); err == nil {
		for _, l := range h.Lines {
			there = append(there, l.Run)
		}
	}
	lines = slices.DeleteFunc(lines, func(l history.Line) bool { return slices.Contains(there, l.Run) })
	if len(lines) == 0 {
		return nil
	}
	return errors.Join(os.MkdirAll(dir, 0o755), history.Append(path, lines...))
}

// fetchRun fetches a run, unless dir has it, or the guard has let go of it meanwhile. timeline.json comes last: without
// it the run is fetched again.
func fetchRun(ctx context.Context, client *http.Client, url, dir string) (ok bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, saved.TimelineFile)); err == nil {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	for _, name := range files {
		save := func(body io.Reader) error {
			return saved.ReplaceFile(filepath.Join(dir, name), func(w io.Writer) error {
				_, err := io.Copy(w, body)
				return err
			})
		}
		err := get(ctx, client, url+"/"+name, save)
		if errors.Is(err, errNotThere) { // there was no place for it, or it was deleted
			continue
		}
		if err != nil {
			return false, err
		}
		ok = true
	}
	if !ok {
		_ = os.Remove(dir) // unless something is in it
	}
	return ok, nil
}

// errNotThere is the error of what the guard does not have.
var errNotThere = errors.New("the guard has no such file any more")

// notWhole is the error of an answer that was read, and may lack lines, and says why.
type notWhole string

func (why notWhole) Error() string { return "the guard's history may lack lines: " + string(why) }

// silent returns the error of a guard that does not answer, without the address of a tunnel.
func silent(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	advice := cmp.Or(hint.Of(err), "does a guard run there? see `lapse guard status --help`")
	return hint.Errorf(advice, "the guard does not answer: %w", err)
}

func get(ctx context.Context, client *http.Client, address string, read func(io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	reply, err := client.Do(r)
	if err != nil {
		return silent(err)
	}
	defer reply.Body.Close()
	switch reply.StatusCode {
	case http.StatusOK:
		if err := read(reply.Body); err != nil {
			return err
		}
		if why := reply.Header.Get(notWholeHeader); why != "" {
			return notWhole(why)
		}
		return nil
	case http.StatusNotFound:
		return errNotThere
	}
	return fmt.Errorf("%s answers %s", address, reply.Status)
}
