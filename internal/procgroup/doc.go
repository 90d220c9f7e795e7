// Package procgroup runs a program in a process group of its own, so that a time limit also ends the program's
// children.
package procgroup
