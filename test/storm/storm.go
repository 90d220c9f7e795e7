package storm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// storm is a storm in progress.
type storm struct {
	c      Config
	clock  *clock.Virtual
	net    *sim.Network
	oracle *oracle
	hosts  []*host
	pairs  []*pair
	pool   []byte // source of patterns
	report Report
	hash   hash.Hash
	steps  uint64
	err    error // first error of a post or in memory
	wcs    [64]ci.WC
}

// poolSpan is the number of offsets at which a pattern may begin.
const poolSpan = 1 << 20

// Run runs a storm. It returns the first deviation from the oracle, or the first wrong byte in memory, as an error.
func Run(c Config) (*Report, error) {
	if c.Pairs == 0 {
		c.Pairs = 48
	}
	if c.Wrong == 0 {
		c.Wrong = 1000
	}
	s := &storm{c: c, clock: clock.NewVirtual(time.Hour), hash: sha256.New(),
		report: Report{ByOp: map[string]int{}, Failures: map[string]int{}, Faults: map[string]uint64{}}}
	s.oracle = &oracle{now: s.clock.Elapsed, sides: map[endpoint]*side{}}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], c.Seed)
	s.pool = make([]byte, poolSpan+maxBytes)
	_, _ = rand.NewChaCha8(seed).Read(s.pool) // never fails
	s.net = sim.NewNetwork(sim.NetworkConfig{Clock: s.clock, Latency: latency, Seed: c.Seed,
		Impairment: c.impairment(), Watch: s.watch})
	if err := s.build(); err != nil {
		return nil, err
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	return &s.report, nil
}

// build creates hosts and queue pairs, and connects them.
func (s *storm) build() error {
	for i := range hostCount {
		h, err := s.newHost(i, s.c.Pairs)
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, h)
	}
	for i := range s.c.Pairs {
		p := &pair{}
		for k := range p.ends {
			h := s.hosts[(i+k)%hostCount]
			e := &end{s: s, host: h, pair: p, num: 2*i + k, base: len(h.ends) * endBytes,
				rnd: rand.New(rand.NewPCG(s.c.Seed, uint64(2*i+k))), shared: i%4 == 3}
			c := ci.QPCreate{Type: ci.RC, SendCQ: h.sendCQ, RecvCQ: h.recvCQ, QPCaps: ci.QPCaps{SendDepth: 2 * depth,
				RecvDepth: depth, SendSGE: 3, RecvSGE: 2, MaxInline: 64}}
			if e.shared {
				c.SRQ, c.RecvDepth = h.srq, 0
			}
			var err error
			if e.qp, err = h.pd.CreateQP(c); err != nil {
				return err
			}
			h.ends[e.qp.Num()] = e
			p.ends[k] = e
		}
		p.ends[0].peer, p.ends[1].peer = p.ends[1], p.ends[0]
		s.pairs = append(s.pairs, p)
	}
	for _, h := range s.hosts {
		if err := h.feedSRQ(srqLevel); err != nil {
			return err
		}
	}
	for _, p := range s.pairs {
		if err := p.connect(s); err != nil {
			return err
		}
	}
	return nil
}

// pattern returns the bytes of a message.
func (s *storm) pattern(num int, life, id uint64, n int) []byte {
	x := s.c.Seed ^ uint64(num)<<48 ^ life<<32 ^ id
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	at := int((x ^ x>>31) % poolSpan)
	return s.pool[at : at+n]
}

// watch adds a packet to the hash and passes it to the oracle.
func (s *storm) watch(d *sim.Datagram) {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], uint64(d.Time))
	binary.LittleEndian.PutUint64(b[8:], uint64(d.Flipped))
	b[16], b[17] = byte(d.Verdict), 0
	if d.Arrived {
		b[17] = 1
	} else {
		s.report.Packets++
		s.report.Bytes += uint64(len(d.Data))
	}
	s.hash.Write(b[:])
	s.hash.Write(d.Data)
	s.oracle.watch(d)
}

// after calls f after d. An error of f ends the storm.
func (s *storm) after(d time.Duration, f func() error) {
	s.clock.AfterFunc(d, func() {
		if err := f(); err != nil {
			s.fail(err)
		}
	})
}

// fail records the first error.
func (s *storm) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// enough reports whether enough messages have succeeded.
func (s *storm) enough() bool { return s.report.Messages >= s.c.Messages }

