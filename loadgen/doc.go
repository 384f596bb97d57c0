// Package loadgen sends requests at a steady rate, whether or not earlier ones were answered, and turns every one
// into a fact: when it was due, when it was sent, how and when it ended.
//
// A [Prober] paces any number of targets from one thread. Each target has an engine for its kind: one connection per
// request (new.go), or persistent connections (reused.go). The reply is read by our own HTTP/1.1 reader
// (http1.go), because net/http's client silently sends some requests again and reports only the success.
//
// Beside the probes the hammer (hammer.go) can put background load on a target, through rakyll/hey. Its
// requests are load, not evidence.
package loadgen
