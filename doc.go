// Package lapse is the root of the module; the program is in cmd/lapse. Its only test holds the
// layout that docs/explanation/architecture.md describes.
package lapse
