package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/wire"
)

// udpEnd is the certifier's end of the link udp: plain UDP sockets on addresses of their own. A socket shows neither IP nor UDP header, so
// those of a packet received are made again from what is known: the addresses and ports, and the fields that the system tells (wireend_linux.go).
// With the capability for a raw socket beside it, the IPv4 header is the one that came.
type udpEnd struct {
	info validate.WireInfo
	main *net.UDPConn
	open opener
	raw  *rawHeaders // nil without

	mu      sync.Mutex
	senders map[netip.AddrPort]*net.UDPConn // by source; main among them
	closed  bool
}

// opener runs what opens sockets where they belong: see netspace.
type opener func(func() error) error

// here opens sockets in the network that the program is in.
func here(f func() error) error { return f() }

// endBuffer is the receive buffer asked for, in bytes: more than any case has on the way.
const endBuffer = 4 << 20

// openEnd binds an end to addr, with a second address that it can send from. headers asks for the IPv4 headers of what comes.
func openEnd(open opener, addr, other netip.Addr, port uint16, headers bool) (validate.Wire, error) {
	e := &udpEnd{open: open, senders: map[netip.AddrPort]*net.UDPConn{}, info: validate.WireInfo{Link: ci.LinkEthernet, GID: addr.As16(),
		Other: other.As16(), UDPPort: port, Raw: true}}
	c, err := e.sender(netip.AddrPortFrom(addr, port))
	if err == nil {
		e.main = c
		e.info.Class, e.info.Hops, e.info.Label, err = showFields(c, addr.Is6())
	}
	if err == nil && headers && addr.Is4() {
		err = open(func() (err error) { e.raw, err = openRawHeaders(addr, port); return err })
		e.info.Header = err == nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the certifier's end of the link: %w", err), e.Close())
	}
	return e, nil
}

func listenEnd(at netip.AddrPort) (*net.UDPConn, error) {
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	c, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	err = c.SetReadBuffer(endBuffer)
	if at.Addr().Is4() {
		err = errors.Join(err, dontFragment(c))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (e *udpEnd) Info() validate.WireInfo { return e.info }

// Send sends the UDP payload of an IP packet from the address and port that it says it comes from.
func (e *udpEnd) Send(packet []byte) error {
	src, dst, payload, err := datagram(packet)
	if err != nil {
		return err
	}
	c, err := e.sender(src)
	if err != nil {
		return err
	}
	_, err = c.WriteToUDPAddrPort(payload, dst)
	return err
}

// datagram takes an IP packet of one UDP datagram apart.
func datagram(packet []byte) (src, dst netip.AddrPort, payload []byte, err error) {
	var from, to netip.Addr
	var u []byte
	if len(packet) > 0 && packet[0]>>4 == 6 {
		var ip wire.IPv6
		if err = ip.Parse(packet); err == nil && (int(ip.PayloadLen) != len(packet)-wire.IPv6Len || ip.NextHeader != wire.ProtocolUDP) {
			err = fmt.Errorf("a packet of %d bytes, IPv6 payload length %d, next header %d: not one UDP datagram", len(packet), ip.PayloadLen, ip.NextHeader)
		}
		from, to, u = netip.AddrFrom16(ip.Src), netip.AddrFrom16(ip.Dst), packet[min(wire.IPv6Len, len(packet)):]
	} else {
		var ip wire.IPv4
		if err = ip.Parse(packet); err == nil && (int(ip.TotalLen) != len(packet) || ip.Protocol != wire.ProtocolUDP) {
			err = fmt.Errorf("a packet of %d bytes, IP length %d, protocol %d: not one UDP datagram", len(packet), ip.TotalLen, ip.Protocol)
		}
		from, to, u = netip.AddrFrom4(ip.Src), netip.AddrFrom4(ip.Dst), packet[min(wire.IPv4Len, len(packet)):]
	}
	if err == nil && len(u) < wire.UDPLen {
		err = fmt.Errorf("a packet of %d bytes has no room for a UDP header", len(packet))
	}
	if err != nil {
		return src, dst, nil, err
	}
	return netip.AddrPortFrom(from, binary.BigEndian.Uint16(u)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(u[2:])), u[wire.UDPLen:], nil
}

// sender returns the socket of a source.
func (e *udpEnd) sender(src netip.AddrPort) (*net.UDPConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	if c := e.senders[src]; c != nil {
		return c, nil
	}
	var c *net.UDPConn
	err := e.open(func() (err error) { c, err = listenEnd(src); return err })
	if err == nil {
		e.senders[src] = c
	}
	return c, err
}

// fields are those of an IP header that a socket may tell.
type fields struct {
	class, hops uint8
	label       uint32
}

// Recv returns the next datagram that came to the end's address, with headers around it.
func (e *udpEnd) Recv(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.main.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = e.main.SetReadDeadline(time.Unix(1, 0)) }) // an error means closed: the read ends as well
	defer stop()
	const room = wire.IPv6Len + wire.UDPLen
	b := make([]byte, 1<<16)
	control := make([]byte, 256)
	n, k, _, src, err := e.main.ReadMsgUDPAddrPort(b[room:], control)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	whole := e.head(b, n, src, shownFields(control[:k]))
	if e.raw != nil {
		return e.raw.of(whole)
	}
	return whole, nil
}

// head puts IP and UDP headers in front of n bytes of payload, which begin behind the room for the longest.
func (e *udpEnd) head(b []byte, n int, src netip.AddrPort, f fields) []byte {
	const room = wire.IPv6Len + wire.UDPLen
	u := wire.UDP{SrcPort: src.Port(), DstPort: e.info.UDPPort, Length: uint16(wire.UDPLen + n)}
	u.Put(b[wire.IPv6Len:])
	if f.hops == 0 {
		f.hops = 64 // the system does not tell
	}
	from, at := src.Addr().Unmap(), 0
	if from.Is4() {
		at = wire.IPv6Len - wire.IPv4Len
		ip := wire.IPv4{TOS: f.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), Frag: wire.IPv4DontFragment, TTL: f.hops, Protocol: wire.ProtocolUDP,
			Src: from.As4(), Dst: netip.AddrFrom16(e.info.GID).Unmap().As4()}
		ip.SetChecksum()
		ip.Put(b[at:])
	} else {
		ip := wire.IPv6{TrafficClass: f.class, FlowLabel: f.label, PayloadLen: u.Length, NextHeader: wire.ProtocolUDP, HopLimit: f.hops, Src: from.As16(), Dst: e.info.GID}
		ip.Put(b)
	}
	return b[at : room+n : room+n]
}

// Close closes all sockets.
func (e *udpEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var errs []error
	for _, c := range e.senders {
		errs = append(errs, c.Close())
	}
	if e.raw != nil {
		errs = append(errs, e.raw.close())
	}
	return errors.Join(errs...)
}