// run advances the clock until no timer is left.
func (s *storm) run() error {
	for {
		s.steps++
		if s.steps%1024 == 0 {
			s.oracle.sweep()
		}
		more := s.clock.Step()
		s.reap()
		if s.oracle.err == nil && s.err == nil {
			s.oracle.settle()
		}
		if err := errors.Join(s.oracle.err, s.err); err != nil {
			return err
		}
		if !more {
			break
		}
	}
	for _, p := range s.pairs {
		for _, e := range p.ends {
			if !e.side.failed && len(e.open) > 0 {
				return fmt.Errorf("%s: %d requests are incomplete, and no timer is set", e.side.name, len(e.open))
			}
		}
	}
	s.oracle.sweep()
	return s.oracle.err
}

// reap polls completions until all queues are empty.
func (s *storm) reap() {
	for again := true; again && s.err == nil && s.oracle.err == nil; {
		again = false
		for _, h := range s.hosts {
			for i, cq := range [2]ci.CQ{h.recvCQ, h.sendCQ} {
				n, err := cq.Poll(s.wcs[:])
				if err != nil {
					s.fail(err)
					return
				}
				for k := range s.wcs[:n] {
					s.complete(h, &s.wcs[k], i == 0)
				}
				again = again || n > 0
			}
		}
	}
}

// complete handles a completion.
func (s *storm) complete(h *host, wc *ci.WC, isRecv bool) {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], uint64(s.clock.Elapsed()))
	binary.LittleEndian.PutUint64(b[8:], wc.ID)
	binary.LittleEndian.PutUint32(b[16:], uint32(wc.QPN))
	b[20], b[21] = byte(wc.Status), byte(wc.Op)
	s.hash.Write(b[:])
	e := h.ends[wc.QPN]
	if e == nil {
		s.fail(fmt.Errorf("completion of unknown QP %#x at %v: %+v", wc.QPN, h.addr, *wc))
		return
	}
	if isRecv {
		e.received(wc)
	} else {
		e.sent(wc)
	}
	e.pair.reconnect(s)
}

// sent handles a completion of the send queue, which also completes unsignaled requests before it.
func (e *end) sent(wc *ci.WC) {
	if e.side.completed(wc) == nil {
		return
	}
	for len(e.open) > 0 {
		x := e.open[0]
		if x.id > wc.ID {
			break
		}
		e.open = e.open[1:]
		if x.id < wc.ID || wc.Status == ci.WCSuccess {
			e.succeeded(x)
		} else {
			e.failed(wc.Status)
		}
	}
	e.refillLater()
}

// failed counts a request that failed.
func (e *end) failed(st ci.WCStatus) {
	if st == ci.WCFlushErr {
		e.s.report.Flushed++
		return
	}
	r := &e.s.report
	r.Failures[st.String()]++
	if st != ci.WCTimeoutRetryErr {
		return
	}
	if e.peer.side.failed {
		r.Unanswered++
	} else {
		r.ByRetry[e.side.attr.RetryCount].Failures++
	}
}

// succeeded checks the effects of a request that succeeded.
func (e *end) succeeded(x *sending) {
	name := ""
	n := int(x.size)
	mine := e.host.mem[e.sendAt(x.slot) : e.sendAt(x.slot)+slotBytes]
	theirs := e.peer.host.mem[e.peer.targetAt(x.slot) : e.peer.targetAt(x.slot)+slotBytes]
	switch x.op {
	case ci.OpBindMW, ci.OpFastReg:
		e.win = winOpen
		e.s.report.Local++
		return
	case ci.OpLocalInv:
		e.win = winIdle
		e.s.report.Local++
		return
	case ci.OpSend:
		name = "SEND"
	case ci.OpWrite:
		name = "WRITE"
		if x.window {
			theirs = e.peer.host.mem[e.peer.base : e.peer.base+winBytes]
			e.peer.winUsed = false
			name = "WRITE to a window"
		}
		e.check(x, theirs, e.s.pattern(e.num, e.pair.life, x.id, n))
		clear(theirs[:n])
	case ci.OpRead:
		name = "READ"
		e.check(x, mine, e.s.pattern(e.peer.num, 0, 0, maxBytes)[x.source:x.source+n])
	default:
		name = "fetch-add"
		if x.op == ci.OpCompareSwap {
			name = "compare-swap"
		}
		var want [8]byte
		binary.NativeEndian.PutUint64(want[:], x.orig)
		e.check(x, mine, want[:])
	}
	switch {
	case x.imms():
		name += " with immediate"
	case x.flags&ci.SendInvalidate != 0:
		name += " with invalidate"
	}
	e.pair.left--
	e.s.report.Messages++
	e.s.report.ByRetry[e.side.attr.RetryCount].Messages++
	e.s.report.ByOp[name]++
}

