package reference

import (
	"fmt"

	"ciddk/ci"
)

// maxSources is the most UDP ports that a port sends from.
const maxSources = 64

func (c *UDPConfig) checkSources() error {
	switch {
	case c.SourcePorts < 0 || c.SourcePorts > maxSources:
		return fmt.Errorf("UDP port: SourcePorts is %d: want 1 to %d, or 0 for 1", c.SourcePorts, maxSources)
	case c.FirstSourcePort != 0 && c.SourcePorts <= 1:
		return fmt.Errorf("UDP port: FirstSourcePort is %d, but SourcePorts is %d: packets leave from Port then", c.FirstSourcePort, c.SourcePorts)
	case c.FirstSourcePort != 0 && int(c.FirstSourcePort)+c.SourcePorts > 1<<16:
		return fmt.Errorf("UDP port: FirstSourcePort %d and SourcePorts %d go beyond port 65535", c.FirstSourcePort, c.SourcePorts)
	case c.FirstSourcePort != 0 && c.FirstSourcePort <= c.port() && int(c.port()) < int(c.FirstSourcePort)+c.SourcePorts:
		return fmt.Errorf("UDP port: FirstSourcePort %d and SourcePorts %d include Port %d, which is for receiving", c.FirstSourcePort,
			c.SourcePorts, c.port())
	case c.PeerSourcePort != 0 && !c.StrictSource:
		return fmt.Errorf("UDP port: PeerSourcePort is %d, which has a meaning with StrictSource only", c.PeerSourcePort)
	}
	return nil
}

// sourcePort is the UDP port to bind source i to; 0: any.
func (c *UDPConfig) sourcePort(i int) uint16 {
	if c.FirstSourcePort == 0 {
		return 0
	}
	return c.FirstSourcePort + uint16(i)
}

// sourceError is the failure to open a socket to send from.
type sourceError struct {
	what string
	err  error
}

func (e *sourceError) Error() string { return fmt.Sprintf("UDP port: %s: %v", e.what, e.err) }

func (e *sourceError) Unwrap() error { return e.err }

// explainSource says which source port could not be had.
func (c *UDPConfig) explainSource(i int, err error) error {
	if port := c.sourcePort(i); port != 0 {
		return &sourceError{fmt.Sprintf("source port %d (set FirstSourcePort to a free range, or to 0 for ports that the system chooses)", port), err}
	}
	return &sourceError{fmt.Sprintf("source port %d of %d", i+1, c.SourcePorts), err}
}

// laneOf assigns a QP to one of n source ports.
func laneOf(q ci.QPN, n int) uint8 {
	if n == 1 {
		return 0
	}
	const golden = 0x9e3779b1 // 2^32 divided by the golden ratio: neighbouring numbers are spread
	return uint8((uint32(q) * golden >> 16) % uint32(n))
}

// consecutive lists n port numbers.
func consecutive(first uint16, n int) []uint16 {
	list := make([]uint16, n)
	for i := range list {
		list[i] = first + uint16(i)
	}
	return list
}
