package starts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	folder = "../../docs/start"
	player = "../e2e/start_test.go" // the test that follows the pages
)

// notRun are the lines of the start pages that no test types.
var notRun = []string{
	"curl -fsSLO https://example.org/lapse/releases/v0.1.0/lapse-v0.1.0-linux-amd64.tar.gz",
	"curl -fsSLO https://example.org/lapse/releases/v0.1.0/checksums.txt",
	"aws ecr get-login-password | docker login --username AWS --password-stdin REGISTRY",
	"gcloud auth configure-docker REGISTRY",
	"az acr login --name REGISTRY",
	"kind create cluster",
	"oc adm policy add-scc-to-group nonroot-v2 system:serviceaccounts:shop",
}

func pages(t *testing.T) (all []Page) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil || len(files) < 4 {
		t.Fatalf("pages %q, %v", files, err)
	}
	for _, file := range files {
		page, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page)
	}
	return all
}

// A line of a start page is typed by a test, or named here.
func TestEachLineOfAStartPageIsTypedOrNamed(t *testing.T) {
	follows, err := os.ReadFile(player)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, page := range pages(t) {
		if !strings.Contains(string(follows), `"`+page.Name+`"`) {
			t.Errorf("%s follows no page %s", player, page.Name)
		}
		if fences := strings.Count("\n"+page.Text, "\n```"); fences != 2*len(page.Blocks) {
			t.Errorf("%s: %d fences, %d blocks", page.Name, fences, len(page.Blocks))
		}
		for _, block := range page.Blocks {
			if block.NotRun != "" {
				left = append(left, block.Lines...)
			}
		}
	}
	slices.Sort(left)
	slices.Sort(notRun)
	if !slices.Equal(left, notRun) {
		t.Errorf("no test types\n%s\nwant\n%s", strings.Join(left, "\n"), strings.Join(notRun, "\n"))
	}
}

// A start page is short, and begins with commands.
func TestStartPagesAreShort(t *testing.T) {
	for _, page := range pages(t) {
		if n := len(strings.Fields(page.Text)); n > 250 {
			t.Errorf("%s has %d words, at most 250", page.Name, n)
		}
		if before, _, _ := strings.Cut(page.Text, "```"); len(strings.Fields(before)) > 40 {
			t.Errorf("%s: %d words before the first command", page.Name, len(strings.Fields(before)))
		}
	}
}

// The README shows what the page of a registry shows, and in four lines.
func TestTheREADMEShowsFourLinesThatAreTyped(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := Read(filepath.Join(folder, "cloud.md"))
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(cloud.Blocks, func(b Block) bool { return b.NotRun == "" })
	lines := cloud.Blocks[first].Lines
	_, use, found := strings.Cut(string(readme), "\n## Use it on your cluster\n\n")
	if want := "```\n" + strings.Join(lines, "\n") + "\n```\n"; !found || len(lines) != 4 || !strings.HasPrefix(use, want) {
		t.Errorf("the README says %.500s\nwant %s", use, want)
	}
}

func TestACommentThatIsUnknownIsRefused(t *testing.T) {
	for _, text := range []string{"<!-- not run -->\n```\nls\n```\n", "```yaml\na: b\n```\n"} {
		file := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if page, err := Read(file); err == nil {
			t.Errorf("%q is read as %+v", text, page.Blocks)
		}
	}
}