// check compares memory with the expected bytes, which zeros must follow.
func (e *end) check(x *sending, got, want []byte) {
	n := len(want)
	if !bytes.Equal(got[:n], want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		e.s.fail(fmt.Errorf("at %v, %s: request %d, op %d of %d bytes, has succeeded, and byte %d is %#x where %#x "+
			"belongs",
			e.s.clock.Elapsed(), e.side.name, x.id, x.op,
			x.size, i, got[i], want[i]))
		return
	}
	for i, b := range got[n : n+64] {
		if b != 0 {
			e.s.fail(fmt.Errorf("at %v, %s: request %d, op %d of %d bytes, has written %d bytes too many",
				e.s.clock.Elapsed(),
				e.side.name, x.id, x.op, x.size, i+1))
			return
		}
	}
}

// received handles a completion of the receive queue.
func (e *end) received(wc *ci.WC) {
	r := e.side.received(wc)
	slot := int(wc.ID & 0xff)
	at := e.recvAt(slot)
	if e.shared {
		at = e.host.srqAt + slot*slotBytes
	}
	if r != nil {
		x := &sending{request: r}
		want := e.s.pattern(e.peer.num, e.pair.life, r.id, int(r.size))
		if r.op == ci.OpSend {
			e.check(x, e.host.mem[at:at+slotBytes], want)
		} else {
			at := e.targetAt(int(r.id % depth))
			e.check(x, e.host.mem[at:at+slotBytes], want)
		}
		if r.flags&ci.SendInvalidate != 0 {
			e.win = winIdle
			e.refillLater() // binds it again
		}
	}
	if e.shared {
		h := e.host
		h.srqFree = append(h.srqFree, slot)
		e.s.after(e.late(), func() error { return h.feedSRQ(srqLevel) })
		return
	}
	e.recvFree = append(e.recvFree, slot)
	if !e.side.failed {
		e.feedLater()
	}
}

// reconnect resets and connects the pair again, if its life has ended and no request is outstanding.
func (p *pair) reconnect(s *storm) {
	if p.reset {
		return
	}
	for _, e := range p.ends {
		p.ended = p.ended || e.side.failed || p.left <= 0
	}
	if !p.ended {
		return
	}
	for _, e := range p.ends {
		if len(e.open) > 0 {
			return // they will be flushed, or fail because the peer does not answer
		}
	}
	p.reset = true
	for _, e := range p.ends {
		if e.side.failed {
			continue
		}
		e.side.enterError(ci.WCFlushErr)
		if err := e.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}); err != nil {
			s.fail(err)
		}
	}
	// Packets of this life must not arrive in the next one.
	i := s.c.impairment()
	s.after(2*max(i.MaxDelay, time.Millisecond)+4*latency, func() error {
		for _, e := range p.ends {
			if err := e.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}); err != nil {
				return err
			}
		}
		return p.connect(s)
	})
}

// finish makes the last checks and closes the hosts.
func (s *storm) finish() error {
	for _, h := range s.hosts {
		for i, w := range h.words {
			if got := binary.NativeEndian.Uint64(h.mem[h.wordsAt+8*i:]); got != *w {
				return fmt.Errorf("word %d of %v is %#x, want %#x after the atomics that arrived", i, h.addr, got, *w)
			}
		}
	}
	r := &s.report
	refused := uint64(0)
	for _, h := range s.hosts {
		c := h.hca.Counters()
		refused += c["drop_icrc"] + c["drop_malformed"] + c["drop_not_for_us"]
	}
	if refused != s.oracle.refused {
		return fmt.Errorf("%d packets were dropped as damaged, want %d", refused, s.oracle.refused)
	}
	for _, h := range s.hosts {
		if err := h.close(); err != nil {
			return err
		}
	}
	for v := impair.Pass; v <= impair.Corrupt; v++ {
		r.Faults[v.String()] = s.net.Count(v)
	}
	r.Harmless, r.Refused = s.oracle.harmless, s.oracle.refused
	r.RNR, r.NAKs, r.Timeouts = s.oracle.rnr, s.oracle.naks, s.oracle.timeouts
	r.Virtual = s.clock.Elapsed() - time.Hour
	s.hash.Sum(r.Hash[:0])
	return nil
}
