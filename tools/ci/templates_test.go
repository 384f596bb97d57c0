package ci

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// A gitlab is the job of the template.
type gitlab struct {
	Image     string
	Variables map[string]string
	Script    []string
	Artifacts struct {
		When    string
		Paths   []string
		Reports map[string]string
	}
}

func (g gitlab) script() string { return strings.Join(g.Script, "\n") }

var gitlabInput = regexp.MustCompile(`\$\[\[ inputs\.([\w-]+) \]\]`)

// gitlabJob returns the template's job with these inputs, as GitLab includes it.
func gitlabJob(t *testing.T, given map[string]string) gitlab {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text(t, filepath.Join(root, "ci", "gitlab", "lapse.yml"))))
	var header struct {
		Spec struct {
			Inputs map[string]struct {
				Default     *string
				Description string
			}
		}
	}
	var job map[string]any
	if err := decoder.Decode(&header); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(&job); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		t.Fatalf("a third document, %v", err)
	}
	whole, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	expanded := gitlabInput.ReplaceAllFunc(whole, func(found []byte) []byte {
		name := string(gitlabInput.FindSubmatch(found)[1])
		input, ok := header.Spec.Inputs[name]
		if !ok {
			t.Errorf("the template uses the input %s, which it does not declare", name)
		}
		used[name] = true
		value, ok := given[name]
		if !ok && input.Default != nil {
			value = *input.Default
		}
		quoted, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(quoted)
	})
	if len(used) != len(header.Spec.Inputs) {
		t.Errorf("inputs %s, used %s", sorted(header.Spec.Inputs), sorted(used))
	}
	var jobs map[string]gitlab
	if err := yaml.Unmarshal(expanded, &jobs); err != nil || len(jobs) != 1 {
		t.Fatalf("%v in\n%s", err, expanded)
	}
	return jobs["lapse"]
}

func TestGitLabTemplateMeasures(t *testing.T) {
	releases, _ := serveRelease(t)
	for _, c := range []struct {
		name, releases, gate string
		code                 int
	}{
		{"nothing lost", releases, "failed>1000000", 0},
		{"a gate fails", releases, "latency.p99>1ns", 3},
		{"another archive", releases + "/forged", "failed>0", 1},
		{"an archive without a checksum", releases + "/incomplete", "failed>0", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := gitlabJob(t, map[string]string{
				"version": version, "releases": c.releases, "targets": serve(t, 200), "command": "echo measured; sleep 1",
				"flags": "--rate=50 --settle=1s --baseline=1s --min-coverage=1% --fail-if=" + c.gate,
			})
			dir := t.TempDir()
			code, out := job.run(t, dir)
			if code != c.code {
				t.Fatalf("exit code %d, want %d:\n%s", code, c.code, out)
			}
			for _, file := range append(job.Artifacts.Paths, job.Artifacts.Reports["junit"]) {
				if _, err := os.Stat(filepath.Join(dir, file)); (err == nil) != (c.code != 1) {
					t.Errorf("artifact %s: %v\n%s", file, err, out)
				}
			}
		})
	}
}

// The job ends with the exit code of `lapse gate`.
func TestGitLabTemplateAsksTheGate(t *testing.T) {
	releases, _ := serveRelease(t)
	for _, c := range []struct {
		state, command string
		code, asked    int
	}{
		{"pass", "echo rolled out", 0, 1}, {"fail", "", 3, 1}, {"inconclusive", "echo rolled out", 4, 1}, {"pass", "exit 4", 5, 0},
	} {
		guard, asked := serveGate(t, c.state)
		t.Setenv("LAPSE_GUARD", guard)
		job := gitlabJob(t, map[string]string{
			"version": version, "releases": releases, "mode": "gate", "targets": "svc/web", "namespace": "shop",
			"command": c.command, "flags": "--wait=0s",
		})
		if code, out := job.run(t, t.TempDir()); code != c.code || asked() != c.asked {
			t.Errorf("%s: exit code %d, want %d, and the gate was asked %d times:\n%s", c.state, code, c.code, asked(), out)
		}
	}
}

