// Package ci tests the action, the GitLab template and the Tekton task in ci/, as their runners run them.
package ci

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhysd/actionlint"
	"go.yaml.in/yaml/v4"
)

const root = "../.."

// An action is what a composite action's file says.
type action struct {
	Inputs map[string]struct {
		Required bool
		Default  string
	}
	Outputs map[string]struct{ Value string }
	Runs    struct{ Steps []step }
}

type step struct {
	ID, Shell, Run string
	Env            map[string]string
}

func readAction(t *testing.T) (a action) {
	t.Helper()
	read(t, "github/action.yml", &a)
	return a
}

// read decodes a YAML file of ci/.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ci", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// A runner runs composite actions as GitHub's does.
type runner struct {
	temp    string
	action  action
	inputs  map[string]string
	outputs map[string]string // by "STEP.NAME"
	path    []string          // added by steps
	summary string
	log     string
}

func newRunner(t *testing.T, inputs map[string]string) *runner {
	t.Helper()
	r := &runner{temp: t.TempDir(), action: readAction(t), inputs: map[string]string{}, outputs: map[string]string{}}
	for name, input := range r.action.Inputs {
		value, given := inputs[name]
		if input.Required && !given {
			t.Fatalf("input %s is not given", name)
		}
		if !given {
			value = input.Default
		}
		r.inputs[name] = value
	}
	for name := range inputs {
		if _, ok := r.inputs[name]; !ok {
			t.Fatalf("no input %s", name)
		}
	}
	return r
}

var contextExpression = regexp.MustCompile(`\$\{\{ ([\w.-]+) \}\}`)

// expand replaces the expressions in a text.
func (r *runner) expand(t *testing.T, text string) string {
	return contextExpression.ReplaceAllStringFunc(text, func(found string) string {
		name := contextExpression.FindStringSubmatch(found)[1]
		if input, ok := strings.CutPrefix(name, "inputs."); ok {
			return r.inputs[input]
		}
		if output, ok := strings.CutPrefix(name, "steps."); ok {
			step, name, _ := strings.Cut(output, ".outputs.")
			return r.outputs[step+"."+name]
		}
		switch name {
		case "github.server_url":
			return "https://github.example.com"
		case "github.action_repository":
			return "someone/lapse"
		}
		t.Errorf("expression %s", found)
		return ""
	})
}

// run runs all steps until one fails, and returns that one's ID.
func (r *runner) run(t *testing.T) (failed string) {
	t.Helper()
	for _, s := range r.action.Runs.Steps {
		if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
			t.Errorf("step %s: shell %q, run %q", s.ID, s.Shell, s.Run)
		}
		files := map[string]string{}
		for _, name := range []string{"OUTPUT", "STEP_SUMMARY", "ENV", "PATH"} {
			files[name] = filepath.Join(r.temp, strings.ToLower(name))
			if err := os.WriteFile(files[name], nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		script := filepath.Join(r.temp, "step.sh")
		if err := os.WriteFile(script, []byte(s.Run), 0o600); err != nil {
			t.Fatal(err)
		}
		here, err := filepath.Abs(filepath.Join(root, "ci", "github"))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		cmd.Dir = r.temp
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+r.temp, "RUNNER_OS=Linux", "RUNNER_ARCH=X64",
			"GITHUB_ACTION_PATH="+here, "PATH="+strings.Join(append(slices.Clone(r.path), os.Getenv("PATH")), ":"),
			"KUBECONFIG="+os.DevNull)
		for name, file := range files {
			cmd.Env = append(cmd.Env, "GITHUB_"+name+"="+file)
		}
		for name, value := range s.Env {
			cmd.Env = append(cmd.Env, name+"="+r.expand(t, value))
		}
		out, err := cmd.CombinedOutput()
		r.log += string(out)
		for line := range strings.Lines(text(t, files["OUTPUT"])) {
			name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			if !ok {
				t.Errorf("step %s: output %q", s.ID, line)
			}
			r.outputs[s.ID+"."+name] = value
		}
		r.summary += text(t, files["STEP_SUMMARY"])
		r.path = append(strings.Fields(text(t, files["PATH"])), r.path...)
		if env := text(t, files["ENV"]); env != "" {
			t.Errorf("step %s sets %s", s.ID, env)
		}
		if err != nil {
			return s.ID
		}
	}
	return ""
}

// output returns an output of the action.
func (r *runner) output(t *testing.T, name string) string {
	t.Helper()
	o, ok := r.action.Outputs[name]
	if !ok {
		t.Fatalf("no output %s", name)
	}
	return r.expand(t, o.Value)
}

