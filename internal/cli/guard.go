package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/bucket"
	"lapse/internal/guard"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/configmap"
	"lapse/internal/guard/lead"
	"lapse/internal/guard/store"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/run/access"
	"lapse/internal/run/direct"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/watcher"
)

// guardFlags are the flags of a run that a guard has, too: how it measures each Service.
var guardFlags = []string{
	"rate", "idle-rate", "sign", "baseline", "settle", "timeout", "connections", "join", "slow", "resolution",
	"min-coverage", "target", "direct-rate", "fail-if", "scheme", "expect-status", "control-plane",
}

// guardDefaults are those that differ from a run's.
var guardDefaults = map[string]string{
	"settle": "1m", "fail-if": "failed>0",
}

// guardUsage says what those mean that mean something else in a run.
var guardUsage = map[string]string{
	"rate":      "requests per second from a sign on, for each of new and reused",
	"idle-rate": "requests per second until a sign, for each of new and reused (default 5)",
	"baseline": "how long a Service is asked before signs count; 0 skips that and the health check (default 1s, " +
		"at least as long as 2 requests take)",
	"settle":  "how long nothing must have changed for a disruption to be over (default 1m, at most 15m)",
	"target":  "which kinds of connection to measure: new, reused",
	"fail-if": "a gate `EXPR`, such as 'failed>0' or 'downtime.total>500ms' (repeatable; default 'failed>0')",
	"expect-status": "status codes that count as success, such as 200,300-399, of Services without " +
		"lapse/expect-status (default 200-499)",
}

const guardHelp = `Measure every disruption of the Services with the annotation lapse/guard: "on", from before it
begins, until SIGTERM.

Each Service gets few requests until a sign of a disruption, and then the full rate. When nothing has
changed for --settle (1m), the disruption is over: it is judged (--fail-if 'failed>0'), kept in --out as
a run like any other, and answered for at --listen: see "lapse gate". Two disruptions within --settle
are one run. The owner of a Service says how to ask it: lapse/port, lapse/path, lapse/scheme and
lapse/expect-status (200-499).

"lapse gen guard" prints what it takes in a cluster.`

// A guardCommand is what the flags of `lapse guard` say.
type guardCommand struct {
	guard.Config
	limits  store.Limits
	kube    access.Kube
	all     bool
	size    string
	rate    float64
	file    string
	lease   string
	history string
	probers bool
	place   storeFlags
}

// storeFlags say in which bucket runs are kept.
type storeFlags struct{ url, endpoint string }

func (s *storeFlags) bind(f *pflag.FlagSet) {
	f.StringVar(&s.url, "store", "", "s3://BUCKET/PREFIX that keeps all runs and lines of history, too, with the "+
		"key in $AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or of the Pod's IAM role")
	f.StringVar(&s.endpoint, "store-endpoint", "", "`URL` of an S3 server other than Amazon's (default "+
		"$AWS_ENDPOINT_URL)")
}

// open returns the bucket, nil if there is none.
func (s *storeFlags) open() (*bucket.Bucket, error) {
	if s.url == "" {
		if s.endpoint != "" {
			return nil, exit.Usagef("as in --store s3://my-bucket/lapse", "--store-endpoint needs --store")
		}
		return nil, nil
	}
	b, err := bucket.Open(s.url, s.endpoint)
	return b, exit.AsUsage(err)
}

// opens returns the bucket once it is known that the guard may write to it. One that does not answer is used: it must
// not keep a guard from measuring.
func (s *storeFlags) opens(ctx context.Context, log *slog.Logger) (guard.Bucket, error) {
	b, err := s.open()
	if b == nil || err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err = b.Check(ctx)
	if r, ok := errors.AsType[*bucket.Refusal](err); ok && r.Lasting() {
		return nil, exit.Usagef("see `lapse guard --help`", "--store %s: %w", b, err)
	}
	if err != nil {
		log.Warn("the bucket does not answer: runs wait on disk", "bucket", b.String(), "error", err)
	}
	return b, nil
}

