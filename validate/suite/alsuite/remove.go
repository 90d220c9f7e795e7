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

var _ = removals.Add("al.pnp", "adapters are added and removed", func(t *validate.T) {
	s := newStage(t)
	calls := make(chan string, 64)
	record := func(name string) accesslayer.PnPConfig {
		return accesslayer.PnPConfig{
			Add: func(a *accesslayer.Adapter) (any, error) { calls <- name + " add"; return a.GUID(), nil },
			Remove: func(a *accesslayer.Adapter, data any) {
				if data != any(a.GUID()) {
					calls <- name + " remove with other data"
					return
				}
				calls <- name + " remove"
			},
		}
	}
	for _, n := range kit.Variants(t, "", []string{"first", "second"}) {
		_, err := s.client.RegisterPnP(record(n))
		kit.OK(t, err, "Client.RegisterPnP")
	}
	for range 3 {
		kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
		// Add callbacks are called from the first registration to the last, remove callbacks in the opposite order.
		kit.Equal(t, "callbacks for a new adapter", expect(t, calls, "add")+", "+expect(t, calls, "add"),
			"first add, second add")
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
		kit.Equal(t, "callbacks for a removed adapter", expect(t, calls, "remove")+", "+expect(t, calls, "remove"),
			"second remove, first remove")
		none(t, calls, "further callbacks for a removed adapter")
		_, err := s.al.Adapter(s.guid(0))
		kit.WantExactly(t, err, "AL.Adapter of a removed adapter", ci.NotFound)
	}
}, req.SAS2_2_05)

var _ = removals.Add("al.pnp.late", "a client registers after the adapters", func(t *validate.T) {
	s := registered(t)
	var adds, removes atomic.Int32
	p, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true,
		Add:    func(*accesslayer.Adapter) (any, error) { adds.Add(1); return nil, nil },
		Remove: func(*accesslayer.Adapter, any) { removes.Add(1) }})
	kit.OK(t, err, "Client.RegisterPnP")
	kit.Equal(t, "add callbacks of a client that registers after the adapters", int(adds.Load()), len(s.hcas))
	kit.OK(t, p.Destroy(), "PnP.Destroy")
	kit.Equal(t, "remove callbacks after the registration ends", int(removes.Load()), len(s.hcas))
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.Equal(t, "remove callbacks after an adapter is removed, too", int(removes.Load()), len(s.hcas))
}, req.SAS2_2_05)

var _ = removals.Needing(validate.Needs{HCAs: 2}).Add("al.deregister.busy",
	"remove an adapter with objects of all kinds and traffic", func(t *validate.T) {
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
				_, _ = p.A.PostSend(wr) // errors are expected: the queue may be full, and later the QP is in Error
				runtime.Gosched()
			}
		})
		p.B.RecvCQ.Wait(4) // traffic has started
		err := s.al.Deregister(s.guid(1))
		close(stop)
		<-ended
		kit.OK(t, err, "Registrar.Deregister with objects and traffic")
		s.rec[1].shut(t)
		_, err = s.al.Adapter(s.guid(1))
		kit.WantExactly(t, err, "AL.Adapter of a removed adapter", ci.NotFound)
		_, err = p.A.QP.CA.Query()
		kit.OK(t, err, "CA.Query of the other adapter")
		reopened(t, t.HCAs()[1])
	}, req.SAS2_2_06, req.SAS2_2_05)

var _ = removals.Add("al.deregister.order", "order of the steps of a removal", func(t *validate.T) {
	s := registered(t)
	p := s.pair()
	usable := make(chan bool, 1)
	_, err := s.client.RegisterPnP(accesslayer.PnPConfig{Sync: true, Remove: func(a *accesslayer.Adapter, _ any) {
		if a.GUID() == s.guid(0) {
			_, err := p.A.Query() // objects must still work in the callback
			_, opening := s.client.OpenCA(a.GUID(), nil)
			usable <- err == nil && opening != nil
		}
	}})
	kit.OK(t, err, "Client.RegisterPnP")
	kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister")
	kit.True(t, expect(t, usable, "remove callback"), "state in the remove callback",
		"working objects, and an error from OpenCA", "otherwise")
	s.rec[0].shut(t)
	reopened(t, t.HCA())
}, req.SAS2_2_09)

// reopened expects that the adapter of the driver is closed and can be opened.
func reopened(t *validate.T, h ci.HCA) {
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	kit.OK(t, err, "HCA.OpenCA of the driver after Registrar.Deregister")
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

var _ = removals.Add("al.deregister.refused",
	"remove an adapter while the driver rejects a destroy three times", func(t *validate.T) {
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
		kit.OK(t, s.al.Deregister(s.guid(0)), "Registrar.Deregister while the driver rejects a destroy three times")
		s.rec[0].shut(t)
	}, req.SAS2_2_07)

var _ = removals.Add("al.deregister.unused", "verbs on a removed adapter", func(t *validate.T) {
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
		kit.True(t, errors.Is(err, accesslayer.ErrClosed), where+" after the adapter was removed", "ErrClosed", "%v",
			err)
	}
	kit.Equal(t, "verbs that reached the driver after its adapter was removed", len(s.rec[0].all()), before)
	s.rec[0].shut(t)
}, req.SAS2_2_06)