func text(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var oldCommand = regexp.MustCompile(`##\[[\w-]+[\] ]`)

// commands returns the workflow commands that a runner takes from a log. It takes none between stop-commands and the
// token. https://github.com/actions/runner/blob/main/src/Runner.Worker/ActionCommandManager.cs
func commands(log string) (taken []string) {
	token := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		switch {
		case token != "":
			if line == "::"+token+"::" {
				token = ""
			}
		case strings.HasPrefix(line, "::stop-commands::"):
			token = strings.TrimPrefix(line, "::stop-commands::")
		case strings.HasPrefix(line, "::"), oldCommand.MatchString(line):
			taken = append(taken, line)
		}
	}
	if token != "" {
		taken = append(taken, "commands stay stopped")
	}
	return taken
}

// hostile is a command whose output is full of workflow commands.
const hostile = `
printf '::error::from the command\n::set-output name=run::/etc\n##[add-path]/evil\n::stop-commands::abc\n::abc::\n'
printf '::add-mask::a\n::error file=a::without an end'
`

func TestActionMeasuresAndShowsTheResult(t *testing.T) {
	releases, _ := serveRelease(t)
	for _, c := range []struct {
		name, failIf, url string
		code, level       string
	}{
		{"nothing lost", "failed>1000000", serve(t, 200), "0", "notice"},
		{"a gate fails", "failed>1000000\nlatency.p99>1ns", serve(t, 200), "3", "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRunner(t, map[string]string{
				"version": version, "releases": releases, "targets": c.url, "command": hostile + "sleep 1",
				"fail-if": c.failIf, "flags": "--rate=50\n--settle=1s\n--baseline=1s\n--min-coverage=1%",
			})
			failed := r.run(t)
			t.Log(r.log)
			if got := r.output(t, "exit-code"); got != c.code || (failed != "") != (c.code != "0") {
				t.Errorf("exit code %s, step %q failed: want %s", got, failed, c.code)
			}
			if failed != "" && failed != "gate" {
				t.Errorf("step %s failed", failed)
			}
			for _, file := range []string{"facts.lapse", "timeline.json"} {
				if _, err := os.Stat(filepath.Join(r.output(t, "run"), file)); err != nil {
					t.Error(err)
				}
			}
			if !strings.HasPrefix(r.summary, "#") && !strings.Contains(r.summary, "**") {
				t.Errorf("the step's summary is %q", r.summary)
			}
			taken := commands(r.log)
			if len(taken) == 0 || !strings.HasPrefix(taken[0], "::"+c.level+" title=Lapse%3A ") {
				t.Errorf("annotations %q", taken)
			}
			for _, command := range taken {
				if !strings.HasPrefix(command, "::notice title=") && !strings.HasPrefix(command, "::warning title=") &&
					!strings.HasPrefix(command, "::error title=") || strings.Contains(command, "from the command") {
					t.Errorf("the runner takes %q", command)
				}
			}
		})
	}
}

// A gate answers one question with a state, and counts the questions about shop/web since the test began.
func serveGate(t *testing.T, state string) (url string, asked func() int) {
	t.Helper()
	began, n := time.Now().Truncate(time.Second), atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since, err := time.Parse(time.RFC3339Nano, r.FormValue("since"))
		if err == nil && !since.Before(began) && r.FormValue("service") == "shop/web" {
			n.Add(1)
		}
		fmt.Fprintf(w, `{"state":%q,"reason":"3 of 99 failed; down 1%%\n::error::from the cluster","run":"lapse-1"}`, state)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() int { return int(n.Load()) }
}

