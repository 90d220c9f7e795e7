// Package wire holds the packet formats.
package wire
