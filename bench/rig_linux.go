package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A turn is what the two processes do in a round of one entry.
type turn struct {
	role
	ops   int
	timed bool // operations are timed individually
	// program measures the turn instead of the halves, if not nil.
	program program
}

// twoRig is a case of two processes, on the measuring side.
type twoRig struct {
	*remote
	host
	turns  []turn
	halves []half
}

// openTwo starts a peer and creates both halves of each turn.
func openTwo(at Place, turns ...turn) func() (Rig, error) {
	return func() (_ Rig, err error) {
		g := &twoRig{turns: turns}
		here, there := at.addresses()
		if g.remote, err = startPeer(at.Enter); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, g.Close())
			}
		}()
		if _, err := g.ask(order{Do: "open", Addr: there}); err != nil {
			return nil, err
		}
		if err := g.open(here, ""); err != nil {
			return nil, err
		}
		return g, g.makeHalves()
	}
}

// makeHalves creates both halves of each turn.
func (g *twoRig) makeHalves() error {
	for i, t := range g.turns {
		r := t.role
		r.First = false
		a, err := g.ask(order{Do: "make", Role: r})
		if err != nil {
			return err
		}
		r.First = true
		h, err := newHalf(&g.host, r)
		if err != nil {
			return err
		}
		g.halves = append(g.halves, h)
		if err := h.join(a.At); err != nil {
			return err
		}
		if _, err := g.ask(order{Do: "join", Half: i, To: h.address()}); err != nil {
			return err
		}
	}
	return nil
}

// Run runs both processes. The time is measured here: the side that begins has the answer last.
func (g *twoRig) Run(entry int) (Sample, error) {
	t, h := g.turns[entry], g.halves[entry]
	if _, err := g.ask(order{Do: "run", Half: entry, Ops: t.ops}); err != nil {
		return Sample{}, err
	}
	var w *watch
	if t.timed {
		w = &watch{times: make([]time.Duration, 0, t.ops)}
	}
	s, err := measure(t.ops, func() error { return h.run(t.ops, w) })
	if err != nil {
		return s, err
	}
	if w != nil {
		s.Median, s.P99 = w.percentile(50), w.percentile(99)
	}
	if err := h.end(); err != nil {
		return s, err
	}
	a, err := g.hear()
	s.Allocs += a.S.Allocs
	return s, err
}

// Close also closes an incomplete rig.
func (g *twoRig) Close() error {
	err := closeHost(&g.host, g.halves)
	g.halves = nil
	return errors.Join(err, g.remote.close())
}

// open opens an HCA at addr, or that of the daemon whose socket is at path.
func (h *host) open(addr netip.Addr, path string) (err error) {
	h.addr = addr
	if path != "" {
		h.side, err = openThroughDaemon(path)
		return err
	}
	h.side, err = newHCA(udpPort(addr), bufBytes)
	return err
}

func closeHost(h *host, halves []half) error {
	var errs []error
	for _, x := range halves {
		errs = append(errs, x.close())
	}
	if h.side != nil {
		errs = append(errs, h.side.close())
	}
	h.side = nil
	return errors.Join(errs...)
}

// peer is the other process.
type peer struct {
	host
	halves []half
	daemon *daemon // nil unless the peer is one
}

// prepare executes an order, or returns the work to do for it.
func (p *peer) prepare(o order) (a answer, work func() error, err error) {
	switch o.Do {
	case "open":
		return a, nil, p.open(o.Addr, o.Path)
	case "serve":
		p.daemon, err = serve(o.Path)
		return a, nil, err
	case "count":
		a.N = count(p.side, p.daemon)
		return a, nil, nil
	case "make":
		if p.side == nil && p.daemon == nil {
			return a, nil, errors.New("not open")
		}
		h, err := newHalf(&p.host, o.Role)
		if err != nil {
			return a, nil, err
		}
		p.halves = append(p.halves, h)
		return answer{At: h.address()}, nil, nil
	}
	if o.Half < 0 || o.Half >= len(p.halves) {
		return a, nil, fmt.Errorf("%s: there is no half %d", o.Do, o.Half)
	}
	h := p.halves[o.Half]
	switch o.Do {
	case "join":
		return a, nil, h.join(o.To)
	case "run":
		return a, func() error { return h.run(o.Ops, nil) }, nil
	}
	return a, nil, fmt.Errorf("unknown order %q", o.Do)
}

func (p *peer) close() error {
	err := closeHost(&p.host, p.halves)
	p.halves = nil
	if p.daemon != nil {
		err = errors.Join(err, p.daemon.close())
		p.daemon = nil
	}
	return err
}