// run runs the job's script in a directory.
func (g gitlab) run(t *testing.T, dir string) (code int, out []byte) {
	t.Helper()
	cmd := exec.Command("sh", "-c", g.script())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+os.DevNull)
	for name, value := range g.Variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, _ = cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), out
}

// The arguments of a task's step are expanded as Tekton does, and no shell reads them: Lapse takes them for a Job.
func TestTektonTaskStartsAJob(t *testing.T) {
	args := tektonArgs(t, "lapse.yaml", map[string][]string{
		"params.image": {"lapse:v0.1.0"}, "params.targets": {"svc/web", "svc/api"}, "params.namespace": {"shop"},
		"params.flags":         {"--rate=50", "--fail-if=failed>0"},
		"params.duration":      {"5m"},
		"workspaces.runs.path": {"/workspace/runs"}, "context.taskRun.name": {"nightly"},
	})
	if args[0] != "run" {
		t.Fatalf("the task runs lapse %q", args)
	}
	args[0] = "gen" // takes the flags of a Job, but for --out
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--out=/workspace/runs/nightly" })
	cmd := exec.Command("go", append([]string{"run", "./cmd/lapse"}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "kind: Job") {
		t.Errorf("lapse %q: %v\n%s", args, err, out)
	}
}

func TestTektonTaskAsksTheGate(t *testing.T) {
	lapse := filepath.Join(t.TempDir(), "lapse")
	build := exec.Command("go", "build", "-o", lapse, "./cmd/lapse")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for state, code := range map[string]int{"pass": 0, "fail": 3, "inconclusive": 4} {
		guard, asked := serveGate(t, state)
		args := tektonArgs(t, "gate.yaml", map[string][]string{
			"params.image": {"lapse:v0.1.0"}, "params.service": {"svc/web"}, "params.namespace": {"shop"},
			"params.flags": {"--since=" + time.Now().UTC().Format(time.RFC3339), "--wait=0s"},
		})
		cmd := exec.Command(lapse, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "LAPSE_GUARD="+guard)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != code || asked() != 1 {
			t.Errorf("%s: lapse %q ends with %d, want %d:\n%s", state, args, cmd.ProcessState.ExitCode(), code, out)
		}
	}
}

// tektonArgs returns the arguments of the step of a task in ci/tekton with all its parameters.
func tektonArgs(t *testing.T, file string, values map[string][]string) (args []string) {
	t.Helper()
	var task struct {
		Spec struct {
			Params []struct {
				Name, Type string
				Default    any
			}
			Workspaces []struct{ Name string }
			Steps      []struct {
				Image         string
				Command, Args []string
			}
		}
	}
	read(t, "tekton/"+file, &task)
	if len(task.Spec.Steps) != 1 {
		t.Fatalf("%d steps", len(task.Spec.Steps))
	}
	declared := map[string]bool{}
	if len(task.Spec.Workspaces) > 0 {
		declared["context.taskRun.name"] = true
	}
	for _, p := range task.Spec.Params {
		declared["params."+p.Name] = true
	}
	for _, w := range task.Spec.Workspaces {
		declared["workspaces."+w.Name+".path"] = true
	}
	if sorted(declared) != sorted(values) {
		t.Fatalf("the task declares %s, the test gives %s", sorted(declared), sorted(values))
	}
	variable := regexp.MustCompile(`\$\(([\w.-]+?)(\[\*\])?\)`)
	used := map[string]bool{"params.image": true}
	for _, arg := range task.Spec.Steps[0].Args {
		if m := variable.FindStringSubmatch(arg); m != nil && m[2] != "" && m[0] == arg {
			used[m[1]] = true
			args = append(args, values[m[1]]...)
			continue
		}
		args = append(args, variable.ReplaceAllStringFunc(arg, func(found string) string {
			name := variable.FindStringSubmatch(found)[1]
			used[name] = true
			if len(values[name]) != 1 {
				t.Errorf("%s in %q", found, arg)
				return ""
			}
			return values[name][0]
		}))
	}
	if sorted(used) != sorted(declared) {
		t.Errorf("the task uses %s of %s", sorted(used), sorted(declared))
	}
	return args
}
