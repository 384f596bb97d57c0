// Package hey makes requests through rakyll/hey's requester. They are load and not evidence: the hammer (hammer.go) puts
// background load on a target, and [Calibrate] (calibrate.go; what it concludes is in capacity.go) finds out how much a
// target can answer.
package hey
