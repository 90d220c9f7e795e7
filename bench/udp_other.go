//go:build !linux

package bench

// udpCases: the yardsticks need Linux's segmentation and receive offload.
func udpCases() []Case { return nil }
