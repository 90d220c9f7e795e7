package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/ci"
	"ciddk/ci/ciwrap/faults"
	"ciddk/hca/reference"
)

var (
	errClosed    = accesslayer.ErrClosed
	errNetClosed = net.ErrClosed
)

// service is the port at which hosts listen.
const service = 7174

// host is an access layer with one HCA, and its services.
type host struct {
	w    *world
	addr netip.Addr
	port openPort
	inj  *faults.Injector // wraps the HCA, if not nil
	al   *accesslayer.AL
	svc  *mads.Manager
	cm   *cm.Manager
	rcm  *cmid.Manager
	ln   *cmid.Listener
	vlt  *vault

	hca *adapter
}

func (w *world) newHost(addr netip.Addr, port openPort, inj *faults.Injector) (*host, error) {
	h := &host{w: w, addr: addr, port: port, inj: inj}
	h.al = accesslayer.New(accesslayer.Config{Logger: quiet, OnDestroyError: func(err error) {
		w.v.failf("host %v: object given up: %v", addr, err)
	}})
	w.mu.Lock()
	w.hosts = append(w.hosts, h)
	w.mu.Unlock()
	if err := h.plug(); err != nil {
		return nil, err
	}
	client, err := h.al.Open(accesslayer.ClientConfig{Name: "chaos"})
	if err != nil {
		return nil, err
	}
	if h.svc, err = mads.New(h.al, mads.Config{}); err != nil {
		return nil, err
	}
	if h.cm, err = cm.New(h.al, h.svc, cm.Config{}); err != nil {
		return nil, err
	}
	if h.rcm, err = cmid.New(client, cmid.Config{CM: h.cm, MAD: h.svc}); err != nil {
		return nil, err
	}
	if h.ln, err = h.rcm.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), service),
		cmid.ListenConfig{}); err != nil {
		return nil, err
	}
	if inj == nil && addr != volatile {
		h.vlt, err = newVault(h)
	}
	return h, err
}

// plug creates the HCA and registers it.
func (h *host) plug() error {
	x, err := h.w.plug(h.addr, reference.Config{}, h.port)
	if err != nil {
		return err
	}
	h.hca = x
	var hca ci.HCA = x.HCA
	if h.inj != nil {
		hca = h.inj.Wrap(hca)
	}
	if err := h.al.Register(hca); err != nil {
		return fmt.Errorf("host %v: register: %w", h.addr, err)
	}
	return nil
}

// remove removes the HCA, and checks that it has no objects left.
func (h *host) remove() error {
	if err := h.al.Deregister(h.hca.Info().GUID); err != nil {
		return fmt.Errorf("host %v: deregister: %w", h.addr, err)
	}
	h.w.unplug(h.hca)
	return nil
}

// close ends the services in a random order, then the access layer.
func (h *host) close(r *rand.Rand) error {
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if h.vlt != nil {
		note("vault", h.vlt.check())
	}
	steps := []func(){}
	if h.rcm != nil {
		steps = append(steps, func() { note("rdmacm", h.rcm.Close()) })
	}
	if h.cm != nil {
		steps = append(steps, func() { note("cm", h.cm.Close()) })
	}
	if h.svc != nil {
		steps = append(steps, func() { note("mads", h.svc.Close()) })
	}
	steps = append(steps, func() { note("access layer", h.al.Close()) })
	if h.inj != nil {
		h.inj.Clear()
	}
	r.Shuffle(len(steps), func(i, k int) { steps[i], steps[k] = steps[k], steps[i] })
	for _, f := range steps {
		f()
	}
	return errors.Join(errs...)
}

// hotRemoval removes the HCA of a host and adds another one.
func (w *world) hotRemoval(a *actor, h *host) {
	a.pause(800 * time.Millisecond)
	if a.rnd.IntN(3) == 0 { // only the cable
		if err := h.hca.SetLink(1, false); err != nil {
			w.v.failf("SetLink: %v", err)
		}
		a.pause(50 * time.Millisecond)
		if err := h.hca.SetLink(1, true); err != nil {
			w.v.failf("SetLink: %v", err)
		}
		w.tally.add("cables pulled", 1)
		return
	}
	if err := h.remove(); err != nil {
		w.v.failf("%v", err)
		return
	}
	w.tally.add("HCAs removed", 1)
	a.pause(20 * time.Millisecond)
	if err := h.plug(); err != nil {
		w.v.failf("plug in again: %v", err)
	}
}

