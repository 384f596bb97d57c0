package main

import (
	"bytes"
	"fmt"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// writeSBOMs writes for each archive which modules its program was linked from, as the program itself says.
func (r *Release) writeSBOMs(b *Built) error {
	for _, p := range r.Platforms {
		generator, err := bin.NewGenerator(b.Programs[p],
			bin.WithVersionOverride(r.Version), bin.WithIncludeStdlib(true), bin.WithLogger(zerolog.Nop()))
		if err != nil {
			return err
		}
		bom, err := generator.Generate()
		if err != nil {
			return fmt.Errorf("SBOM of %s: %w", p, err)
		}
		bom.Metadata.Timestamp = r.Time.Format(time.RFC3339)
		var out bytes.Buffer
		encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
		if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
			return err
		}
		if err := r.write(r.archiveName(p)+".cdx.json", out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