func newGuard() *cobra.Command {
	var c guardCommand
	cmd := &cobra.Command{
		Use:   "guard [flags]",
		Short: "Measure every disruption of the annotated Services, from before it begins",
		Long:  guardHelp,
		Example: `  lapse guard -n shop --out runs
  lapse guard -A --out /var/lib/lapse --keep-size 2Gi --keep-for 720h`,
		Args: noSuchVerb, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if c.file != "" {
				c.Reread = rereadFlags(c.file, cmd.Flags())
				if err := readFlags(cmd.Flags(), c.file); err != nil {
					return err
				}
			}
			if c.Settings, err = c.settings(cmd.Flags()); err != nil {
				return err
			}
			if c.TokenFile != "" {
				if _, err := guard.ReadToken(c.TokenFile); err != nil {
					return exit.Usagef(newToken, "--token-file: %w", err)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return c.run(ctx, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	c.bind(cmd.Flags())
	cmd.AddCommand(newGuardStatus(), newGuardArm())
	return cmd
}

func (c *guardCommand) bind(f *pflag.FlagSet) {
	kubeFlags(&c.kube, f)
	f.BoolVarP(&c.all, "all-namespaces", "A", false, "guard the annotated Services of all namespaces")
	f.StringVar(&c.Out, "out", "runs", "directory for the runs and their history")
	f.StringVar(&c.size, "keep-size", "1Gi", "how much the runs and their history may take; 0: no limit. A failed run "+
		"outlives those that passed, and the newest of each Service both")
	f.DurationVar(&c.limits.Age, "keep-for", 0, "how long a run is kept (default: without limit); the 10 newest "+
		"failed ones, and the newest of each Service, stay longer")
	f.Float64Var(&c.rate, "max-rate", 0, fmt.Sprintf("requests per second to all Services together; rates are "+
		"halved until they fit (default %d, or what one Service can take)", budget.Default))
	f.StringVar(&c.Listen, "listen", ":7117", "where the gate answers")
	f.StringVar(&c.Private, "status-listen", guard.DefaultPrivate, `where "lapse guard status" asks`)
	f.StringVar(&c.TokenFile, "token-file", "", "a `FILE` with the token of who may arm a Service or call a hook "+
		"(default: nobody may)")
	f.StringVar(&c.lease, "lease", "", "the `NAME` of a Lease, in this Pod's namespace, by which several "+
		"guards elect the one that writes Events and answers; all of them measure")
	f.StringVar(&c.history, "history", "", "the `NAME` of a ConfigMap, in this Pod's namespace, that keeps the lines "+
		"of the last 200 runs and what the gate says of them")
	f.BoolVar(&c.probers, "probers", false, `measure from nodes, too: "lapse gen guard --from" sets it`)
	c.place.bind(f)
	f.StringVar(&c.file, "config", "", "a `FILE` of more flags, one in a line: they count if the command line has "+
		"none, and again when they change")
	var measured spec.Options
	for _, d := range runTable(&measured) {
		if slices.Contains(guardFlags, d.name) {
			d.usage = cmp.Or(guardUsage[d.name], d.usage)
			d.bind(f, d)
		}
	}
}

// guardSettings are the flags that can change while a guard runs.
var guardSettings = append(slices.Clone(guardFlags), "max-rate", "keep-size", "keep-for")

// mostSettle leaves a disruption half of the 30 minutes after which a run ends that has not settled.
const mostSettle = 15 * time.Minute

// settings returns what the flags say of them.
func (c *guardCommand) settings(f *pflag.FlagSet) (*guard.Settings, error) {
	bytes, err := resource.ParseQuantity(c.size)
	if err != nil {
		return nil, exit.Usagef("as in --keep-size 2Gi", "keep-size %q: %w", c.size, err)
	}
	if c.limits.Bytes = bytes.Value(); c.limits.Bytes < 0 || c.limits.Age < 0 {
		return nil, exit.Usagef("0 is no limit", "keep-size and keep-for must not be negative")
	}
	s := &guard.Settings{Limits: c.limits, Options: guardOptions(c.kube, givenTo(f, guardFlags))}
	o, err := s.Options(watcher.Marked{Namespace: "default", Name: "any"})
	if err != nil { // of the flags
		return nil, hint.Add(cmp.Or(hint.Of(err), "see `lapse guard --help`"), err)
	}
	if o.Settle > mostSettle {
		return nil, exit.Usagef("as in --settle 1m", "settle %v: must be at most %v: a run that does not settle ends "+
			"after 30m", o.Settle, mostSettle)
	}
	if s.MaxRate, err = maxRate(f.Changed("max-rate"), c.rate, o); err != nil {
		return nil, err
	}
	return s, nil
}

// maxRate returns --max-rate, or its default.
func maxRate(given bool, rate float64, o *spec.Options) (float64, error) {
	one := guard.DemandOf(o).Most()
	switch {
	case !given:
		return max(budget.Default, one), nil
	case !(rate > 0) || math.IsInf(rate, 0):
		return 0, exit.Usagef(fmt.Sprintf("as in --max-rate %d", budget.Default), "max-rate %v: must be greater than 0",
			rate)
	case rate < one:
		return 0, exit.Usagef(fmt.Sprintf("as in --max-rate %.0f, or lower --rate", math.Ceil(one)),
			"max-rate %v: one Service can take %s requests per second, with --rate %v to each target "+
				"and up to %d times --direct-rate %v to its Pods' own addresses",
			rate, quantity.Number(one), o.Rate, 1+direct.MaxHurried, o.DirectRate)
	}
	return rate, nil
}

func (c *guardCommand) run(ctx context.Context, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // it mostly waits: the memory counts for more than the CPU
	}
	var err error
	if c.Bucket, err = c.place.opens(ctx, log); err != nil {
		return err
	}
	c.kube.Burst = 600 // for the EndpointSlices of some 30 Services at once, each read ten times per second
	cluster, err := c.kube.Connect(ctx)
	if err != nil {
		return err
	}
	c.Client, c.Namespace, c.Log = cluster.Client, cluster.Namespace, log
	c.Home = os.Getenv(deploy.EnvNamespace)
	if c.all {
		c.Namespace = metav1.NamespaceAll
	}
	if c.lease != "" {
		if c.Leader, err = c.election(); err != nil {
			return err
		}
	}
	if c.probers {
		if c.Probers, err = c.ofNodes(); err != nil {
			return err
		}
	}
	if c.history != "" {
		namespace := cmp.Or(os.Getenv(deploy.EnvNamespace), cluster.Namespace)
		c.Past = &configmap.Map{ConfigMaps: c.Client.ConfigMaps(namespace), Name: c.history, Log: log}
	}
	return guard.Run(ctx, c.Config)
}

// ofNodes returns who measures from other nodes. The guard that leads makes and renews their keys.
func (c *guardCommand) ofNodes() (*guard.Probers, error) {
	me := os.Getenv(deploy.EnvPod)
	if me == "" || c.Home == "" {
		return nil, exit.Usagef("`lapse gen guard --from all` prints a Deployment that sets them",
			"--probers needs $%s and $%s", deploy.EnvPod, deploy.EnvNamespace)
	}
	return &guard.Probers{
		Namespace: c.Home, Selector: deploy.GuardProberSelector, Me: me,
		Keys: func(ctx context.Context) (agent.KeyPair, error) {
			return deploy.GuardKeys(ctx, c.Client, c.Home, c.Leader == nil || c.Leader.Leads())
		},
	}, nil
}

// election returns this Pod's part in the election by the Lease.
func (c *guardCommand) election() (*lead.Election, error) {
	pod, namespace, ip := os.Getenv(deploy.EnvPod), os.Getenv(deploy.EnvNamespace), os.Getenv(deploy.EnvPodIP)
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil || pod == "" || namespace == "" || ip == "" {
		return nil, exit.Usagef("`lapse gen guard` prints a Deployment that sets them",
			"--lease needs $%s, $%s and $%s, and a port in --listen",
			deploy.EnvPod, deploy.EnvNamespace, deploy.EnvPodIP)
	}
	return &lead.Election{
		Leases: c.Client.Leases(namespace), Name: c.lease, Me: pod, Address: net.JoinHostPort(ip, port), Log: c.Log,
	}, nil
}

// rereadFlags returns what reads the flags in a file anew, if the file has changed since. start are the flags of the
// command line; the file's are read into them later.
func rereadFlags(file string, start *pflag.FlagSet) func() (*guard.Settings, error) {
	var names []string
	new(guardCommand).flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	given := givenTo(start, names)
	read, _ := input.File(file, 1<<20) // who starts the guard reads it again, and says why it cannot
	var wrong error
	return func() (changed *guard.Settings, err error) {
		text, err := input.File(file, 1<<20)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(text, read) {
			read = text
			changed, wrong = changedSettings(file, given, start)
		}
		return changed, wrong
	}
}

// changedSettings returns what the flags on a command line and in a file say. It refuses those that count only when a
// guard starts, if they are not as it started with.
func changedSettings(file string, given []string, start *pflag.FlagSet) (*guard.Settings, error) {
	var c guardCommand
	f := c.flags()
	if err := f.Parse(given); err != nil {
		return nil, err
	}
	if err := readFlags(f, file); err != nil {
		return nil, err
	}
	fixed := ""
	f.VisitAll(func(flag *pflag.Flag) {
		if was := start.Lookup(flag.Name).Value.String(); flag.Value.String() != was &&
			!slices.Contains(guardSettings, flag.Name) {
			fixed = flag.Name
		}
	})
	if fixed != "" {
		return nil, fmt.Errorf("%s: --%s counts only when the guard starts: restart it", file, fixed)
	}
	return c.settings(f)
}

// flags returns the flags of a guard, to be parsed without a command.
func (c *guardCommand) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("guard", pflag.ContinueOnError)
	c.bind(f)
	return f
}

// readFlags sets the flags in the lines of a file, unless they were given.
func readFlags(f *pflag.FlagSet, file string) error {
	text, err := input.File(file, 1<<20)
	if err != nil {
		return exit.Usagef("give another --config", "%w", err)
	}
	given := map[string]bool{}
	f.Visit(func(flag *pflag.Flag) { given[flag.Name] = true })
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "--"), "=")
		if !ok || f.Lookup(name) == nil {
			return exit.Usagef("as in --rate=50", "%s: %q is no flag of a guard with a value", file, line)
		}
		if given[name] {
			continue
		}
		if err := f.Set(name, value); err != nil {
			return exit.Usagef("see `lapse guard --help`", "%s: %q: %w", file, line, err)
		}
	}
	return nil
}

