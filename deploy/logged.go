package deploy

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// TerminationLog is where Kubernetes reads a container's termination message from.
const TerminationLog = "/dev/termination-log"

// maxTermination is how many bytes Kubernetes keeps of a termination message.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
const maxTermination = 4096

// terminationMessage returns the first of the values that fits into a termination message, as JSON. Give the verdict in
// full first, and shorter forms after it.
func terminationMessage(values ...any) ([]byte, error) {
	for _, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("termination message: %w", err)
		}
		if len(text) <= maxTermination {
			return text, nil
		}
	}
	return nil, fmt.Errorf("termination message: none of %d forms fits into %d bytes", len(values), maxTermination)
}

// WriteTermination writes the first of the values that fits to the file at path ([TerminationLog]).
func WriteTermination(path string, values ...any) error {
	text, err := terminationMessage(values...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	return nil
}

// The timeline in the Pod's log is between markers. Its lines begin with a prefix, because lines of
// stderr appear in the same log and may be among them.
const (
	beginTimeline = "-----BEGIN LAPSE TIMELINE-----"
	endTimeline   = "-----END LAPSE TIMELINE-----"
	linePrefix    = "| "
	lineLength    = 4096

	// A kubelet rotates a log at 10 MiB by default, and shows only what came after. It stores some bytes more with
	// each line.
	maxLogged = 8 << 20
	// A limit for what a log may unpack to.
	maxTimeline = 1 << 30
)

// errTooLarge says that a timeline does not fit into a log.
var errTooLarge = errors.New("the compressed timeline does not fit into a container's log")

var (
	errNoTimeline = errors.New("there is no timeline in the log")
	errNoVerdict  = errors.New("there is no verdict in the termination message")
)

// WriteTimeline calls write for a timeline and writes that to w, the agent's stdout, in the form that [ParseTimeline]
// reads: compressed, between markers, with its length and checksum. It returns an error, and writes nothing, if the
// timeline is too large.
func WriteTimeline(w io.Writer, write func(io.Writer) error) error {
	packed, length, sum, err := pack(write)
	if err != nil {
		return fmt.Errorf("compress the timeline: %w", err)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n%slength=%d sha256=%s\n", beginTimeline, linePrefix, length, hex.EncodeToString(sum))
	for len(packed) > 0 {
		n := min(lineLength, len(packed))
		fmt.Fprintf(out, "%s%s\n", linePrefix, packed[:n])
		packed = packed[n:]
	}
	fmt.Fprintln(out, endTimeline)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the timeline: %w", err)
	}
	return nil
}

// ParseTimeline finds the timeline in a Pod's log, the last one if there are several.
func ParseTimeline(log io.Reader) ([]byte, error) {
	block, err := findBlock(log)
	if err != nil {
		return nil, err
	}
	var length int64
	var sum string
	if _, err := fmt.Sscanf(block[0], "length=%d sha256=%s", &length, &sum); err != nil {
		return nil, fmt.Errorf("timeline in the log: header %q: %w", block[0], err)
	}
	timeline, err := unpack(strings.Join(block[1:], ""))
	if err != nil {
		return nil, fmt.Errorf("timeline in the log: %w", err)
	}
	if got := sha256.Sum256(timeline); int64(len(timeline)) != length || hex.EncodeToString(got[:]) != sum {
		return nil, errors.New("timeline in the log: it is damaged")
	}
	return timeline, nil
}

// findBlock returns the lines of the last whole block, without prefixes; there is at least one.
func findBlock(log io.Reader) ([]string, error) {
	var current, found []string
	inside, begun := false, false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		switch {
		case line == beginTimeline:
			current, inside, begun = nil, true, true
		case line == endTimeline && inside && len(current) > 0:
			found, inside = current, false
		case inside && strings.HasPrefix(line, linePrefix):
			current = append(current, strings.TrimPrefix(line, linePrefix))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if found == nil && begun {
		return nil, errors.New("timeline in the log: it is cut off")
	}
	if found == nil {
		return nil, errNoTimeline
	}
	return found, nil
}

// packWindow is how far back the compressor looks for repetitions: the more, the more memory it takes.
const packWindow = 1 << 20

// pack compresses what write writes. length and sum are the length and the SHA-256 before compression.
func pack(write func(io.Writer) error) (packed []byte, length int64, sum []byte, err error) {
	var kept atMost
	text := base64.NewEncoder(base64.StdEncoding, &kept)
	encoder, err := zstd.NewWriter(text,
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(packWindow))
	if err != nil {
		return nil, 0, nil, err
	}
	hash, whole := sha256.New(), counter(0)
	err = write(io.MultiWriter(encoder, hash, &whole))
	if err := cmp.Or(err, encoder.Close(), text.Close()); err != nil {
		return nil, 0, nil, err
	}
	return kept.Bytes(), int64(whole), hash.Sum(nil), nil
}

// atMost keeps up to maxLogged bytes.
type atMost struct{ bytes.Buffer }

func (b *atMost) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxLogged {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

// A counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func unpack(text string) ([]byte, error) {
	compressed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxTimeline), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(compressed, nil)
}
