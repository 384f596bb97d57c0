// Package hey loads a target through rakyll/hey's requester. What it sends is load and no evidence: hey re-sends
// silently, accepts truncated bodies and checks no certificate.
//
// [Hammer] puts background load on a target while others measure it (hammer.go; its flags are in flags.go). [Calibrate]
// finds out how much a target can answer (calibrate.go). Both send by load.go, which guards against hey's traps.
package hey