// givenTo returns the flags that were given of those that are named, as arguments.
func givenTo(f *pflag.FlagSet, names []string) (args []string) {
	f.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(names, flag.Name) {
			return
		}
		values := []string{flag.Value.String()}
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+flag.Name+"="+value)
		}
	})
	return args
}

// otherThan returns a flag that was given and is not named, or "".
func otherThan(f *pflag.FlagSet, names []string) (other string) {
	f.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(names, flag.Name) {
			other = flag.Name
		}
	})
	return other
}

// guardOptions returns how a Service is measured by a guard with these flags.
func guardOptions(kube access.Kube, flags []string) func(watcher.Marked) (*spec.Options, error) {
	return func(m watcher.Marked) (*spec.Options, error) {
		annotated := map[string]string{}
		port, path := "", ""
		for _, name := range slices.Sorted(maps.Keys(m.Annotations)) {
			switch value := m.Annotations[name]; name {
			case guard.Annotation:
				if value != "on" {
					return nil, exit.Usagef(`annotate it with lapse/guard: "on", or take the annotation away`,
						"annotation lapse/guard is %q", value)
				}
			case "port":
				port = ":" + value
			case "path":
				path = "/" + strings.TrimPrefix(value, "/")
			case "scheme", "expect-status":
				annotated[name] = value
			default:
				return nil, exit.Usagef("known are guard, port, path, scheme and expect-status",
					"annotation lapse/%s is unknown", name)
			}
		}
		args := []string{"--here", "--armed", "--no-preflight", "--namespace=" + m.Namespace}
		has := func(name string) bool {
			return slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--"+name+"=") })
		}
		for _, name := range slices.Sorted(maps.Keys(guardDefaults)) {
			if !has(name) {
				args = append(args, "--"+name+"="+guardDefaults[name])
			}
		}
		args = append(args, flags...)
		for _, name := range slices.Sorted(maps.Keys(annotated)) {
			args = append(args, "--"+name+"="+annotated[name])
		}
		advice := "" // the flags are wrong
		if len(annotated) > 0 || port != "" || path != "" {
			advice = annotationHint
		}
		o, err := Options(args...)
		if err != nil {
			return nil, hint.Add(advice, exit.AsUsage(err))
		}
		if annotated["expect-status"] == "" { // the guard's own is for those Services that have a status
			if !has("expect-status") {
				o.ExpectStatus = spec.AnyAnswer
			}
			delete(o.Given, "expect-status")
		}
		o.Kube.Kubeconfig, o.Kube.Context = kube.Kubeconfig, kube.Context
		return o, hint.Add(advice, o.Check([]string{"svc/" + m.Name + port + path}, nil))
	}
}

const annotationHint = "see the Service's annotations lapse/port, lapse/path, lapse/scheme and lapse/expect-status"
