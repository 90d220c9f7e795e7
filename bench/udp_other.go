//go:build !linux

package bench

// udpCases returns none: the yardsticks need Linux's segmentation and receive offload.
func udpCases() []Case { return nil }
