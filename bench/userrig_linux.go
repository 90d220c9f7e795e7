package bench

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// userRig is a case of two applications and a daemon: this process is the first application.
type userRig struct {
	*twoRig
	daemon *remote
	dir    string
	middle []int // by turn, the daemon's half of a relay, or -1
}

// openUser starts a daemon and the second application, and creates the halves of each turn.
func openUser(turns ...turn) func() (Rig, error) {
	return func() (_ Rig, err error) {
		g := &userRig{twoRig: &twoRig{turns: turns}}
		defer func() {
			if err != nil {
				err = errors.Join(err, g.Close())
			}
		}()
		if g.dir, err = os.MkdirTemp("", "bench-user-"); err != nil {
			return nil, err
		}
		socket := filepath.Join(g.dir, "socket")
		if g.daemon, err = startPeer(nil); err != nil {
			return nil, err
		}
		if _, err := g.daemon.ask(order{Do: "serve", Path: socket}); err != nil {
			return nil, err
		}
		if g.remote, err = startPeer(nil); err != nil {
			return nil, err
		}
		if _, err := g.ask(order{Do: "open", Path: socket}); err != nil {
			return nil, err
		}
		if err := g.open(g.addr, socket); err != nil {
			return nil, err
		}
		if err := g.makeHalves(); err != nil {
			return nil, err
		}
		return g, g.makeMiddles()
	}
}

// makeMiddles creates the daemon's part of each relay.
func (g *userRig) makeMiddles() error {
	n := 0
	for i, t := range g.turns {
		g.middle = append(g.middle, -1)
		if !slices.Contains([]string{"relay", "relay-ping"}, t.Kind) {
			continue
		}
		if _, err := g.daemon.ask(order{Do: "make", Role: t.role}); err != nil {
			return err
		}
		if _, err := g.daemon.ask(order{Do: "join", Half: n, To: g.halves[i].address()}); err != nil {
			return err
		}
		g.middle[i] = n
		n++
	}
	return nil
}

// Run runs a turn in the processes that take part in it.
func (g *userRig) Run(entry int) (s Sample, err error) {
	t := &g.turns[entry]
	if t.program != nil {
		return t.program.run(surroundings{env: os.Environ()}, t.ops, t.timed)
	}
	before, err := g.count()
	if err != nil {
		return s, err
	}
	m := g.middle[entry]
	if m >= 0 {
		if _, err := g.daemon.ask(order{Do: "run", Half: m, Ops: t.ops}); err != nil {
			return s, err
		}
	}
	if s, err = g.twoRig.Run(entry); err != nil {
		return s, err
	}
	if m >= 0 {
		if _, err := g.daemon.hear(); err != nil {
			return s, err
		}
	}
	after, err := g.count()
	s.Allocs += after.Allocs - before.Allocs
	s.Calls = after.Calls.since(before.Calls)
	return s, err
}

// count returns the system calls of all processes, and the allocations of the daemon.
func (g *userRig) count() (n counts, err error) {
	n.Calls = count(g.side, nil).Calls
	for _, r := range []*remote{g.daemon, g.remote} {
		a, err := r.ask(order{Do: "count"})
		if err != nil {
			return n, err
		}
		if n.Calls.add(a.N.Calls); r == g.daemon {
			n.Allocs = a.N.Allocs
		}
	}
	return n, nil
}

// Close also closes an incomplete rig.
func (g *userRig) Close() error {
	var errs []error
	if g.remote != nil {
		errs = append(errs, g.twoRig.Close())
	}
	if g.daemon != nil {
		errs = append(errs, g.daemon.close())
	}
	if g.dir != "" {
		errs = append(errs, os.RemoveAll(g.dir))
	}
	return errors.Join(errs...)
}
