package chaos

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// bench is an adapter on which actors call random verbs on shared objects.
type bench struct {
	w      *world
	addr   netip.Addr
	hca    *adapter
	ca     ci.CA
	mem    *guarded       // not covered by a region: all of it is a canary
	areas  []*guarded     // regions are within their bodies
	free   []func() error // of the areas
	posted sync.Map       // ID → *atomic.Bool: whether it has completed
	nextID atomic.Uint64

	mu      sync.Mutex
	objects map[class][]ci.Object
}

// class is a kind of object. Objects can be destroyed in the order of classes.
type class int

const (
	mcasts class = iota
	mws
	qps
	avs
	srqs
	shared
	mrs
	fmrs
	dmas
	cqs
	handlers
	pds
	classes
)

const (
	areas   = 8
	areaLen = 4096
	// limit of objects per class, so that objects are used and not only created
	mostObjects = 12
)

// rawVerbs makes two HCAs with two ports each, one on the network and one on a direct link, and actors on both.
func (w *world) rawVerbs() error {
	link := direct.NewLink()
	var both [2]*bench
	for i, a := range []netip.Addr{raw1, raw2} {
		hca, err := w.plug(a, reference.Config{}, w.virtual(a),
			func() (rvt.Port, error) { return direct.New(link, direct.Config{}) })
		if err != nil {
			return err
		}
		b := &bench{w: w, addr: a, hca: hca, objects: map[class][]ci.Object{}, mem: newGuarded(areaLen, w.seed)}
		fill(b.mem.body(), w.seed, 2)
		for k := range areas {
			g, free, err := newForeign(areaLen, w.seed+uint64(k))
			if err != nil {
				return err
			}
			b.areas, b.free = append(b.areas, g), append(b.free, free)
		}
		if b.ca, err = hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil); err != nil {
			return err
		}
		both[i] = b
	}
	var users sync.WaitGroup
	for i, b := range both {
		for k := range 2 {
			users.Add(1)
			w.start(fmt.Sprintf("verbs %d.%d", i, k), func(a *actor) {
				defer users.Done()
				for w.ctx.Err() == nil {
					b.step(a, both[1-i])
					if a.rnd.IntN(16) == 0 {
						a.pause(time.Millisecond)
					}
				}
			})
		}
	}
	w.start("end of verbs", func(a *actor) {
		done := make(chan struct{})
		go func() { users.Wait(); close(done) }()
		for waiting := true; waiting; a.beat() {
			select {
			case <-done:
				waiting = false
			case <-time.After(time.Second):
			}
		}
		for _, b := range both {
			b.close(a)
		}
		for _, b := range both {
			if err := b.hca.Close(); err != nil { // the areas are no longer in use
				w.v.failf("bench %v: close of the HCA: %v", b.addr, err)
			}
			for _, free := range b.free {
				if err := free(); err != nil {
					w.v.failf("bench %v: %v", b.addr, err)
				}
			}
		}
	})
	return w.linkForgery(link)
}

// linkForgery sends random frames on the direct link.
func (w *world) linkForgery(link *direct.Link) error {
	end, err := link.End(direct.Config{})
	if err != nil {
		return err
	}
	w.start("attacker on the link", func(a *actor) {
		defer end.Close()
		for w.ctx.Err() == nil {
			b := linkPacket(a, uint16(end.LID()))
			w.tally.add("forged packets on the link", 1)
			if err := end.Send(b); err != nil && len(b) >= 8 {
				w.v.failf("send on the link: %v", err)
			}
			if a.rnd.IntN(4) == 0 {
				a.pause(2 * time.Millisecond)
			}
		}
	})
	return nil
}

// pick returns a random object of a class, or nil.
func (b *bench) pick(a *actor, k class) ci.Object {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.objects[k]) == 0 {
		return nil
	}
	return one(a.rnd, b.objects[k])
}

// of picks an object of a class that is a T. It sometimes returns one of the other adapter, which verbs must reject.
func of[T any](a *actor, b, other *bench, k class) (t T) {
	if a.rnd.IntN(24) == 0 {
		b = other
	}
	t, _ = b.pick(a, k).(T)
	return t
}

