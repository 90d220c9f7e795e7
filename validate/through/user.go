package through

import (
	"context"
	"errors"
	"sync"

	"ciddk/ci"
	"ciddk/kproxy/native"
	"ciddk/ual"
	"ciddk/validate"
)

// Copies returns d behind a daemon in another process that has its clients copy their memory, as a daemon does that the
// system does not permit to reach it.
func Copies(d validate.Driver) validate.Driver {
	Serve(d)
	r := &remote{driver: d.Name, copies: true}
	d.Open = r.open
	return d
}

// User returns d behind a daemon in another process: the HCAs of its targets are those of package ual, with the user
// libraries that are given. In the daemon process of d itself, it serves and does not return.
func User(d validate.Driver, libs ...*ci.UserLibrary) validate.Driver {
	Serve(d)
	r := &remote{driver: d.Name, libs: libs}
	d.Open = r.open
	return d
}

// remote opens the targets of a driver in a daemon process.
type remote struct {
	driver string
	libs   []*ci.UserLibrary
	copies bool // the client copies its memory

	mu   sync.Mutex
	idle *process // serves no target
}

// take returns a process that serves no target.
func (r *remote) take() (*process, error) {
	r.mu.Lock()
	p := r.idle
	r.idle = nil
	r.mu.Unlock()
	if p != nil && !p.isLost() {
		return p, nil
	}
	return newProcess(r.driver)
}

// give makes a process available for the next target.
func (r *remote) give(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle == nil {
		r.idle = p
		return
	}
	p.kill()
}

// open is validate.Driver.Open.
func (r *remote) open(ctx context.Context, o validate.Options) (*validate.Target, error) {
	p, err := r.take()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := native.FilePair()
	if err != nil {
		p.kill()
		return nil, err
	}
	x, err := p.call(ctx, &request{Op: opOpen, Options: o, Copies: r.copies}, theirs)
	theirs.Close()
	if err != nil {
		ours.Close()
		p.kill()
		return nil, err
	}
	return r.target(ctx, p, x, ours)
}

// target returns the target that a daemon process has opened.
func (r *remote) target(ctx context.Context, p *process, x *reply, conn *native.Conn) (*validate.Target, error) {
	if x.Target == nil {
		p.kill()
		return nil, errors.Join(errors.New("the daemon process opened a target and does not describe it"), conn.Close())
	}
	client, err := ual.New(conn, ual.Config{Name: "ddk-validate", Libraries: r.libs})
	if err != nil {
		p.kill()
		return nil, err
	}
	t := &validate.Target{NoMulticast: x.Target.NoMulticast, Lossless: x.Target.Lossless,
		VendorCall: x.Target.VendorCall, Version: x.Target.Version, Exited: p.exited,
		Withheld: x.Target.Withheld, Services: x.Target.Services,
		NoDaemon: "they are behind a daemon already"}
	t.Close = func(ctx context.Context) error { return r.close(ctx, p, client) }
	for _, guid := range x.Target.GUIDs {
		h, err := client.HCA(guid)
		if err != nil {
			return nil, errors.Join(err, t.Close(ctx))
		}
		if t.Services {
			h = &remoteHCA{HCA: h, p: p, client: client}
		}
		t.HCAs = append(t.HCAs, h)
	}
	p.tools(t, x.Target.Has)
	return t, nil
}

// close closes a target. A process that does not close it is killed.
func (r *remote) close(ctx context.Context, p *process, client *ual.Client) error {
	err := client.Close()
	_, closed := p.call(ctx, &request{Op: opClose})
	if err = errors.Join(err, closed); err != nil {
		p.kill()
		return err
	}
	r.give(p)
	return nil
}

// tools sets the functions of a target that the driver's own target has.
func (p *process) tools(t *validate.Target, has map[operation]bool) {
	background := context.Background() // the worker's watchdog limits the time of a case
	do := func(r *request) error {
		_, err := p.call(background, r)
		return err
	}
	if has[opLive] {
		t.Live = func() map[string]int {
			x, err := p.call(background, &request{Op: opLive})
			if err != nil {
				return nil // Exited reports the end of the process
			}
			return x.Live
		}
	}
	if has[opImpair] {
		t.Impair = func(i validate.Impairment) error { return do(&request{Op: opImpair, Impairment: i}) }
	}
	if has[opSetLink] {
		t.SetLink = func(up bool) error { return do(&request{Op: opSetLink, Up: up}) }
	}
	if has[opProbe] {
		t.Probe = func(ctx context.Context) (sent, lost int, err error) {
			x, err := p.call(ctx, &request{Op: opProbe})
			if err != nil {
				return 0, 0, err
			}
			return x.Sent, x.Lost, nil
		}
	}
	if has[opCapture] {
		t.Capture = func(path string) (func() error, error) {
			x, err := p.call(background, &request{Op: opCapture, Path: path})
			if err != nil {
				return nil, err
			}
			return func() error { return do(&request{Op: opStop, Handle: x.Handle}) }, nil
		}
	}
	if has[opEnd] {
		t.Wire = func() (validate.Wire, error) {
			x, err := p.call(background, &request{Op: opEnd})
			if err != nil {
				return nil, err
			}
			if x.Wire == nil {
				return nil, errors.New("the daemon process does not describe its end of the link")
			}
			return &end{p: p, handle: x.Handle, info: *x.Wire}, nil
		}
	}
}

// end is an end of the link in the daemon process.
type end struct {
	p      *process
	handle uint64
	info   validate.WireInfo

	once sync.Once // of Close
}

var _ validate.Wire = (*end)(nil)

// Info implements validate.Wire.
func (e *end) Info() validate.WireInfo { return e.info }

// Send implements validate.Wire.
func (e *end) Send(packet []byte) error {
	_, err := e.p.call(context.Background(), &request{Op: opSend, Handle: e.handle, Packet: packet})
	return err
}

// Recv implements validate.Wire.
func (e *end) Recv(ctx context.Context) ([]byte, error) {
	x, err := e.p.call(ctx, &request{Op: opRecv, Handle: e.handle})
	if err != nil {
		return nil, err
	}
	return x.Packet, nil
}

// Close implements validate.Wire.
func (e *end) Close() (err error) {
	e.once.Do(func() {
		_, err = e.p.call(context.Background(), &request{Op: opEndWire, Handle: e.handle})
	})
	return err
}
