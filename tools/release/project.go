package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A Project says what Lapse is called where it is published. It stands in project.env, which the Makefile reads too.
type Project struct {
	Module     string // the path of the Go module
	Image      string // the container image, without a tag
	Homepage   string
	Downloads  string // the URL above the folders of releases, each named after its version
	Maintainer string // name and address, as packages have them
}

func readProject(file string) (p Project, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	into := map[string]*string{
		"MODULE": &p.Module, "IMAGE_NAME": &p.Image, "HOMEPAGE": &p.Homepage, "DOWNLOADS": &p.Downloads,
		"MAINTAINER": &p.Maintainer,
	}
	for line := range strings.Lines(string(text)) {
		key, value, is := strings.Cut(strings.TrimSpace(line), "=")
		if field := into[key]; is && field != nil {
			*field = value
		}
	}
	for key, field := range into {
		if *field == "" {
			return p, fmt.Errorf("%s: no %s", file, key)
		}
	}
	return p, nil
}

// unset returns the lines of project.env that whoever publishes has still to write: they lead to example.org, or name
// no registry.
func (p Project) unset() (lines []string) {
	for _, line := range []struct{ key, value string }{
		{"HOMEPAGE", p.Homepage}, {"DOWNLOADS", p.Downloads}, {"MAINTAINER", p.Maintainer},
	} {
		if strings.Contains(line.value, "example.org") {
			lines = append(lines, line.key+"="+line.value)
		}
	}
	if !strings.Contains(p.Image, "/") {
		lines = append(lines, "IMAGE_NAME="+p.Image)
	}
	return lines
}

// commitTime returns when the checked-out commit was made.
func commitTime(root string) (time.Time, error) {
	cmd := exec.Command("git", "log", "-1", "--format=%ct")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
