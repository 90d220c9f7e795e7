package alsuite

import (
	"errors"
	"runtime"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Removal of adapters, and PnP. (SAS 2.2.)
var removals = area()

var _ = removals.Case(validate.Case{ID: "al.pnp", Title: "adapters come and go", Run: pnp}, req.SAS2_2_05)

func pnp(t *validate.T) {
	s := newStage(t)
	news := make(chan string, 64)
	tell := func(name string) accesslayer.PnPConfig {
		return accesslayer.PnPConfig{
			Add: func(a *accesslayer.Adapter) (any, error) { news <- name + " add"; return a.GUID(), nil },
			Remove: func(a *accesslayer.Adapter, data any) {
				if data != any(a.GUID()) {
					news <- name + " remove with other data"
					return
				}
				news <- name + " remove"
			},
		}
	}
	for _, n := range kit.Variants(t, "", []string{"first", "second"}) {
		_, err := s.client.RegisterPnP(tell(n))
		kit.OK(t, err, "Client.RegisterPnP")
	}
	for range 3 {
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		// Adds go from the first registrant to the last, removes back.
		kit.Equal(t, "news of an adapter that comes", expect(t, news, "add")+", "+expect(t, news, "add"), "first add, second add")
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
		kit.Equal(t, "news of an adapter that goes", expect(t, news, "remove")+", "+expect(t, news, "remove"), "second remove, first remove")
		none(t, news, "news of a removed adapter")
		_, err := s.al.Adapter(s.guid(0))
		kit.WantExactly(t, err, "AL.Adapter of a removed adapter", ci.NotFound)
	}
}

var _ = removals.Case(validate.Case{
	ID:    "al.pnp.late",
	Title: "a client that registers late",
	Run:   pnpLate,
}, req.SAS2_2_05)

func pnpLate(t *validate.T) {
	s := registered(t)
	var adds, removes atomic.Int32
	p, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add:    func(*accesslayer.Adapter) (any, error) { adds.Add(1); return nil, nil },
		Remove: func(*accesslayer.Adapter, any) { removes.Add(1) }})
	kit.OK(t, err, "Client.RegisterPnP")
	kit.Equal(t, "adapters reported to a client that registers late", int(adds.Load()), len(s.hcas))
	kit.OK(t, p.Close(), "PnP.Close")
	kit.Equal(t, "adapters taken back when the registration ends", int(removes.Load()), len(s.hcas))
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.Equal(t, "adapters taken back altogether", int(removes.Load()), len(s.hcas))
}

var _ = removals.Case(validate.Case{
	ID:    "al.deregister.busy",
	Title: "remove an adapter with objects of all kinds and traffic",
	Needs: validate.Needs{HCAs: 2},
	Run:   deregisterBusy,
}, req.SAS2_2_06, req.SAS2_2_05)

func deregisterBusy(t *validate.T) {
	s := registered(t)
	p := s.pair()
	b := p.B.QP.CA
	if t.Claims().Has(ci.CapAV) {
		av, err := p.B.PD.CreateAV(b.AddressOf(p.A.QP.CA))
		kit.OK(t, err, "PD.CreateAV")
		kit.Own(t, av, "AV")
	}
	if t.Claims().Has(ci.CapSRQ) {
		srq, err := p.B.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		kit.Own(t, srq, "SRQ")
		b.QP(p.B.PD, p.B.CQ, p.B.CQ, kit.WithSRQ(srq))
	}
	if t.Claims().Has(ci.CapMW1) {
		mw, err := p.B.PD.CreateMW(ci.MWCreate{Type: ci.MWType1})
		kit.OK(t, err, "PD.CreateMW")
		kit.Own(t, mw, "MW")
	}
	p.B.Recv(p.B.RecvWRs(16, 64)...)
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Go(func() {
		defer close(ended)
		wr, wc := []ci.SendWR{p.A.SendWR(1, 0, 64)}, make([]ci.WC, 16)
		for !t.Failed() && t.Context().Err() == nil {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = p.A.CQ.Poll(wc)
			_, _ = p.A.PostSend(wr) // a full queue, and later a QP in Error, are what is to be expected
			runtime.Gosched()
		}
	})
	p.B.RecvCQ.Wait(4) // traffic
	err := s.al.Deregister(s.guid(1))
	close(stop)
	<-ended
	kit.OK(t, err, "Registrar.Deregister with objects and traffic")
	s.rec[1].shut(t)
	_, err = s.al.Adapter(s.guid(1))
	kit.WantExactly(t, err, "AL.Adapter of a removed adapter", ci.NotFound)
	_, err = p.A.QP.CA.Query()
	kit.OK(t, err, "CA.Query of the adapter that stays")
	reopened(t, t.HCAs()[1])
}

