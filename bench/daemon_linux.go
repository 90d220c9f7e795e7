package bench

import (
	"errors"
	"log/slog"
	"net"
	"runtime"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/hca/reference/userlib"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/ual"
)

// A daemon has one adapter, whose port is the only one of its link, and serves it to other processes. It is what ddkd
// is, without its configuration.
type daemon struct {
	hca    *reference.HCA
	al     *accesslayer.AL
	core   *kproxy.Server
	srv    *server.Server
	socket *net.UnixListener
	done   chan error
}

// serve starts a daemon with a socket at path.
func serve(path string) (d *daemon, err error) {
	log := slog.New(slog.DiscardHandler)
	d = &daemon{al: accesslayer.New(accesslayer.Config{Logger: log})}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	port, err := direct.New(direct.NewLink(), direct.Config{})
	if err != nil {
		return d, err
	}
	if d.hca, err = reference.New(reference.Config{Ports: []rvt.Port{port}}); err != nil {
		return d, err
	}
	if err = d.al.Register(d.hca); err != nil {
		return d, err
	}
	if d.core, err = kproxy.New(kproxy.Config{AL: d.al, Logger: log}); err != nil {
		return d, err
	}
	d.srv = server.New(d.core, clock.Real())
	if d.socket, err = native.Listen(path); err != nil {
		return d, err
	}
	d.done = make(chan error, 1)
	go func() { d.done <- d.srv.Serve(d.socket) }()
	return d, nil
}

// close also closes a daemon that has not started completely.
func (d *daemon) close() error {
	var errs []error
	if d.socket != nil {
		errs = append(errs, d.socket.Close(), <-d.done)
	}
	if d.srv != nil {
		d.srv.Close()
	}
	if d.core != nil {
		errs = append(errs, d.core.Close())
	}
	errs = append(errs, d.al.Close())
	if d.hca != nil {
		errs = append(errs, d.hca.Close())
	}
	return errors.Join(errs...)
}

// openThroughDaemon opens the adapter of the daemon whose socket is at path, with memory that is shared with it.
func openThroughDaemon(path string) (s *side, err error) {
	s = &side{wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	c, err := ual.Dial(ual.Config{Path: path, Libraries: []*ci.UserLibrary{userlib.New()}})
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, c.Close)
	hcas, err := c.HCAs()
	if err != nil {
		return s, err
	}
	m, err := ual.NewMemory(bufBytes)
	if err != nil {
		return s, err
	}
	s.undo = append(s.undo, m.Close)
	s.buf = m.Bytes()
	return s, s.openCA(hcas[0], m)
}

// counts are what a process has counted so far.
type counts struct {
	Allocs uint64
	Calls  Calls
}

// count returns the counts of this process: of an application, which has a side, or of a daemon.
func count(s *side, d *daemon) (n counts) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	n.Allocs = m.Mallocs
	if s != nil {
		if c, ok := userlib.CountersOf(s.ca); ok {
			n.Calls = Calls{Doorbells: c.Doorbells, Yields: c.Yields}
		}
	}
	if d != nil {
		c := d.hca.Counters()
		n.Calls = Calls{Wakes: c["user_doorbells"], Sleeps: c["user_sleeps"], Yields: c["user_yields"]}
	}
	return n
}
