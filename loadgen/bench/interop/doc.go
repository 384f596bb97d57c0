// Package interop holds Lapse's protocols against servers that nobody here wrote: grpc-go, Node, nginx and Caddy. Its
// tests are all that it has. nginx and Caddy are those on the PATH, else Debian's, unpacked into the user's cache and
// not installed.
package interop
