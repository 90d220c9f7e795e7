package bench

import (
	"errors"
	"time"

	"ciddk/ci"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// The delay cases measure how long one QP delays another on the same port. QP A carries a load between two HCAs of this
// process, and QP B exchanges small SENDs between the same HCAs meanwhile. One goroutine does both sides of B, so that
// each message is timed by itself, from post to poll; half of a round trip would halve a delay that only one of its
// message is timed separately, from post to poll. Half a round trip would halve a delay that affects only one message.

const (
	loadBytes  = 256 << 20             // bytes of A's READ and of A's ring of WRITEs
	loadWrites = loadBytes / (8 << 20) // WRITEs in the ring
	delayWant  = 5 * time.Millisecond
	delayTrips = 128     // minimum number of B's round trips in a round
	delayTimes = 1 << 18 // maximum number of B's messages in a round
)

// delayCase returns the case of a link; port creates the ports of the two HCAs.
func delayCase(name, what string, ports func() (near, far openPort)) Case {
	return Case{
		Name: "delay/" + name, Table: Delay, Want: float64(delayWant.Nanoseconds()), Op: "message", Bytes: small,
		Ours: []Entry{
			{"READ of 256 MiB", "QP A's peer requests it with one packet"},
			{"32 WRITEs of 8 MiB", "QP A's send queue holds all of them"},
		},
		Yards: []Entry{{"alone", "QP B without a load, for as long as the READ before took"}},
		Open: func() (Rig, error) {
			near, far := ports()
			return openDelay(near, far)
		},
		Link: what,
	}
}

// delayCases lists the cases of both links.
func delayCases() []Case {
	return []Case{
		delayCase("direct", "direct", func() (near, far openPort) {
			link := direct.NewLink()
			port := func() (rvt.Port, error) { return direct.New(link, direct.Config{}) }
			return port, port
		}),
		delayCase("udp", "UDP loopback", func() (near, far openPort) {
			a, b := addresses()
			return udpPort(a), udpPort(b)
		}),
	}
}

// delayRig has QPs A and B on each of two HCAs.
type delayRig struct {
	undo       []func() error
	ping, pong *bouncer // buffers of B
	read       *load
	write      *load
	times      []time.Duration
	took       time.Duration // of the last round with a load
}

func openDelay(near, far openPort) (_ Rig, err error) {
	d := &delayRig{times: make([]time.Duration, 0, delayTimes)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	n, err := d.open(newHCA(near, bufBytes))
	if err != nil {
		return nil, err
	}
	// Most of this memory is only read and never gets pages of its own.
	f, err := d.open(newHCA(far, loadBytes))
	if err != nil {
		return nil, err
	}
	pair := func(c ci.QPCaps) (a, b *side, err error) {
		if a, err = d.open(n.another(c)); err != nil {
			return nil, nil, err
		}
		if b, err = d.open(f.another(c)); err != nil {
			return nil, nil, err
		}
		return a, b, errors.Join(a.connect(a.qp, b.address()), b.connect(b.qp, a.address()))
	}
	a, _, err := pair(ci.QPCaps{SendDepth: loadWrites, RecvDepth: 1, SendSGE: loadBytes / bufBytes, RecvSGE: 1})
	if err != nil {
		return nil, err
	}
	b, c, err := pair(shallow)
	if err != nil {
		return nil, err
	}
	d.read, d.write = newReadLoad(a, f.mem), newWriteLoad(a, f.mem)
	if d.ping, err = newBouncer(b, flow{op: ci.OpSend, size: small}); err != nil {
		return nil, err
	}
	d.pong, err = newBouncer(c, flow{op: ci.OpSend, size: small})
	d.ping.yield, d.pong.yield = true, true
	return d, err
}

// open adds a side to what Close closes.
func (d *delayRig) open(s *side, err error) (*side, error) {
	if err == nil {
		d.undo = append(d.undo, s.close)
	}
	return s, err
}

// Close is idempotent.
func (d *delayRig) Close() error {
	var errs []error
	for i := range d.undo {
		errs = append(errs, d.undo[len(d.undo)-1-i]())
	}
	d.undo = nil
	return errors.Join(errs...)
}

func (d *delayRig) Run(entry int) (Sample, error) {
	w := &watch{times: d.times[:0]}
	began := time.Now()
	over := func() bool { return time.Since(began) >= d.took }
	ended := make(chan error, 1)
	if l := []*load{d.read, d.write, nil}[entry]; l != nil {
		go func() { ended <- l.run() }()
		over = func() bool { return len(ended) > 0 }
	} else {
		ended <- nil
	}
	s, err := measure(0, func() error {
		for i := 0; i < delayTrips || !over() && i < delayTimes/2; i++ {
			if err := errors.Join(d.bounce(d.ping, d.pong, w), d.bounce(d.pong, d.ping, w)); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, <-ended); err != nil {
		return s, err
	}
	if entry == 0 {
		d.took = s.Time
	}
	s.Ops = len(w.times)
	s.Median, s.P99, s.Max = w.percentile(50), w.percentile(99), w.percentile(100)
	return s, nil
}

// bounce sends one message of B.
func (d *delayRig) bounce(from, to *bouncer, w *watch) error {
	w.start()
	if err := from.post(); err != nil {
		return err
	}
	if err := to.await(); err != nil {
		return err
	}
	w.stop(1)
	return nil
}

// A load is the work of QP A in one round. Its goroutine sleeps until the work has completed.
type load struct {
	poller
	qp   ci.QP
	wrs  []ci.SendWR // the last request is signaled
	wake chan struct{}
}

func newLoad(s *side, wrs []ci.SendWR) *load {
	wrs[len(wrs)-1].Flags = ci.SendSignaled
	return &load{poller: poller{cq: s.cq}, qp: s.qp, wrs: wrs, wake: s.wake}
}

// newReadLoad returns one READ of loadBytes. It reads the same buffer several times.
func newReadLoad(s *side, from ci.Region) *load {
	var l []ci.SGE
	for range loadBytes / bufBytes {
		l = append(l, s.mem.SGE(0, bufBytes))
	}
	return newLoad(s, []ci.SendWR{{Op: ci.OpRead, SGL: l, Remote: from.Remote(0)}})
}

// newWriteLoad returns a full send queue of WRITEs.
func newWriteLoad(s *side, to ci.Region) *load {
	wrs := make([]ci.SendWR, loadWrites)
	for i := range wrs {
		wrs[i] = ci.SendWR{ID: uint64(i), Op: ci.OpWrite, SGL: []ci.SGE{s.mem.SGE(0, loadBytes/loadWrites)},
			Remote: to.Remote(0)}
	}
	return newLoad(s, wrs)
}

func (l *load) run() error {
	if _, err := l.qp.PostSend(l.wrs); err != nil {
		return err
	}
	late := time.NewTimer(spinLimit)
	defer late.Stop()
	for {
		if err := l.cq.Notify(ci.NotifyNext); err != nil {
			return err
		}
		wcs, err := l.poll()
		if err != nil || len(wcs) > 0 {
			return err
		}
		select {
		case <-l.wake:
		case <-late.C:
			return errStalled
		}
	}
}
