package bench

import (
	"errors"
	"fmt"
	"net/netip"
)

// Rounds of the cases over UDP.
const (
	streamBytes  = 64 << 20
	streamDepth  = 16
	floods       = 64000
	floodBatches = 8 // outstanding
	recvBatches  = 48
	bounces      = 4000
)

func udpCases() []Case {
	write := func(size int, name string) Case {
		return Case{Name: "udp/write-" + name, Ours: "RDMA WRITE of " + name + " over UDP between two processes, 16 outstanding",
			Yardstick: "a raw socket pair, two processes, 4096-byte packets with CRC, segmentation and receive offload", Want: 0.7, AtLeast: true,
			Op: "message", Bytes: size, open: openUDP(udpWork{
				prepare: func(u *udpRig) error {
					u.w, u.end = newWriter(u.side, u.there.Mem, size, streamDepth), newSender(u.side, 1, nil)
					return nil
				}, prepareDo: "sleeper",
				ours: func(u *udpRig) error { return u.w.run(streamBytes / size) }, do: "sleep", ops: streamBytes / size,
				after:  func(u *udpRig) error { return u.end.run(batch) },
				yard:   func(u *udpRig) error { return u.raw.stream(streamBytes / (rawBody * rawPackets)) },
				yardDo: "raw-stream", yardOps: streamBytes / (rawBody * rawPackets), scale: float64(size) / (rawBody * rawPackets),
			})}
	}
	return []Case{
		write(64<<10, "64KiB"),
		write(mib, "1MiB"),
		{Name: "udp/ping-64B", Ours: "SEND of 64 bytes and its answer over UDP, two processes spinning on Poll", Yardstick: "raw sockets, two processes, spinning",
			Want: 1.3, Op: "round trip", Bytes: small, open: openUDP(udpWork{
				prepare: func(u *udpRig) (err error) { u.b, err = newBouncer(u.side); return err }, prepareDo: "bouncer",
				ours: func(u *udpRig) error { return u.b.run(bounces, true) }, do: "bounce", ops: bounces,
				yard: func(u *udpRig) error { return u.raw.bounce(bounces, true) }, yardDo: "raw-bounce", yardOps: bounces, scale: 1,
			})},
		{Name: "udp/send-64B", Ours: "SEND of 64 bytes over UDP, two processes, in batches of 32", Yardstick: "a raw socket that sends one datagram a call, two processes",
			Want: 3, AtLeast: true, Op: "message", Bytes: small, open: openUDP(udpWork{
				prepare: func(u *udpRig) error { u.s = newSender(u.side, floodBatches, nil); return nil }, prepareDo: "receiver",
				ours: func(u *udpRig) error { return u.s.run(floods) }, do: "receive", ops: floods,
				yard: func(u *udpRig) error { return u.raw.one(floods) }, yardDo: "raw-one", yardOps: floods, scale: 1,
			})},
	}
}

// udpWork is what the two sides of a case over UDP do.
type udpWork struct {
	prepare   func(*udpRig) error
	prepareDo string
	ours      func(*udpRig) error
	do        string
	ops       int
	after     func(*udpRig) error // not measured
	yard      func(*udpRig) error
	yardDo    string
	yardOps   int
	scale     float64 // yardstick operations are this much smaller than ours
}

// udpRig is a case over UDP: this process, and its peer.
type udpRig struct {
	udpWork
	*remote
	side  *side
	raw   *rawSender
	there address
	w     *writer
	end   *sender
	s     *sender
	b     *bouncer
}