func (b *bench) keep(k class, o ci.Object, err error) {
	if err != nil {
		b.checkError(err)
		return
	}
	if ci.IsNil(o) {
		b.w.v.failf("a create of class %d returned neither an object nor an error", k)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[k] = append(b.objects[k], o)
}

// checkError checks the error of a verb.
func (b *bench) checkError(err error) {
	if err == nil {
		return
	}
	e, ok := errors.AsType[*ci.Error](err)
	if !ok || e.Status == ci.UnknownError || e.Status == ci.Success {
		b.w.v.failf("a verb failed with an error that is none of package ci: %v", err)
	}
}

// destroy tries to destroy a random object. Objects in use remain.
func (b *bench) destroy(a *actor, k class) {
	b.mu.Lock()
	l := b.objects[k]
	if len(l) == 0 {
		b.mu.Unlock()
		return
	}
	i := a.rnd.IntN(len(l))
	o := l[i]
	b.mu.Unlock()
	b.destroyed(k, o, o.Destroy())
}

// destroyed removes an object from the list if it was destroyed.
func (b *bench) destroyed(k class, o ci.Object, err error) {
	if err != nil {
		b.checkError(err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.objects[k] {
		if x == o {
			b.objects[k] = append(b.objects[k][:i:i], b.objects[k][i+1:]...)
			b.w.tally.add("objects destroyed", 1)
			return
		}
	}
	b.w.v.failf("an object of class %d was destroyed twice without an error", k)
}

// close destroys everything, in random order, until nothing is left.
func (b *bench) close(a *actor) {
	if err := b.ca.Destroy(); err == nil {
		b.mu.Lock()
		n := 0
		for _, l := range b.objects {
			n += len(l)
		}
		b.mu.Unlock()
		if n > 0 {
			b.w.v.failf("CA.Destroy worked with %d objects left", n)
		}
		return
	}
	for round := range 100 {
		left := 0
		for k := range classes {
			b.mu.Lock()
			l := append([]ci.Object(nil), b.objects[k]...)
			b.mu.Unlock()
			a.rnd.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
			for _, o := range l {
				if k == fmrs {
					if f, ok := o.(ci.FMR); ok {
						if pd, ok := b.pick(a, pds).(ci.PD); ok {
							b.checkError(pd.UnmapFMRs([]ci.FMR{f}))
						}
					}
				}
				err := o.Destroy()
				b.destroyed(k, o, err)
				if err != nil {
					left++
					if round == 99 {
						b.w.v.failf("bench %v: an object of class %d cannot be destroyed: %v", b.addr, k, err)
					}
				}
				a.beat()
			}
		}
		if left == 0 {
			break
		}
	}
	if err := b.ca.Destroy(); err != nil {
		b.w.v.failf("bench %v: close of the CA: %v", b.addr, err)
	}
	for i, g := range append(b.areas, b.mem) {
		if err := g.check(); err != nil {
			b.w.v.failf("bench %v: area %d: %v", b.addr, i, err)
		}
	}
	if i := differs(b.mem.body(), b.w.seed, 2); i >= 0 {
		b.w.v.failf("bench %v: byte %d of memory that was never registered changed", b.addr, i)
	}
}

// poll polls completions. Each must be of a posted request that has not completed.
func (b *bench) poll(cq ci.CQ, n int) {
	wc := make([]ci.WC, n)
	k, err := cq.Poll(wc)
	if err != nil {
		b.checkError(err)
		return
	}
	for i := range wc[:k] {
		p, ok := b.posted.Load(wc[i].ID)
		if !ok {
			b.w.v.failf("bench %v: completion of request %d, which was not posted here (status %v, QP %#x)",
				b.addr, wc[i].ID,
				wc[i].Status, wc[i].QPN)
			continue
		}
		if p.(*atomic.Bool).Swap(true) {
			b.w.v.failf("bench %v: second completion of request %d (status %v, QP %#x)", b.addr, wc[i].ID, wc[i].Status,
				wc[i].QPN)
		}
		b.w.tally.add("random verbs: completions, "+wc[i].Status.String(), 1)
	}
}

// id returns a new ID for a work request.
func (b *bench) id() uint64 {
	n := b.nextID.Add(1)
	b.posted.Store(n, new(atomic.Bool))
	return n
}
