package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/internal/hint"
	"lapse/internal/record"
	"lapse/timeline"
)

// Dial opens a connection to the agent. It has the arguments of net.Dialer's DialContext. A [Tunnel] ignores network
// and address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A Client calls an agent's API. If a connection breaks, its methods repeat the request until ctx ends, the agent
// refuses (a [RefusedError]), or its Pod is gone (a [GoneError]).
type Client struct {
	Idle        time.Duration // timeout of a stream of facts that brings nothing; default 15 s
	Logger      *slog.Logger  // where broken connections are logged; may be nil
	RunsCommand bool          // this workstation runs the command: its calls are signs of life
	Coordinator string        // whose session of a prober the calls are about; empty: the run's

	http    *http.Client
	base    string
	process string // the only process that may answer; empty: any
	name    string // distinguishes this client's numbered events from another's

	mu   sync.Mutex // one post of events at a time, in order
	next uint64     // number of the next event
}

// NewClient returns a client of the agent that dial leads to.
func NewClient(dial Dial) *Client {
	return &Client{
		http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}},
		base: "http://127.0.0.1:" + strconv.Itoa(DefaultPort), // the name only; dial knows the way
		name: rand.Text(),
	}
}

// Close closes the connections that wait for a next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A RefusedError is the agent's own refusal. Repeating the request does not help.
type RefusedError struct {
	Status  int // HTTP status
	Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("agent: %s", cmp.Or(e.Message, http.StatusText(e.Status)))
}

// A GoneError says that the agent's Pod does not run any more, so nothing can be fetched from it.
type GoneError struct {
	Pod    string
	Detail string // how the Pod ended
	Ended  bool   // it still exists, and its log can be read
}

func (e *GoneError) Error() string { return fmt.Sprintf("Pod %s %s", e.Pod, e.Detail) }

// Status returns the progress of the run.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &status)
	return status, err
}

// Settle tells the agent that the measured change is over.
func (c *Client) Settle(ctx context.Context, reason string) error {
	return c.call(ctx, http.MethodPost, "/v1/settle", nil, reasonBody{reason}, nil)
}

// Abort ends the run now.
func (c *Client) Abort(ctx context.Context, reason string) error {
	return c.call(ctx, http.MethodPost, "/v1/abort", nil, reasonBody{reason}, nil)
}

// Ack tells the agent that the recording is safe here, so that it can stop waiting.
func (c *Client) Ack(ctx context.Context, receipt record.Receipt) error {
	return c.call(ctx, http.MethodPost, "/v1/ack", nil, receipt, nil)
}

// Send sends events to the agent, each once and in order. Their instants must be on the run's clock
// ([Client.SyncClock]).
func (c *Client) Send(ctx context.Context, events ...timeline.Event) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	header := http.Header{headerClient: {c.name}, headerFirst: {strconv.FormatUint(c.next, 10)}}
	c.next += uint64(len(events))
	return c.call(ctx, http.MethodPost, "/v1/events", header, events, nil)
}

const clockExchanges = 8

// SyncClock compares the local clock with the run's. The agent reads its clock at some instant between request and
// answer, so the quickest of several exchanges gives the narrowest bounds. Clocks drift apart: compare again now and
// then.
func (c *Client) SyncClock(ctx context.Context, local timeline.Clock) (timeline.ClockOffset, error) {
	var best timeline.ClockOffset
	for i := range clockExchanges {
		offset, err := c.Exchange(ctx, local)
		if err != nil {
			return timeline.ClockOffset{}, err
		}
		if i == 0 || offset.Width() < best.Width() {
			best = offset
		}
	}
	return best, nil
}

// Exchange compares the clocks once. The bounds are those of the attempt that was answered.
func (c *Client) Exchange(ctx context.Context, local timeline.Clock) (offset timeline.ClockOffset, err error) {
	const path = "/v1/clock"
	err = c.repeat(ctx, http.MethodGet, path, func(ctx context.Context) error {
		var answer clockReply
		asked := local.Now()
		err := c.callOnce(ctx, http.MethodGet, path, nil, nil, &answer)
		offset = timeline.ClockOffset{Min: answer.Now - local.Now(), Max: answer.Now - asked}
		return err
	})
	if err != nil {
		return timeline.ClockOffset{}, err
	}
	return offset, nil
}

// Follow copies the recording to w while it is written. It returns when the copy is complete and its length and
// checksum match the agent's. After a broken connection it continues at the next byte. An error of w ends it at once.
// If it fails, the receipt's length says how much was copied.
//
// Follow does not acknowledge the copy: call [Client.Ack] once it is safe.
func (c *Client) Follow(ctx context.Context, w io.Writer) (record.Receipt, error) {
	return c.Continue(ctx, nil, w)
}

