// Package polled is a second way to read replies: one thread, the pacing thread, reads those of many connections,
// instead of a goroutine of each. Such a request costs one wake-up of one thread: a reply waits in the kernel until the
// thread wakes for the next request, a millisecond at most, and the kernel's stamp tells when it came. Linux only.
package polled
