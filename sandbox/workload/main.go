// Command workload is the HTTP server that Lapse's tests and its demo disturb. How it starts, answers and ends
// is a matter of flags:
//
//	workload --start-delay 2s --ready-delay 1s      listens late, /readyz says yes later still
//	workload --latency 20ms --body-size 4096
//	workload --on-sigterm exit                      what many servers do: gone at once, mid-request
//	workload --on-sigterm ignore                    until SIGKILL
//	workload --on-sigterm graceful --drain-for 10s  what a server should do, see server.drain
//	workload --on-sigterm graceful --ends cut       it serves on, but cuts its connections at the end unannounced
//	workload --ends-over 5s                         connections that live long are ended one by one, not all at once
//	workload --on-sigterm graceful --unready-at-sigterm    /readyz says no from SIGTERM on, and all is served
//	workload --on-sigterm graceful --udp :9053 --close-first udp    SIGTERM closes the port of UDP, the rest serves on
//	workload --ready-peer http://db/                ready only while another server answers
//	workload --warm-up 3s                           ready at once, but every answer is a 503 for 3 s
//	workload --idle-timeout 5s                      closes connections that wait 5 s for a request
//	workload --backlog 1 --accept-delay 4s          listens, but accepts nothing at first
//
// It speaks other protocols as well, each in a file of its own:
//
//	/ws, /events                                    on the port of HTTP: a WebSocket that echoes, server-sent events
//	workload --h2c                                  also HTTP/2 without TLS; with TLS it is always there
//	workload --grpc :9090                           grpc.health.v1.Health and lapse.workload.Echo/Echo
//	workload --tcp :9000 --udp :9053                echo servers
//
// `workload shell FLAGS` runs it as a child that SIGTERM does not reach, `workload proxy` is a TCP proxy (proxy.go),
// and requests to /ready/off, /crash/3 and others change what it does (switches.go).
//
// It prints when SIGTERM came and between which two instants it stopped listening, on the machine's clock: the truth
// that a measurement is compared with. At its end it prints how many requests it has answered. Every reply names its
// pod in the header X-Pod. /readyz is for the readiness probe, /healthz for the liveness probe, /count says what this
// process has served; everything else gets the body.
// `workload get URL` is a client, see get.go. `workload protoset` prints the descriptor set of the gRPC method.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Options are the flags.
type Options struct {
	Listen     string
	Name       string // what X-Pod says; the host name by default, which in a pod is the pod's name
	StartDelay time.Duration
	ReadyDelay time.Duration // counted from listening
	Latency    time.Duration
	BodySize   int
	OnSIGTERM  string
	DrainFor   time.Duration
	Ends       string        // how connections end after DrainFor: warn or cut
	EndsOver   time.Duration // those that live long, one by one
	Unready    bool          // /readyz says no from SIGTERM on
	CloseFirst string        // udp, or another protocol but HTTP, whose socket is closed at SIGTERM; empty: none
	TLSCert    string
	TLSKey     string

	ReadyPeer   string        // a URL; empty: none
	WarmUp      time.Duration // counted from listening
	IdleTimeout time.Duration // 0: none
	Backlog     int           // 0: the kernel's
	AcceptDelay time.Duration // counted from listening
	ExitCode    int           // at SIGTERM, of --on-sigterm exit

	H2C         bool
	GRPC        string // addresses; empty: not served
	TCP         string
	UDP         string
	EchoName    bool
	EventsEvery time.Duration
}

