// Package preflight predicts what a drain, a rollout or a crash will do to a Service, from the Service's spec and the
// placement of its Pods, before anything is measured.
//
// Package cluster or manifest reads what is known of a Service, a service.State. Package rules judges it. This package
// makes one report of many Services: which findings are accepted, where they stand in the files, and whether the check
// passes. Package output prints it.
//
// A prediction is no measurement. It says no more than its evidence shows: what depends on the application is "may
// lose", and a length that is assumed is called an assumption.
package preflight
