//go:build linux || darwin

package udp

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
)

// shownRoom is the space of the control messages that showHeader enables, and of UDP_GRO.
const shownRoom = 96

// showHeader makes the system pass the fields of the IP header that the GRH of a datagram shows: the traffic class, the
// hop limit and, if it can, the flow label.
func showHeader(fd int, v4 bool) error {
	if v4 {
		return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
	}
	errs := []error{unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)}
	if flowInfo6 >= 0 {
		errs = append(errs, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, flowInfo6, 1))
	}
	return errors.Join(errs...)
}

// control parses the control messages of a receive. It returns the segment size of a train, or 0 for a single packet.
// It passes the fields of the IP header to the decoder. All packets of a train have the same: receive offload compares
// them, and a sender's train has one route.
func control(b []byte, d *rocev2.Decoder) (seg int) {
	d.Class, d.HopLimit, d.Label = 0, 0, 0
	ne := binary.NativeEndian
	w := unix.CmsgLen(0) - 8 // bytes of the length, with padding
	for at := unix.CmsgLen(0); len(b) > at; {
		var n int
		if w == 8 {
			n = int(ne.Uint64(b))
		} else {
			n = int(ne.Uint32(b))
		}
		if n <= at || n > len(b) {
			break
		}
		level, typ, v := int(ne.Uint32(b[w:])), int(ne.Uint32(b[w+4:])), b[at:n]
		number := uint32(v[0]) // some have one byte
		if len(v) >= 4 {
			number = ne.Uint32(v)
		}
		switch {
		case level == unix.IPPROTO_UDP && typ == segmentType:
			seg = int(int32(number))
		case level == unix.IPPROTO_IP && typ == shownTOS, level == unix.IPPROTO_IPV6 && typ == unix.IPV6_TCLASS:
			d.Class = uint8(number)
		case level == unix.IPPROTO_IP && typ == shownTTL, level == unix.IPPROTO_IPV6 && typ == unix.IPV6_HOPLIMIT:
			d.HopLimit = uint8(number)
		case level == unix.IPPROTO_IPV6 && typ == flowInfo6 && len(v) >= 4:
			d.Label = binary.BigEndian.Uint32(v) & 0xfffff
		}
		b = b[min(unix.CmsgSpace(n-at), len(b)):]
	}
	return seg
}
