package udpend

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

// udpEnd is an end. A socket does not pass on IP and UDP headers, so those of a received packet are built from the
// addresses, the ports, and the fields that the system reports (end_linux.go). With the capability for a raw socket,
// the IPv4 header is the received one.
type udpEnd struct {
	info   validate.WireInfo
	main   *net.UDPConn
	within func(func() error) error
	raw    *rawHeaders // nil without CAP_NET_RAW

	mu      sync.Mutex
	senders map[netip.AddrPort]*net.UDPConn // by source address, including main
	closed  bool
}

// endBuffer is the size of the receive buffer in bytes. It is larger than the traffic of any case.
const endBuffer = 4 << 20

// Config describes an end.
type Config struct {
	Addr  netip.Addr // at which it receives
	Other netip.Addr // a second address that it can send from
	Port  uint16     // 0: that of RoCEv2
	// Headers requests the IPv4 headers of received packets, which takes a raw socket (CAP_NET_RAW).
	Headers bool
	// Within runs the functions that open sockets, such as InNetwork's. Nil: they are called.
	Within func(func() error) error
}

// Open opens an end.
func Open(c Config) (validate.Wire, error) {
	if c.Port == 0 {
		c.Port = wire.RoCEv2Port
	}
	if c.Within == nil {
		c.Within = func(f func() error) error { return f() }
	}
	e := &udpEnd{within: c.Within, senders: map[netip.AddrPort]*net.UDPConn{}, info: validate.WireInfo{
		Link: ci.LinkEthernet, GID: c.Addr.As16(), Other: c.Other.As16(), UDPPort: c.Port, Raw: true,
		SendsClass: sentClass([]byte{0x45, 1}) != nil,
	}}
	at := netip.AddrPortFrom(c.Addr, c.Port)
	conn, err := e.sender(at)
	if err == nil {
		e.main = conn
		e.info.Class, e.info.Hops, e.info.Label, err = showFields(conn, c.Addr.Is6())
	}
	if err == nil && c.Headers && c.Addr.Is4() {
		err = c.Within(func() (err error) { e.raw, err = openRawHeaders(c.Addr, c.Port); return err })
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

// Info implements validate.Wire.
func (u *udpEnd) Info() validate.WireInfo { return u.info }

// Send implements validate.Wire. It sends the UDP payload of an IP packet from the packet's source address and port.
func (u *udpEnd) Send(packet []byte) error {
	src, dst, payload, err := datagram(packet)
	if err != nil {
		return err
	}
	c, err := u.sender(src)
	if err != nil {
		return err
	}
	_, _, err = c.WriteMsgUDPAddrPort(payload, sentClass(packet), dst)
	return err
}

// datagram splits an IP packet that is one UDP datagram.
func datagram(packet []byte) (src, dst netip.AddrPort, payload []byte, err error) {
	var from, to netip.Addr
	var u []byte
	isOne := false
	if len(packet) > 0 && packet[0]>>4 == 6 {
		var ip wire.IPv6
		err = ip.Parse(packet)
		isOne = int(ip.PayloadLen) == len(packet)-wire.IPv6Len && ip.NextHeader == wire.ProtocolUDP
		from, to, u = netip.AddrFrom16(ip.Src), netip.AddrFrom16(ip.Dst), packet[min(wire.IPv6Len, len(packet)):]
	} else {
		var ip wire.IPv4
		err = ip.Parse(packet)
		isOne = int(ip.TotalLen) == len(packet) && ip.Protocol == wire.ProtocolUDP
		from, to, u = netip.AddrFrom4(ip.Src), netip.AddrFrom4(ip.Dst), packet[min(wire.IPv4Len, len(packet)):]
	}
	if err == nil && !isOne {
		err = fmt.Errorf(
			"a packet of %d bytes is not one UDP datagram: % x", len(packet), packet[:min(len(packet), 40)],
		)
	}
	if err == nil && len(u) < wire.UDPLen {
		err = fmt.Errorf("a packet of %d bytes has no room for a UDP header", len(packet))
	}
	if err != nil {
		return src, dst, nil, err
	}
	src = netip.AddrPortFrom(from, binary.BigEndian.Uint16(u))
	dst = netip.AddrPortFrom(to, binary.BigEndian.Uint16(u[2:]))
	return src, dst, u[wire.UDPLen:], nil
}

// sender returns the socket for a source address.
func (u *udpEnd) sender(src netip.AddrPort) (*net.UDPConn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, net.ErrClosed
	}
	if c := u.senders[src]; c != nil {
		return c, nil
	}
	var c *net.UDPConn
	err := u.within(func() (err error) { c, err = listenEnd(src); return err })
	if err == nil {
		u.senders[src] = c
	}
	return c, err
}

// fields are the fields of an IP header that a socket may report.
type fields struct {
	class, hops uint8
	label       uint32
}

// Recv implements validate.Wire. It returns the next datagram received at the end's address, with headers.
func (u *udpEnd) Recv(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := u.main.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	// SetReadDeadline fails only if the socket is closed, which also ends the read.
	stop := context.AfterFunc(ctx, func() { _ = u.main.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	const room = wire.IPv6Len + wire.UDPLen
	b := make([]byte, 1<<16)
	control := make([]byte, 256)
	n, k, _, src, err := u.main.ReadMsgUDPAddrPort(b[room:], control)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	whole := u.head(b, n, src, shownFields(control[:k]))
	if u.raw != nil {
		return u.raw.of(whole)
	}
	return whole, nil
}

// head writes IP and UDP headers in front of n bytes of payload, which begin after the room for the longest headers.
func (u *udpEnd) head(b []byte, n int, src netip.AddrPort, f fields) []byte {
	const room = wire.IPv6Len + wire.UDPLen
	hdr := wire.UDP{SrcPort: src.Port(), DstPort: u.info.UDPPort, Length: uint16(wire.UDPLen + n)}
	hdr.Put(b[wire.IPv6Len:])
	if f.hops == 0 {
		f.hops = 64 // the system does not report it
	}
	from, at := src.Addr().Unmap(), 0
	if from.Is4() {
		at = wire.IPv6Len - wire.IPv4Len
		ip := wire.IPv4{
			TOS: f.class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), Frag: wire.IPv4DontFragment, TTL: f.hops,
			Protocol: wire.ProtocolUDP, Src: from.As4(), Dst: netip.AddrFrom16(u.info.GID).Unmap().As4(),
		}
		ip.SetChecksum()
		ip.Put(b[at:])
	} else {
		ip := wire.IPv6{
			TrafficClass: f.class, FlowLabel: f.label, PayloadLen: hdr.Length, NextHeader: wire.ProtocolUDP,
			HopLimit: f.hops, Src: from.As16(), Dst: u.info.GID,
		}
		ip.Put(b)
	}
	return b[at : room+n : room+n]
}

// Close closes all sockets. It implements validate.Wire.
func (u *udpEnd) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	var errs []error
	for _, c := range u.senders {
		errs = append(errs, c.Close())
	}
	if u.raw != nil {
		errs = append(errs, u.raw.close())
	}
	return errors.Join(errs...)
}