func openUDP(work udpWork) func() (rig, error) {
	return func() (_ rig, err error) {
		u := &udpRig{udpWork: work}
		here, there := addresses()
		if u.remote, err = startPeer(); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, u.close())
			}
		}()
		a, err := u.ask(order{Do: "open", Addr: there.String()})
		if err != nil {
			return nil, err
		}
		u.there = a.At
		if u.side, err = newSide(udpPort(here), deep); err != nil {
			return nil, err
		}
		sock, err := openRaw(here)
		if err != nil {
			return nil, err
		}
		u.raw = newRawSender(sock)
		u.raw.connect(a.Raw)
		if _, err := u.ask(order{Do: "connect", To: u.side.address(), Raw: sock.at}); err != nil {
			return nil, err
		}
		if err := u.side.connect(u.side.qp, u.there); err != nil {
			return nil, err
		}
		if work.prepareDo != "" {
			if _, err := u.ask(order{Do: work.prepareDo}); err != nil {
				return nil, err
			}
		}
		return u, work.prepare(u)
	}
}

func (u *udpRig) ours() (Sample, error) {
	return u.together(u.do, u.ops, func() error { return u.udpWork.ours(u) }, u.after)
}

func (u *udpRig) yardstick() (Sample, error) {
	s, err := u.together(u.yardDo, u.yardOps, func() error { return u.yard(u) }, nil)
	s.Ops = int(float64(s.Ops) / u.scale)
	return s, err
}

// together lets both processes work. The time is ours: whoever begins has the answer last.
func (u *udpRig) together(do string, ops int, work func() error, after func(*udpRig) error) (Sample, error) {
	if _, err := u.ask(order{Do: do, Ops: ops}); err != nil {
		return Sample{}, err
	}
	s, err := measure(ops, work)
	if err != nil {
		return s, err
	}
	if after != nil {
		if err := after(u); err != nil {
			return s, err
		}
	}
	a, err := u.hear()
	s.Allocs += a.S.Allocs
	return s, err
}

// close is called on what there is so far, too.
func (u *udpRig) close() error {
	var errs []error
	if u.side != nil {
		errs = append(errs, u.side.close())
	}
	if u.raw != nil {
		errs = append(errs, u.raw.close())
	}
	return errors.Join(append(errs, u.remote.close())...)
}

// peer is the other process's half.
type peer struct {
	side *side
	raw  *rawSocket
	rr   *rawReceiver
	r    *receiver
	b    *bouncer
	sl   *sleeper
}

// prepare carries out an order, or gives the work to be done for it.
func (p *peer) prepare(o order) (a answer, work func() error, err error) {
	if o.Do != "open" && p.side == nil {
		return a, nil, errors.New("not open")
	}
	switch o.Do {
	case "open":
		addr, err := netip.ParseAddr(o.Addr)
		if err != nil {
			return a, nil, err
		}
		if p.side, err = newSide(udpPort(addr), deep); err != nil {
			return a, nil, err
		}
		if p.raw, err = openRaw(addr); err != nil {
			return a, nil, err
		}
		p.rr = newRawReceiver(p.raw)
		return answer{At: p.side.address(), Raw: p.raw.at}, nil, nil
	case "connect":
		p.raw.connect(o.Raw)
		return a, nil, p.side.connect(p.side.qp, o.To)
	case "bouncer":
		p.b, err = newBouncer(p.side)
		return a, nil, err
	case "receiver":
		p.r, err = newReceiver(p.side, recvBatches, nil)
		return a, nil, err
	case "bounce":
		return a, func() error { return p.b.run(o.Ops, false) }, nil
	case "receive":
		return a, func() error { return p.r.run(o.Ops) }, nil
	case "sleeper":
		p.sl, err = newSleeper(p.side)
		return a, nil, err
	case "sleep":
		return a, p.sl.run, nil
	case "raw-stream":
		return a, func() error { return p.rr.stream(o.Ops) }, nil
	case "raw-bounce":
		return a, func() error { return p.raw.bounce(o.Ops, false) }, nil
	case "raw-one":
		return a, func() error { return p.rr.one(o.Ops) }, nil
	}
	return a, nil, fmt.Errorf("unknown order %q", o.Do)
}

func (p *peer) close() error {
	if p.side == nil {
		return nil
	}
	err := errors.Join(p.side.close(), p.raw.close())
	p.side, p.raw = nil, nil
	return err
}