// injectFaults changes which verbs of an HCA fail.
func (w *world) injectFaults(a *actor, inj *faults.Injector) {
	inj.Clear()
	for range 4 {
		verb := one(a.rnd, []string{"PD.CreateQP", "PD.CreateCQ", "PD.RegisterMR", "PD.CreateAV", "QP.PostSend",
			"QP.PostRecv", "QP.Modify",
			"QP.Query", "QP.Destroy", "CQ.Destroy", "MR.Destroy", "AV.Destroy", "PD.Destroy",
			"CA.AllocatePD", "CA.Query"})
		p := .1
		if verb == "QP.PostSend" || verb == "QP.PostRecv" {
			p = .01
		}
		status := one(a.rnd, []ci.Status{ci.InsufficientResources, ci.ResourceBusy, ci.InsufficientMemory, ci.Timeout})
		f := inj.MustAdd(faults.Rule{Verb: verb, Status: status, Probability: p})
		a.pause(100 * time.Millisecond)
		w.tally.add("verbs failed by injection", int(f.Struck()))
	}
}

// openClose opens clients of a host, creates objects, and closes the clients while they are in use.
func (w *world) openClose(a *actor, h *host) {
	a.pause(30 * time.Millisecond)
	c, err := h.al.Open(accesslayer.ClientConfig{Name: "client " + strconv.Itoa(a.rnd.IntN(100))})
	if err != nil {
		w.v.failf("open: %v", err)
		return
	}
	for range 1 + a.rnd.IntN(3) {
		ca, err := c.OpenCA(h.hca.Info().GUID, func(*accesslayer.CA, ci.Event) {})
		if err != nil {
			w.v.failf("OpenCA: %v", err)
			break
		}
		w.tally.add("CAs opened", 1)
		if err := w.someObjects(a, ca); err != nil {
			w.v.failf("objects of a client: %v", err)
		}
		if a.rnd.IntN(2) == 0 {
			if err := ca.Destroy(); err != nil && !errors.Is(err, errClosed) {
				w.v.failf("close of a CA: %v", err)
			}
		}
	}
	if err := c.Close(); err != nil {
		w.v.failf("close of a client: %v", err)
	}
}

// someObjects creates objects of every kind, and destroys some of them on separate goroutines.
func (w *world) someObjects(a *actor, ca *accesslayer.CA) error {
	pd, err := ca.NewPD(ci.PDNormal)
	if err != nil {
		return err
	}
	cq, err := pd.NewCQ(ci.CQCreate{Size: 8}, accesslayer.CQHandler{})
	if err != nil {
		return err
	}
	srq, err := pd.NewSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}}, nil)
	if err != nil {
		return err
	}
	qp, err := pd.NewQP(ci.QPCreate{SendCQ: cq, RecvCQ: cq, SRQ: srq, QPCaps: ci.QPCaps{SendDepth: 2, SendSGE: 1}}, nil)
	if err != nil {
		return err
	}
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 64)),
		Access: ci.LocalWrite | ci.BindWindow | ci.RemoteRead})
	if err != nil {
		return err
	}
	mw, err := pd.NewMW(ci.MWCreate{Type: ci.MWType1})
	if err != nil {
		return err
	}
	objects := []interface{ DestroyAsync(func(error)) error }{qp, mw, mr, srq, cq, pd}
	var wg sync.WaitGroup
	for range a.rnd.IntN(4) {
		o := one(a.rnd, objects)
		wg.Go(func() { _ = o.DestroyAsync(nil) }) // fails if the object is in use or destroyed
	}
	wg.Wait()
	return nil
}

// bindable reports whether a UDP socket can have an address and the port of this package.
func bindable(a netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, udpPort)))
	if err != nil {
		return false
	}
	return c.Close() == nil
}