// The exit code of `lapse gate` is the step's: each of them, and how doubt can be a warning.
func TestActionAsksTheGate(t *testing.T) {
	releases, _ := serveRelease(t)
	for _, c := range []struct {
		state, command, inconclusive string
		code, level, fails           string
	}{
		{"pass", hostile, "fail", "0", "notice", ""},
		{"fail", hostile, "warn", "3", "error", "gate"},
		{"inconclusive", hostile, "fail", "4", "warning", "gate"},
		{"inconclusive", "", "warn", "4", "warning", ""},
		{"pass", "exit 4", "warn", "5", "error", "gate"}, // the gate is not asked
	} {
		t.Run(c.state+" "+c.inconclusive, func(t *testing.T) {
			guard, asked := serveGate(t, c.state)
			t.Setenv("LAPSE_GUARD", guard)
			r := newRunner(t, map[string]string{
				"version": version, "releases": releases, "mode": "gate", "targets": "svc/web", "namespace": "shop",
				"command": c.command, "inconclusive": c.inconclusive, "flags": "--wait=0s",
			})
			failed := r.run(t)
			t.Log(r.log)
			if got := r.output(t, "exit-code"); got != c.code || failed != c.fails || r.output(t, "run") != "" {
				t.Errorf("exit code %s, step %q failed: want %s, %q", got, failed, c.code, c.fails)
			}
			want, questions := "::"+c.level+" title=Lapse::svc/web: "+strings.ToUpper(c.state)+" 3 of 99 failed; down 1%25", 1
			if c.code == "5" {
				want, questions = "::error title=Lapse::svc/web: the command failed", 0
			}
			if taken := commands(r.log); len(taken) != 1 || !strings.HasPrefix(taken[0], want) {
				t.Errorf("the runner takes %q, want %s", taken, want)
			}
			if asked() != questions {
				t.Errorf("the gate was asked %d times about shop/web since the beginning", asked())
			}
			for line := range strings.Lines(r.summary) {
				if !strings.HasPrefix(line, "    ") {
					t.Errorf("the step's summary has the line %q, which is no text", line)
				}
			}
			if !strings.HasPrefix(r.summary, "    svc/web: ") {
				t.Errorf("the step's summary is %q", r.summary)
			}
		})
	}
}

func TestActionStopsAtAnArchiveThatIsAnother(t *testing.T) {
	releases, sum := serveRelease(t)
	for name, c := range map[string]struct{ releases, sha256, says string }{
		"wrong sha256 given":         {releases, strings.Repeat("0", 64), "has another SHA-256"},
		"nonsense given":             {releases, "latest", "no SHA-256"},
		"wrong in checksums.txt":     {releases + "/forged", "", "has another SHA-256"},
		"missing in checksums.txt":   {releases + "/incomplete", "", "no SHA-256"},
		"no checksums.txt":           {releases + "/bare", "", "checksums.txt cannot be downloaded"},
		"no archive":                 {releases + "/nothing", sum, "cannot be downloaded"},
		"the archive has no program": {releases + "/empty", "", "has no program"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, map[string]string{
				"version": version, "releases": c.releases, "sha256": c.sha256, "targets": "svc/web",
			})
			if failed := r.run(t); failed != "install" || !strings.Contains(r.log, c.says) || len(r.path) > 0 {
				t.Errorf("step %q failed, PATH gets %q: %s", failed, r.path, r.log)
			}
		})
	}
	r := newRunner(t, map[string]string{"version": version, "releases": releases, "sha256": sum, "targets": "svc/web"})
	if failed := r.run(t); failed != "gate" || r.output(t, "exit-code") != "2" {
		t.Errorf("without a cluster step %q failed, exit code %s", failed, r.output(t, "exit-code"))
	}
}

// The example is linted as if the action were in its own repository, so that inputs and outputs are checked as well.
func TestExampleWorkflowIsClean(t *testing.T) {
	name := filepath.Join(root, "ci", "github", "example.yml")
	workflow := strings.ReplaceAll(text(t, name), "OWNER/lapse/ci/github@v1", "./ci/github")
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	project, err := actionlint.NewProject(top)
	if err != nil {
		t.Fatal(err)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{Shellcheck: "shellcheck"})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := linter.Lint(filepath.Join(top, "ci", "github", "example.yml"), []byte(workflow), project)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	broken := strings.ReplaceAll(workflow, "targets: svc/web", "target: svc/web")
	if faults, err = linter.Lint(filepath.Join(top, "example.yml"), []byte(broken), project); err != nil || len(faults) == 0 {
		t.Errorf("an input that does not exist is accepted: %v", err)
	}
}

func TestScriptsAreClean(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(root, "ci", "github", "*.sh"))
	if err != nil || len(scripts) < 2 {
		t.Fatalf("%q, %v", scripts, err)
	}
	shellcheck(t, nil, append([]string{"--shell=bash"}, scripts...)...)
	shellcheck(t, strings.NewReader(gitlabJob(t, nil).script()), "--shell=sh", "-")
	for _, s := range readAction(t).Runs.Steps {
		shellcheck(t, strings.NewReader(s.Run), "--shell=bash", "-")
	}
}

func shellcheck(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	cmd := exec.Command("shellcheck", args...)
	cmd.Stdin = stdin
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("shellcheck %v: %v: sandbox/needs.sh installs it\n%s", args, err, out.String())
	}
}

// sorted returns the names of a map.
func sorted[V any](all map[string]V) string { return fmt.Sprint(slices.Sorted(maps.Keys(all))) }
