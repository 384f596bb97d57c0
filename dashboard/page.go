package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed dist
var dist embed.FS

// pageFiles are the built page's files by URL path. They are read and hashed when somebody looks.
var pageFiles = sync.OnceValue(loadPage)

// A pageFile is one file of the page, with a tag that changes when it does.
type pageFile struct {
	name string
	body []byte
	tag  string
}

func loadPage() map[string]pageFile {
	files := map[string]pageFile{}
	err := fs.WalkDir(dist, "dist", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := dist.ReadFile(path)
		files[strings.TrimPrefix(path, "dist")] = pageFile{
			name: d.Name(), body: body, tag: fmt.Sprintf(`"%x"`, sha256.Sum256(body)),
		}
		return err
	})
	if err != nil {
		panic("dashboard: read the embedded page: " + err.Error()) // cannot happen: the files are in the binary
	}
	return files
}

// serveListPage serves the page, told that it is of several runs.
func serveListPage(w http.ResponseWriter, r *http.Request) {
	file := pageFiles()["/index.html"]
	of := []byte(`<div id="page"`)
	file.body, file.tag = bytes.Replace(file.body, of, append(of, " data-runs"...), 1), `"runs-`+file.tag[1:]
	serveFile(w, r, file)
}

// serveFiles serves the built page's files.
func serveFiles(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path == "/" {
		path = "/index.html"
	}
	file, ok := pageFiles()[path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	serveFile(w, r, file)
}

func serveFile(w http.ResponseWriter, r *http.Request, file pageFile) {
	w.Header().Set("ETag", file.tag)
	http.ServeContent(w, r, file.name, time.Time{}, bytes.NewReader(file.body))
}