var _ = removals.Case(validate.Case{
	ID:    "al.deregister.order",
	Title: "the order of a removal",
	Run:   deregisterOrder,
}, req.SAS2_2_09)

func deregisterOrder(t *validate.T) {
	s := registered(t)
	p := s.pair()
	usable := make(chan bool, 1)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true, Remove: func(a *accesslayer.Adapter, _ any) {
		if a.GUID() == s.guid(0) {
			_, err := p.A.Query() // objects still work inside the callback
			_, opening := s.client.OpenCA(a.GUID(), nil)
			usable <- err == nil && opening != nil
		}
	}})
	kit.OK(t, err, "Client.RegisterPnP")
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.True(t, expect(t, usable, "the remove callback"), "inside the remove callback",
		"the client's objects work, and the adapter cannot be opened", "otherwise")
	s.rec[0].shut(t)
	reopened(t, t.HCA())
}

// reopened expects that the driver has its adapter back, closed.
func reopened(t *validate.T, h ci.HCA) {
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	kit.OK(t, err, "HCA.OpenCA of the driver when its adapter has been deregistered")
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

var _ = removals.Case(validate.Case{
	ID:    "al.deregister.refused",
	Title: "remove while the driver refuses a destroy for a while",
	Run:   deregisterRefused,
}, req.SAS2_2_07)

func deregisterRefused(t *validate.T) {
	s := newStage(t)
	var left atomic.Int32
	left.Store(3)
	s.rec[0].refuse = func(kind string) error {
		if kind == "MR" && left.Add(-1) >= 0 {
			return &ci.Error{Verb: "MR.Destroy", Status: ci.ResourceBusy}
		}
		return nil
	}
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	ca := s.open(s.client, 0)
	pd := ca.PD()
	ca.Buf(pd, 64, kit.AllAccess)
	ca.Buf(pd, 64, kit.AllAccess)
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister while the driver refuses a destroy three times")
	s.rec[0].shut(t)
}

var _ = removals.Case(validate.Case{
	ID:    "al.deregister.unused",
	Title: "verbs on a removed adapter",
	Run:   deregisterUnused,
}, req.SAS2_2_06)

func deregisterUnused(t *validate.T) {
	s := registered(t)
	p := s.pair()
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	before := len(s.rec[0].all())
	for where, f := range map[string]func() error{
		"CA.Query":      func() error { _, err := p.A.QP.CA.Query(); return err },
		"CA.AllocatePD": func() error { _, err := p.A.QP.CA.AllocatePD(ci.PDNormal); return err },
		"QP.Query":      func() error { _, err := p.A.Query(); return err },
		"QP.Modify":     func() error { return p.A.Modify(ci.ToError()) },
		"CQ.Query":      func() error { _, err := p.A.CQ.Query(); return err },
		"PD.Destroy":    func() error { return p.A.PD.Destroy() },
		"MR.Destroy":    func() error { return p.A.Buf.MR.Destroy() },
	} {
		err := f()
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), where+" after the adapter is removed", "ErrClosed", "%v", err)
	}
	kit.Equal(t, "verbs that reached the driver after its adapter was removed", len(s.rec[0].all()), before)
	s.rec[0].shut(t)
}
