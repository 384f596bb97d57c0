// Command mkimage packs one static binary into a container image of one layer, as `lapse image save` packs Lapse
// itself:
//
//	go run ./deploy/mkimage -name pause:dev -entrypoint /pause -o pause.tar BINARY
//
// With -files it packs a whole file system, that is a tar, for the sandbox's images of Debian packages:
//
//	go run ./deploy/mkimage -name debian:nginx-light -user 0 -files root.tar -o nginx.tar
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"

	"lapse/internal/image"
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
	var c image.Contents
	var called, out, files string
	flags := flag.NewFlagSet("mkimage", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&called, "name", "", "image name with tag, such as pause:dev")
	flags.StringVar(&c.Entrypoint, "entrypoint", "", "path of the binary in the image, and what runs")
	flags.StringVar(&c.User, "user", image.User, "user that the image runs as, in numbers")
	flags.StringVar(&files, "files", "", "tar of a whole file system, instead of BINARY and -entrypoint")
	flags.StringVar(&out, "o", "", "tar to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tag, err := name.NewTag(called, name.WithDefaultTag(""))
	if err != nil || tag.TagStr() == "" {
		return fmt.Errorf("-name %q: want a name with a tag, such as pause:dev", called)
	}
	switch {
	case out != "" && files != "" && flags.NArg() == 0 && c.Entrypoint == "":
		c.Files, err = os.ReadFile(files)
	case out != "" && files == "" && flags.NArg() == 1:
		c.Binary, err = os.ReadFile(flags.Arg(0))
	default:
		err = errors.New(usage)
	}
	if err != nil {
		return err
	}
	packed, err := c.Image(nil)
	if err != nil {
		return err
	}
	index, err := image.Index(nil, packed)
	if err != nil {
		return err
	}
	return image.SaveFile(out, index, tag)
}
