// Package hey loads a target as rakyll/hey does: each of many workers sends its next request when the last one has
// ended. What it sends is load and no evidence: net/http re-sends silently, and no certificate is checked.
//
// [Hammer] puts background load on a target while others measure it (hammer.go; its flags are in flags.go). [Calibrate]
// finds out how much a target can answer (calibrate.go). Both send by load.go.
package hey
