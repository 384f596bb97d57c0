// Command mkimage packs one static binary into a container image of one layer, without Docker and without a
// registry. The tar has the format of docker save, which all of these read:
//
//	go run ./deploy/mkimage -name lapse:dev -entrypoint /lapse -o lapse.tar BINARY
//	docker load -i lapse.tar
//	ctr -n k8s.io images import lapse.tar
//	kind load image-archive lapse.tar
//
// With -files it packs a whole file system, that is a tar, for the sandbox's images of Debian packages:
//
//	go run ./deploy/mkimage -name debian:nginx-light -user 0 -files root.tar -o nginx.tar
//
// The same binary gives the same bytes: they depend on no time and no file order of this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "mkimage:", err)
		}
		os.Exit(2)
	}
}

const usage = "usage: mkimage -name NAME:TAG -entrypoint /PATH -o IMAGE.tar BINARY, " +
	"or mkimage -name NAME:TAG -files ROOT.tar -o IMAGE.tar"

func run(args []string, stderr io.Writer) error {
	var img image
	var out, files string
	flags := flag.NewFlagSet("mkimage", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&img.Name, "name", "", "image name with tag, such as lapse:dev")
	flags.StringVar(&img.Entrypoint, "entrypoint", "", "path of the binary in the image, and what runs")
	flags.StringVar(&img.User, "user", "65532", "user that the image runs as, in numbers")
	flags.StringVar(&files, "files", "", "tar of a whole file system, instead of BINARY and -entrypoint")
	flags.StringVar(&out, "o", "", "tar to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	switch {
	case out != "" && files != "" && flags.NArg() == 0 && img.Entrypoint == "":
		img.Files, err = os.ReadFile(files)
	case out != "" && files == "" && flags.NArg() == 1:
		img.Binary, err = os.ReadFile(flags.Arg(0))
	default:
		err = errors.New(usage)
	}
	if err != nil {
		return err
	}
	return writeFile(out, img)
}

// writeFile writes the whole image or leaves what was there.
func writeFile(path string, img image) error {
	part, err := renameio.NewPendingFile(path,
		renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithStaticPermissions(0o644))
	if err != nil {
		return err
	}
	defer func() { _ = part.Cleanup() }() // nothing is left once the file is replaced
	if err := img.Write(part); err != nil {
		return err
	}
	return part.CloseAtomicallyReplace()
}
