// Package vectors turns eventfds into calls of a function, for back ends whose interrupts are eventfds.
package vectors