// Continue does the same as [Client.Follow] if w already has the beginning of the recording, which have reads. A nil
// have is empty.
func (c *Client) Continue(ctx context.Context, have io.Reader, w io.Writer) (record.Receipt, error) {
	copied := newCounted(io.Discard)
	if have != nil {
		if _, err := io.Copy(copied, have); err != nil {
			return record.Receipt{}, fmt.Errorf("%w: read what was fetched before: %w", ErrKeep, err)
		}
	}
	copied.w = w
	backoff, before := pauses(), copied.length
	delay := wait.DelayFunc(func() time.Duration {
		if copied.length > before {
			backoff, before = pauses(), copied.length
		}
		return backoff.Step()
	})
	err := delay.Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		if err = c.followOnce(ctx, copied); err == nil {
			err = c.compare(ctx, copied)
		}
		if err == nil || copied.err != nil || final(ctx, err) {
			return true, err
		}
		c.log("connection to the agent broke; trying again", "error", err, "received", copied.length)
		return false, nil
	})
	if copied.err != nil {
		return copied.receipt(), fmt.Errorf("%w: %w", ErrKeep, copied.err)
	}
	if gone, ok := errors.AsType[*GoneError](err); ok {
		err = hint.Add(hint.Of(err), gone) // without the request that found it out
	}
	if err != nil {
		err = fmt.Errorf("fetch the recording: %w", caused(ctx, err))
	}
	return copied.receipt(), err
}

// followOnce reads facts until their stream ends: properly (nil), or not.
func (c *Client) followOnce(ctx context.Context, copied *counted) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := cmp.Or(c.Idle, 15*time.Second)
	watchdog := time.AfterFunc(idle, func() { cancel(fmt.Errorf("nothing came for %s", idle)) })
	defer watchdog.Stop()

	path := "/v1/facts?offset=" + strconv.FormatInt(copied.length, 10)
	response, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return caused(ctx, err)
	}
	defer response.Body.Close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			watchdog.Reset(idle)
			if _, err := copied.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return caused(ctx, err)
		}
	}
}

// caused returns why ctx ended, if it did, and err otherwise.
func caused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// errMore says that the stream of facts ended, but the run did not.
var errMore = errors.New("there is more to fetch")

// compare returns an error if the copy is not the agent's recording.
func (c *Client) compare(ctx context.Context, copied *counted) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	ours, theirs := copied.receipt(), record.Receipt{Length: status.Size, SHA256: status.SHA256}
	if status.Phase != timeline.PhaseEnded || ours.Length < theirs.Length {
		return errMore
	}
	if ours != theirs {
		differ := &ChecksumError{Got: ours, Want: theirs}
		return hint.Add("the agent still has its recording: fetch it again with `lapse retrieve`", differ)
	}
	return nil
}

// A ChecksumError says that a copy differs from the agent's recording.
type ChecksumError struct{ Got, Want record.Receipt }

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("the copy has %d bytes with SHA-256 %.12s…, the agent's recording %d bytes with %.12s…",
		e.Got.Length, e.Got.SHA256, e.Want.Length, e.Want.SHA256)
}

// counted counts and hashes what is written to w, and keeps w's error.
type counted struct {
	w      io.Writer
	hash   hash.Hash
	length int64
	err    error // of w
}

func newCounted(w io.Writer) *counted { return &counted{w: w, hash: sha256.New()} }

// ReceiptOf reads a recording to its end and returns the receipt for it.
func ReceiptOf(r io.Reader) (record.Receipt, error) {
	all := newCounted(io.Discard)
	_, err := io.Copy(all, r)
	return all.receipt(), err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.hash.Write(p[:n])
	c.length += int64(n)
	c.err = err
	return n, err
}

func (c *counted) receipt() record.Receipt {
	return record.Receipt{Length: c.length, SHA256: hex.EncodeToString(c.hash.Sum(nil))}
}

// ErrKeep says that the copy could not be stored here. Repeating does not help.
var ErrKeep = errors.New("keep the recording")

// pauses returns the pauses between attempts.
func pauses() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: 2 * time.Second, Steps: math.MaxInt}
}

// callTimeout is the timeout of one attempt of a call.
const callTimeout = 10 * time.Second

// call repeats one request until it gets an answer.
func (c *Client) call(ctx context.Context, method, path string, header http.Header, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	return c.repeat(ctx, method, path, func(ctx context.Context) error {
		return c.callOnce(ctx, method, path, header, body, out)
	})
}

// repeat repeats the attempts of a call until one gets an answer.
func (c *Client) repeat(ctx context.Context, method, path string, attempt func(context.Context) error) error {
	var last error
	err := pauses().DelayFunc().Until(ctx, true, true, func(ctx context.Context) (done bool, err error) {
		last = attempt(ctx)
		if last == nil || final(ctx, last) {
			return true, last
		}
		c.log("call to the agent failed; trying again", "call", method+" "+path, "error", last)
		return false, nil
	})
	if err != nil && err != last {
		return fmt.Errorf("%w; last error: %w", context.Cause(ctx), last)
	}
	return err
}

func (c *Client) callOnce(ctx context.Context, method, path string, header http.Header, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := c.request(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(out)
}

// request sends one request and turns a refusal into an error.
func (c *Client) request(
	ctx context.Context, method, path string, header http.Header, body []byte,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, header)
	if c.RunsCommand {
		request.Header.Set(headerRunsCommand, "1")
	}
	if c.Coordinator != "" {
		request.Header.Set(headerCoordinator, c.Coordinator)
	}
	if c.process != "" {
		request.Header.Set(headerProcess, c.process)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	var refusal errorReply
	_ = json.NewDecoder(io.LimitReader(response.Body, maxBody)).Decode(&refusal) // the status says enough
	return nil, &RefusedError{response.StatusCode, refusal.Error}
}

// final reports whether repeating is useless after err.
func final(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ChecksumError](err); ok {
		return true
	}
	_, ok := errors.AsType[*GoneError](err)
	return ok
}

func (c *Client) log(message string, args ...any) {
	if c.Logger != nil {
		c.Logger.Info(message, args...)
	}
}
