package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// A probe sends probeCount datagrams of probeBytes each, at most probeBurst before they are received.
const (
	probeCount = 1000
	probeBurst = 8
	probeBytes = 1100 // the size of a full packet of the cases
)

// probeWait limits the wait for a datagram. Loopback delivers at once. A busy machine delays the receiver as well as
// the deadline, and a datagram that has arrived is received even after the deadline.
const probeWait = 500 * time.Millisecond

// maxProbeLost is the number of losses that ends a probe early.
const maxProbeLost = 10

// linkProbe measures whether a UDP link loses packets. It sends datagrams to one of the link's addresses, and counts
// the datagrams that the kernel has dropped at full socket buffers since the probe was created.
type linkProbe struct {
	addr    netip.Addr
	open    func(func() error) error // runs a function in the link's network namespace
	dropped uint64                   // datagrams dropped by the kernel before the probe was created
}

func newLinkProbe(addr netip.Addr, open func(func() error) error) *linkProbe {
	p := &linkProbe{addr: addr, open: open}
	p.dropped = p.kernelDrops()
	return p
}

// kernelDrops returns the number of datagrams that the kernel has dropped at sockets of the namespace. It returns 0 if
// the system does not count them.
func (l *linkProbe) kernelDrops() (n uint64) {
	_ = l.open(func() error { n = socketDrops(l.addr.Is6()); return nil }) // a closed namespace has no count
	return n
}

// run implements validate.Target.Probe.
func (l *linkProbe) run(ctx context.Context) (sent, lost int, err error) {
	var tx, rx *net.UDPConn
	err = l.open(func() (err error) {
		if rx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addr, 0))); err != nil {
			return err
		}
		tx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.addr, 0)))
		return err
	})
	defer func() {
		for _, c := range []*net.UDPConn{tx, rx} {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	if err != nil {
		return 0, 0, err
	}
	to := rx.LocalAddr().(*net.UDPAddr).AddrPort()
	buf := make([]byte, probeBytes)
	for sent < probeCount && lost < maxProbeLost && ctx.Err() == nil {
		for range probeBurst {
			if _, err := tx.WriteToUDPAddrPort(buf, to); err != nil {
				return sent, lost, err
			}
		}
		sent += probeBurst
		got, err := receive(rx, probeBurst)
		if err != nil {
			return sent, lost, err
		}
		lost += probeBurst - got
	}
	if now := l.kernelDrops(); now > l.dropped {
		lost += int(now - l.dropped)
	}
	return sent, lost, ctx.Err()
}

// receive receives up to n datagrams and returns how many arrived in time.
func receive(c *net.UDPConn, n int) (got int, err error) {
	buf := make([]byte, probeBytes)
	for ; got < n; got++ {
		if err := c.SetReadDeadline(time.Now().Add(probeWait)); err != nil {
			return got, err
		}
		_, _, err := c.ReadFromUDPAddrPort(buf)
		if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}
