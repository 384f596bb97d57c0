package dashboard

import "io/fs"

// Files are the built page: index.html and what it refers to. A report that must open without a
// server is made from them.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("dashboard: the embedded page: " + err.Error()) // cannot happen: the name is valid
	}
	return files
}