func parse(args []string, stderr io.Writer) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Listen, "listen", ":8080", "address to serve on")
	flags.StringVar(&o.Name, "name", "", "what X-Pod says (default: the host name)")
	flags.DurationVar(&o.StartDelay, "start-delay", 0, "wait before listening")
	flags.DurationVar(&o.ReadyDelay, "ready-delay", 0, "from listening until /readyz says yes")
	flags.DurationVar(&o.Latency, "latency", 0, "time every answer takes")
	flags.IntVar(&o.BodySize, "body-size", 2, "bytes in the body of an answer")
	flags.StringVar(&o.OnSIGTERM, "on-sigterm", "exit", "exit, ignore or graceful")
	flags.DurationVar(&o.DrainFor, "drain-for", 10*time.Second, "how long graceful goes on serving after SIGTERM")
	flags.StringVar(&o.ReadyPeer, "ready-peer", "", "URL of another server that must answer for /readyz to say yes")
	flags.DurationVar(&o.WarmUp, "warm-up", 0, "from listening, how long every answer but those to probes is a 503")
	flags.DurationVar(&o.IdleTimeout, "idle-timeout", 0, "close connections that wait so long for their next request")
	flags.IntVar(&o.Backlog, "backlog", 0, "how many connections can wait to be accepted (default: the kernel's limit)")
	flags.DurationVar(&o.AcceptDelay, "accept-delay", 0, "from listening, how long nothing is accepted")
	flags.IntVar(&o.ExitCode, "exit-code", 0, "exit code after SIGTERM, of --on-sigterm exit")
	flags.StringVar(&o.Ends, "ends", "warn", "after --drain-for, how connections end: warn (Connection: close, "+
		"GOAWAY, a close frame, an event stream's last event) or cut")
	flags.DurationVar(&o.EndsOver, "ends-over", 0,
		"over how long the ends of WebSockets, event streams and TCP connections are spread")
	flags.BoolVar(&o.Unready, "unready-at-sigterm", false, "/readyz says no from SIGTERM on, of --on-sigterm graceful")
	flags.StringVar(&o.CloseFirst, "close-first", "",
		"grpc, tcp or udp: its socket is closed at SIGTERM, of --on-sigterm graceful, while all else goes on for "+
			"--drain-for")
	flags.BoolVar(&o.H2C, "h2c", false, "also serve HTTP/2 without TLS on --listen, by prior knowledge")
	flags.StringVar(&o.GRPC, "grpc", "", "address to serve gRPC on, such as :9090")
	flags.StringVar(&o.TCP, "tcp", "", "address of the TCP echo, such as :9000")
	flags.StringVar(&o.UDP, "udp", "", "address of the UDP echo, such as :9053")
	flags.BoolVar(&o.EchoName, "echo-name", false,
		"an echo begins with the name and a space; without it, the name is the echo of `who`")
	flags.DurationVar(&o.EventsEvery, "events-every", time.Second, "time between two server-sent events")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "certificate; serves https with --tls-key, and TLS on --grpc and --tcp")
	flags.StringVar(&o.TLSKey, "tls-key", "", "key of the certificate")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	host, _ := os.Hostname()
	o.Name = cmp.Or(o.Name, host)
	return o, o.validate(flags.Args())
}

func (o Options) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.OnSIGTERM != "exit" && o.OnSIGTERM != "ignore" && o.OnSIGTERM != "graceful":
		return fmt.Errorf("--on-sigterm %q: choose exit, ignore or graceful", o.OnSIGTERM)
	case o.Ends != "warn" && o.Ends != "cut":
		return fmt.Errorf("--ends %q: choose warn or cut", o.Ends)
	case o.EndsOver < 0 || o.EndsOver > 0 && o.Ends == "cut":
		return fmt.Errorf("--ends-over %v: want a length of time, and not with --ends cut", o.EndsOver)
	case o.CloseFirst != "" && o.addressOf(o.CloseFirst) == "":
		return fmt.Errorf("--close-first %q: choose grpc, tcp or udp, and give its address as well", o.CloseFirst)
	case o.CloseFirst != "" && o.OnSIGTERM != "graceful":
		return fmt.Errorf("--close-first belongs to --on-sigterm graceful, not %s", o.OnSIGTERM)
	case o.Unready && o.OnSIGTERM != "graceful":
		return fmt.Errorf("--unready-at-sigterm belongs to --on-sigterm graceful, not %s", o.OnSIGTERM)
	case o.EventsEvery <= 0:
		return fmt.Errorf("--events-every %v: want a length of time", o.EventsEvery)
	case o.BodySize < 0:
		return fmt.Errorf("--body-size %d is negative", o.BodySize)
	case o.Backlog < 0:
		return fmt.Errorf("--backlog %d is negative", o.Backlog)
	case o.ExitCode < 0 || o.ExitCode > 255:
		return fmt.Errorf("--exit-code %d: choose 0 to 255", o.ExitCode)
	case o.ExitCode != 0 && o.OnSIGTERM != "exit":
		return fmt.Errorf("--exit-code belongs to --on-sigterm exit, not %s", o.OnSIGTERM)
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key belong together")
	}
	return nil
}

