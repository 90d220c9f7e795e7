package chaos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/memfd"
	"ciddk/internal/rings"
)

// arena is shared memory for queues. Writes through the file change the queues while the engine uses them, as writes of
// another process do.
type arena struct {
	f   *os.File
	mem []byte

	mu    sync.Mutex
	used  int
	aside bool // queues come from the heap, and are not overwritten
}

const arenaLen = 1 << 20

func newArena() (*arena, error) {
	f, err := memfd.Create("chaos", arenaLen)
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, arenaLen, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &arena{f: f, mem: mem}, nil
}

func (a *arena) close() error { return errors.Join(unix.Munmap(a.mem), a.f.Close()) }

// alloc implements rings.RXE.Alloc.
func (a *arena) alloc(size int) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.aside {
		return make([]byte, size+8)[:size:size], nil // the heap aligns to at least 8
	}
	n := (size + 63) &^ 63
	if a.used+n > len(a.mem) {
		return nil, errors.New("the arena is full")
	}
	b := a.mem[a.used : a.used+size : a.used+size]
	a.used += n
	return b, nil
}

// overwrite writes random bytes to a random location in use.
func (a *arena) overwrite(x *actor) error {
	a.mu.Lock()
	used := a.used
	a.mu.Unlock()
	if used == 0 {
		return nil
	}
	var b [8]byte
	r := x.rnd
	binary.NativeEndian.PutUint64(b[:], one(r, []uint64{r.Uint64(), 0, 1, uint64(r.IntN(32)), 1 << 31, 1<<32 - 1,
		1<<63 - 1, uint64(r.IntN(4096))}))
	n := one(r, []int{1, 2, 4, 8})
	_, err := a.f.WriteAt(b[:n], int64(r.IntN(used))&^int64(n-1))
	return err
}

// free makes all memory available again. No queue may be in use.
func (a *arena) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.mem[:a.used])
	a.used = 0
}

// overwrittenRings adds an HCA with queues that are overwritten continuously, and with QPs whose queues are not. The
// latter must work correctly.
func (w *world) overwrittenRings() error {
	mem, err := newArena()
	if err != nil {
		return err
	}
	hca, err := w.plug(rung, reference.Config{Rings: rings.RXE{Alloc: mem.alloc}}, w.virtual(rung))
	if err != nil {
		return errors.Join(err, mem.close())
	}
	ca, err := hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil)
	if err != nil {
		return errors.Join(err, mem.close())
	}
	w.start("overwritten rings", func(a *actor) {
		for w.ctx.Err() == nil && !w.v.failed() {
			a.beat()
			if err := w.overwrittenSession(a, ca, mem); err != nil {
				w.v.failf("overwritten rings: %v", err)
			}
		}
		if err := errors.Join(ca.Destroy(), mem.close()); err != nil {
			w.v.failf("overwritten rings: %v", err)
		}
	})
	return nil
}

// foreignMemory returns n bytes outside of the Go heap.
func foreignMemory(n int) ([]byte, func() error, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, err
	}
	return b, func() error { return unix.Munmap(b) }, nil
}

// session is a set of objects. The first pair of QPs has undisturbed queues, and the others have queues in the arena.
type session struct {
	// of the QPs whose queues are overwritten; own is that of the others, in a protection domain of its own
	mem     *guarded
	own     *guarded
	mr      ci.MR
	ownMR   ci.MR
	objects []ci.Object // in the order of their creation
	cqs     []ci.CQ
	qps     []ci.QP
	srq     ci.SRQ
}

const sessionLen = 16384

// overwrittenSession creates objects, uses them while their queues are overwritten, and destroys them.
func (w *world) overwrittenSession(a *actor, ca ci.CA, mem *arena) (err error) {
	s := &session{own: newGuarded(sessionLen, a.rnd.Uint64())}
	var free func() error
	if s.mem, free, err = newForeign(sessionLen, a.rnd.Uint64()); err != nil {
		return err
	}
	defer func() {
		for _, v := range slices.Backward(s.objects) {
			if e := v.Destroy(); e != nil {
				err = errors.Join(err, fmt.Errorf("destroy: %w", e))
			}
			a.beat()
		}
		mem.free()
		err = errors.Join(err, s.mem.check(), s.own.check(), free())
	}()
	if err := s.build(ca, mem); err != nil {
		return err
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	seed := a.rnd.Uint64()
	writer.Go(func() {
		x := &actor{w: w, rnd: rand.New(rand.NewPCG(seed, 1))}
		t := time.NewTicker(50 * time.Microsecond)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case <-t.C:
			}
			for range 8 {
				if err := mem.overwrite(x); err != nil {
					w.v.failf("overwrite: %v", err)
					return
				}
			}
			w.tally.add("words of rings overwritten", 8)
		}
	})
	defer writer.Wait()
	defer close(stop)
	for i := 0; i < 200 && w.ctx.Err() == nil; i++ {
		if err := s.innocent(a, uint64(i)); errors.Is(err, errBusy) {
			w.tally.add("connections lost on a busy machine", 1)
			return nil
		} else if err != nil {
			return fmt.Errorf("QPs whose queues were not overwritten: %w", err)
		}
		for k, q := range s.qps[2:] {
			g := s.mr.Region()
			if i%8 == 0 { // the requests posted from here on stay in the queue, where they are overwritten
				_ = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPSQD})
			}
			wr := ci.SendWR{ID: uint64(i), Op: ci.SendOp(i % 5), Flags: ci.SendSignaled,
				SGL: []ci.SGE{g.SGE(uint64(64*k), 8), g.SGE(4096, 2000)}, Remote: g.Remote(8192)}
			if wr.Op > ci.OpRead {
				wr.SGL = wr.SGL[:1]
			}
			_, _ = q.PostSend([]ci.SendWR{wr, wr}) // full, or in an error state
			_, _ = q.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: []ci.SGE{g.SGE(12288, 2048)}}})
			_, _ = s.srq.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: []ci.SGE{g.SGE(12288, 2048)}}})
			if i%8 == 7 {
				_ = q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS})
			}
		}
		if i%8 == 6 {
			a.pause(2 * time.Millisecond)
		}
		for _, cq := range s.cqs[1:] {
			var wc [8]ci.WC
			_, _ = cq.Poll(wc[:])
			_, _ = cq.Peek()
		}
		if i%20 == 19 {
			for k := 2; k+1 < len(s.qps); k += 2 {
				_ = s.connect(k)
			}
		}
		a.beat()
	}
	w.tally.add("sessions with overwritten rings", 1)
	return nil
}

