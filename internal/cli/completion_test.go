package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/internal/layer"
)

// pressTab has bash complete a line as it does when somebody presses Tab. It stands in for bash-completion, of which
// the script needs one function, and for what bash allows only when somebody does.
const pressTab = `
_init_completion() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
compopt() { :; }
source <(lapse completion bash)
COMP_WORDS=(lapse "$@"); COMP_CWORD=$#; COMP_LINE="lapse $*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
__start_lapse
printf '%s\n' "${COMPREPLY[@]}"
`

func TestBashCompletesVerbsFlagsAndValues(t *testing.T) {
	layer.Real(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Log("no bash on this machine: nothing to test")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lapse") // by this name the test binary is lapse: see TestMain
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"pref":            "preflight",
		"completion z":    "zsh",
		"diff -o mark":    "markdown",
		"trend -o bench":  "benchfmt",
		"run --max-durat": "--max-duration",
	} {
		cmd := exec.Command(bash, append([]string{"-c", pressTab, "bash"}, strings.Fields(line)...)...)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want && !strings.HasPrefix(string(out), want+" ") {
			t.Errorf("lapse %s: %q, %v; want %s", line, out, err, want)
		}
	}
}
