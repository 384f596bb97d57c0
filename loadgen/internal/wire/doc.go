// Package wire makes connections and says how they fail: TCP, TLS over it, and UDP sockets on which requests and
// replies are told apart. It looks names up, chooses local ports, looks at what has arrived without taking it, and puts
// errors into classes. It knows neither protocols nor requests.
package wire