// build creates the objects. Queues in the arena may be overwritten at any time after that.
func (s *session) build(ca ci.CA, mem *arena) (err error) {
	keep := func(o ci.Object, e error) {
		if e != nil {
			err = errors.Join(err, e)
			return
		}
		s.objects = append(s.objects, o)
	}
	aside := func(on bool) {
		mem.mu.Lock()
		defer mem.mu.Unlock()
		mem.aside = on
	}
	var pds [2]ci.PD
	for i := range pds {
		pd, e := ca.AllocatePD(ci.PDNormal)
		if keep(pd, e); err != nil {
			return err
		}
		pds[i] = pd
	}
	var e error
	s.ownMR, e = pds[0].RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.own.body()), Access: allRights})
	keep(s.ownMR, e)
	s.mr, e = pds[1].RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.mem.body()), Access: allRights})
	keep(s.mr, e)
	for i := range 3 {
		aside(i == 0)
		cq, e := pds[min(i, 1)].CreateCQ(ci.CQCreate{Size: 60})
		keep(cq, e)
		s.cqs = append(s.cqs, cq)
	}
	s.srq, e = pds[1].CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 15, MaxSGE: 2}})
	if keep(s.srq, e); err != nil {
		return err
	}
	for i := range 6 {
		aside(i < 2)
		c := ci.QPCreate{SendCQ: s.cqs[min(i/2, 2)], RecvCQ: s.cqs[min(i/2, 2)],
			QPCaps: ci.QPCaps{SendDepth: 15, RecvDepth: 15, SendSGE: 2, RecvSGE: 2, MaxInline: 64}}
		if i == 4 {
			c.SRQ, c.RecvDepth = s.srq, 0
		}
		q, e := pds[min(i/2, 1)].CreateQP(c)
		if keep(q, e); err != nil {
			return err
		}
		s.qps = append(s.qps, q)
	}
	for k := 0; k < len(s.qps); k += 2 {
		aside(k == 0) // send queues are made at RTS
		if e := s.connect(k); e != nil {
			return e
		}
	}
	return nil
}

// connect connects two QPs in any state to each other.
func (s *session) connect(k int) error {
	p, q := s.qps[k], s.qps[k+1]
	for _, x := range [][2]ci.QP{{p, q}, {q, p}} {
		if err := x[0].Modify(ci.ToReset()); err != nil {
			return err
		}
		attr := connectedAttr(gidOf(rung), x[1].Num(), 5, 5)
		attr.Primary.AckTimeout = 19 // 2 s: nothing is lost
		if k > 0 {
			attr.RetryCount, attr.RNRRetry, attr.Primary.AckTimeout = 1, 1, 12
		}
		if err := toRTS(x[0], attr); err != nil {
			return err
		}
	}
	return nil
}

var errBusy = errors.New("retries exhausted on a busy machine")

// innocent sends a message over the QPs with undisturbed queues.
func (s *session) innocent(a *actor, n uint64) error {
	const from, to, size = 0, 2048, 2048
	g := s.ownMR.Region()
	fill(s.own.body()[from:][:size], s.own.seed, n+2)
	if _, err := s.qps[1].PostRecv([]ci.RecvWR{{ID: n, SGL: []ci.SGE{g.SGE(to, size)}}}); err != nil {
		return err
	}
	if _, err := s.qps[0].PostSend([]ci.SendWR{{ID: n, Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{g.SGE(from, size)}}}); err != nil {
		return err
	}
	deadline := a.w.clock.Elapsed() + patience
	for left := 2; left > 0; {
		var wc [2]ci.WC
		k, err := s.cqs[0].Poll(wc[:])
		if err != nil {
			return err
		}
		for _, c := range wc[:k] {
			if c.Status == ci.WCTimeoutRetryErr && a.w.dog.starved() {
				return errBusy
			}
			if c.ID != n || c.Status != ci.WCSuccess {
				return fmt.Errorf("completion of %d (%v), want %d", c.ID, c.Status, n)
			}
			left--
		}
		if a.w.clock.Elapsed() > deadline {
			return fmt.Errorf("message %d: %d completions are missing", n, left)
		}
		if k == 0 {
			a.beat()
			time.Sleep(50 * time.Microsecond)
		}
	}
	if i := differs(s.own.body()[to:][:size], s.own.seed, n+2); i >= 0 {
		return fmt.Errorf("message %d: byte %d is wrong", n, i)
	}
	return nil
}
