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
	probeBytes = 1100 // as a full packet of the cases
)

// probeWait is how long the probe waits for a datagram. Loopback delivers at once, and a busy machine delays the receiver
// and the deadline alike: what has arrived is received before the deadline counts.
const probeWait = 500 * time.Millisecond

// maxProbeLost ends a probe early: a link that loses so many packets is not quiet.
const maxProbeLost = 10

// linkProbe measures whether a UDP link loses packets: by datagrams of its own to one of the link's addresses, and by what
// the kernel has dropped, for want of space in a socket's buffer, since the probe was made.
type linkProbe struct {
	addr    netip.Addr
	open    func(func() error) error // runs a function in the link's network namespace
	dropped uint64                   // by the kernel, when the probe was made
}

func newLinkProbe(addr netip.Addr, open func(func() error) error) *linkProbe {
	p := &linkProbe{addr: addr, open: open}
	p.dropped = p.kernelDrops()
	return p
}

// kernelDrops returns the count of datagrams that the kernel has dropped at sockets of the namespace, 0 where the
// system has no such count.
func (p *linkProbe) kernelDrops() (n uint64) {
	_ = p.open(func() error { n = socketDrops(p.addr.Is6()); return nil }) // a namespace that is gone has no count
	return n
}

// run is validate.Target.Probe.
func (p *linkProbe) run(ctx context.Context) (sent, lost int, err error) {
	var tx, rx *net.UDPConn
	err = p.open(func() (err error) {
		if rx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.addr, 0))); err != nil {
			return err
		}
		tx, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.addr, 0)))
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
	if now := p.kernelDrops(); now > p.dropped {
		lost += int(now - p.dropped)
	}
	return sent, lost, ctx.Err()
}

// receive reads n datagrams and returns how many came in time.
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