// addressOf returns the address at which a further protocol is served, "" if it is not.
func (o Options) addressOf(protocol string) string {
	return map[string]string{"grpc": o.GRPC, "tcp": o.TCP, "udp": o.UDP}[protocol]
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "get" {
		if err := get(context.Background(), os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "workload:", err)
			os.Exit(1)
		}
		return
	}
	// As process 1 of a container we must ask for SIGTERM, or the kernel drops it.
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "proxy":
			exit(proxy(context.Background(), os.Args[2:], terminate, os.Stdout))
		case "shell":
			exit(shell(os.Args[2:]))
		case "protoset":
			exit(printProtoset(os.Stdout))
		}
	}
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(2)
	}
	err = run(context.Background(), o, terminate, os.Stdout)
	if err == nil && o.OnSIGTERM == "exit" {
		os.Exit(o.ExitCode)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run serves until its behaviour on SIGTERM says that it is over.
func run(ctx context.Context, o Options, terminate <-chan os.Signal, log io.Writer) error {
	if gone := waitOrTerminate(o, terminate); gone {
		return nil
	}
	socket, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	listening := time.Now()
	if o.Backlog > 0 || o.AcceptDelay > 0 {
		if socket, err = slowAccept(socket, o.Backlog, listening.Add(o.AcceptDelay)); err != nil {
			return err
		}
	}
	listener := &stampedListener{Listener: socket, name: o.Name, log: log}
	s := newServer(o, listening)
	report := func() { fmt.Fprintf(log, "%s has answered %d requests\n", o.Name, s.counts.served.Load()) }
	s.switches.ends = report
	defer report()
	if err := s.openSides(); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s listens on %s\n", o.Name, listener.Addr())
	served := make(chan error, 1+len(s.sides))
	go func() { served <- s.serve(listener) }()
	for _, side := range s.sides {
		fmt.Fprintf(log, "%s serves %s on %s\n", o.Name, side.protocol, side.addr)
		go func() { served <- side.serve() }()
	}
	for {
		select {
		case err := <-served:
			return err
		case <-ctx.Done():
			s.cut()
			return <-served
		case <-terminate:
			fmt.Fprintf(log, "%s was told to end at %s: %s\n", o.Name, stamp(time.Now()), o.OnSIGTERM)
			switch o.OnSIGTERM {
			case "exit":
				return listener.Close() // and the process ends; the kernel cuts its connections
			case "graceful":
				return cmp.Or(s.drain(ctx, o.DrainFor), <-served)
			}
		}
	}
}

// A stampedListener prints when it was closed:
//
//	web-7fm4p stopped listening between 2026-11-22T03:48:39.123456789Z and 2026-11-22T03:48:39.123467891Z
type stampedListener struct {
	net.Listener
	name string
	log  io.Writer
	once sync.Once
}

func (l *stampedListener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		before := time.Now()
		err = l.Listener.Close() // returns once the socket is closed
		after := time.Now()
		fmt.Fprintf(l.log, "%s stopped listening between %s and %s\n", l.name, stamp(before), stamp(after))
	})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// waitOrTerminate waits for the start delay, and reports whether SIGTERM came first: a server that has not started has
// nothing to be graceful about.
func waitOrTerminate(o Options, terminate <-chan os.Signal) (gone bool) {
	started := time.After(o.StartDelay)
	for {
		select {
		case <-started:
			return false
		case <-terminate:
			if o.OnSIGTERM != "ignore" {
				return true
			}
		}
	}
}

func (s *server) serve(listener net.Listener) error {
	var err error
	if s.options.TLSCert != "" {
		err = s.http.ServeTLS(listener, s.options.TLSCert, s.options.TLSKey)
	} else {
		err = s.http.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
