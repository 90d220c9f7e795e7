// Package passedfd handles descriptors that processes send over Unix sockets, and that are not trusted: it finds out
// what they are, and closes them, without waiting for their owners.
package passedfd
