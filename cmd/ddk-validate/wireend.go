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
// those of a packet received are made again from what is known.
type udpEnd struct {
	info validate.WireInfo
	main *net.UDPConn

	mu      sync.Mutex
	senders map[netip.AddrPort]*net.UDPConn // by source; main among them
	closed  bool
}

// endBuffer is the receive buffer asked for, in bytes: more than any case has on the way.
const endBuffer = 4 << 20

// openEnd binds an end to addr, with a second address that it can send from.
func openEnd(addr, other netip.Addr, port uint16) (validate.Wire, error) {
	at := netip.AddrPortFrom(addr, port)
	c, err := listenEnd(at)
	if err != nil {
		return nil, fmt.Errorf("the certifier's end of the link: %w", err)
	}
	e := &udpEnd{main: c, senders: map[netip.AddrPort]*net.UDPConn{at: c}, info: validate.WireInfo{Link: ci.LinkEthernet, GID: addr.As16(),
		Other: other.As16(), UDPPort: port, Raw: true}}
	return e, nil
}

func listenEnd(at netip.AddrPort) (*net.UDPConn, error) {
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.SetReadBuffer(endBuffer), dontFragment(c)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (e *udpEnd) Info() validate.WireInfo { return e.info }

// Send sends the UDP payload of an IPv4 packet from the address and port that it says it comes from.
func (e *udpEnd) Send(packet []byte) error {
	var ip wire.IPv4
	if err := ip.Parse(packet); err != nil {
		return err
	}
	if int(ip.TotalLen) != len(packet) || ip.Protocol != wire.ProtocolUDP || len(packet) < wire.IPv4Len+wire.UDPLen {
		return fmt.Errorf("a packet of %d bytes, IP length %d, protocol %d: not one UDP datagram", len(packet), ip.TotalLen, ip.Protocol)
	}
	u := packet[wire.IPv4Len:]
	src := netip.AddrPortFrom(netip.AddrFrom4(ip.Src), binary.BigEndian.Uint16(u))
	dst := netip.AddrPortFrom(netip.AddrFrom4(ip.Dst), binary.BigEndian.Uint16(u[2:]))
	c, err := e.sender(src)
	if err != nil {
		return err
	}
	_, err = c.WriteToUDPAddrPort(u[wire.UDPLen:], dst)
	return err
}

// sender gives the socket of a source.
func (e *udpEnd) sender(src netip.AddrPort) (*net.UDPConn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	if c := e.senders[src]; c != nil {
		return c, nil
	}
	c, err := listenEnd(src)
	if err == nil {
		e.senders[src] = c
	}
	return c, err
}

// Recv gives the next datagram that came to the end's address, with headers around it.
func (e *udpEnd) Recv(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.main.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = e.main.SetReadDeadline(time.Unix(1, 0)) }) // an error means closed: the read ends as well
	defer stop()
	const head = wire.IPv4Len + wire.UDPLen
	b := make([]byte, 1<<16)
	n, src, err := e.main.ReadFromUDPAddrPort(b[head:])
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	ip := wire.IPv4{TotalLen: uint16(head + n), Frag: wire.IPv4DontFragment, TTL: 64, Protocol: wire.ProtocolUDP, Src: src.Addr().Unmap().As4(),
		Dst: netip.AddrFrom16(e.info.GID).Unmap().As4()}
	ip.SetChecksum()
	ip.Put(b)
	u := wire.UDP{SrcPort: src.Port(), DstPort: e.info.UDPPort, Length: uint16(wire.UDPLen + n)}
	u.Put(b[wire.IPv4Len:])
	return b[: head+n : head+n], nil
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
	return errors.Join(errs...)
}
