package cmsuite

import (
	"context"
	"errors"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Service ID resolution (SIDR) for datagrams.
var lookups = area()

var CMSidr01 = lookups.Must("CM-Sidr-01", "IBTA 12.11", "cm, Service.Lookup, LookupRequest.Accept",
	"A lookup returns the QP number, Q_Key and private data of the other end. Datagrams sent to that QP arrive.")

var _ = lookups.Needing(validate.Needs{Caps: ci.CapUD}).Add("cm.sidr.resolve",
	"resolve a service, then send a datagram", lookup, CMSidr01)

func lookup(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{Datagram: true})
	p := &kit.Pair{}
	cfg := kit.Options(a.ca, b.ca, kit.Type(ci.UD))
	p.A, p.B = a.ca.End(cfg), b.ca.End(cfg)
	for _, e := range []*kit.End{p.A, p.B} {
		e.Init().RTR(nil).RTS()
	}
	await := result(t, "cm.Service.Lookup", func(ctx context.Context) (*cm.LookupReply, error) {
		return ma.Lookup(ctx,
			cm.LookupConfig{Service: service, Path: a.path(b), Private: private('q', mad.SIDRREQPrivateLen)})
	})
	ctx, cancel := wait(t)
	defer cancel()
	r, err := l.AcceptLookup(ctx)
	kit.OK(t, err, "cm.Listener.AcceptLookup")
	kit.SameBytes(t, "private data of the SIDR_REQ", r.Request().PrivateData[:], private('q', mad.SIDRREQPrivateLen))
	kit.OK(t, r.Accept(p.B.Num(), p.B.Config.QKey, private('p', mad.SIDRREPPrivateLen)), "cm.LookupRequest.Accept")
	got, err := await()
	kit.OK(t, err, "cm.Service.Lookup")
	kit.Equal(t, "QP number", got.QPN, p.B.Num())
	kit.Equal(t, "Q_Key", got.QKey, p.B.Config.QKey)
	kit.SameBytes(t, "private data of the SIDR_REP", got.Private, private('p', mad.SIDRREPPrivateLen))
	av, err := p.A.PD.CreateAV(got.From.AV)
	kit.OK(t, err, "PD.CreateAV with the source address of the reply")
	t.Cleanup(func() { kit.OK(t, av.Destroy(), "AV.Destroy") })
	p.A.Dest = ci.Dest{AV: av, QPN: got.QPN, QKey: got.QKey}
	p.A.Exchange(p.B, 100)
}

func unresolved(t *validate.T, err error, want mad.SIDRStatus) *cm.LookupError {
	var no *cm.LookupError
	if !errors.As(err, &no) {
		t.Failf("cm.Service.Lookup", "a *cm.LookupError", "%v", err)
	}
	kit.Equal(t, "status", no.Status, want)
	return no
}

var CMSidr02 = lookups.Must("CM-Sidr-02", "IBTA 12.11.2.1", "cm, LookupRequest.Reject",
	"A lookup that is rejected or that has no listener ends with the status that IBTA assigns to the cause.")

var _ = lookups.Add("cm.sidr.refuse", "a rejected lookup, and one without a listener", lookupRefused, CMSidr02)

func lookupRefused(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	resolve := func(s mad.ServiceID) func() (*cm.LookupReply, error) {
		return result(t, "cm.Service.Lookup", func(ctx context.Context) (*cm.LookupReply, error) {
			return ma.Lookup(ctx, cm.LookupConfig{Service: s, Path: a.path(b)})
		})
	}
	listen(t, mb, cm.ListenConfig{}) // for REQ and not for SIDR
	_, err := resolve(service)()
	_ = unresolved(t, err, mad.SIDRUnsupportedService)
	l := listen(t, mb, cm.ListenConfig{Service: service + 1, Datagram: true})
	await := resolve(service + 1)
	ctx, cancel := wait(t)
	defer cancel()
	r, err := l.AcceptLookup(ctx)
	kit.OK(t, err, "cm.Listener.AcceptLookup")
	kit.OK(t, r.Reject(mad.SIDRRejected, []byte("info"), []byte("private")), "cm.LookupRequest.Reject")
	_, err = await()
	no := unresolved(t, err, mad.SIDRRejected)
	kit.SameBytes(t, "additional information", no.Info, []byte("info"))
	kit.SameBytes(t, "private data", no.Private[:7], []byte("private"))
}

var CMSidr03 = lookups.Must("CM-Sidr-03", "IBTA 12.11.1", "cm, LookupConfig",
	"A SIDR_REQ without a reply is retransmitted unchanged. A duplicate SIDR_REQ is answered again with the same "+
		"reply.")

var _ = lookups.Add("cm.sidr.again", "lost and duplicate requests", lookupAgain, CMSidr03)

func lookupAgain(t *validate.T) {
	a, b := sides(t)
	p := newScript(t, b, a)
	m := a.manager()
	await := result(t, "cm.Service.Lookup", func(ctx context.Context) (*cm.LookupReply, error) {
		return m.Lookup(ctx,
			cm.LookupConfig{Service: service, Path: a.path(b), Timeout: 100 * time.Millisecond, Retries: 7})
	})
	first, h := expect[*mad.SIDRREQ](p, "SIDR_REQ")
	second, h2 := expect[*mad.SIDRREQ](p, "retransmission of the SIDR_REQ")
	kit.Equal(t, "retransmitted SIDR_REQ", *second, *first)
	kit.Equal(t, "transaction ID of the retransmitted SIDR_REQ", h2.TID, h.TID)
	p.send(h.TID, &mad.SIDRREP{RequestID: first.RequestID + 1, QPN: 3, ServiceID: service}) // reply to another request
	p.send(h.TID, &mad.SIDRREP{RequestID: first.RequestID, QPN: 5, QKey: 6, ServiceID: service})
	got, err := await()
	kit.OK(t, err, "cm.Service.Lookup")
	kit.Equal(t, "QP number and Q_Key", [2]uint32{uint32(got.QPN), uint32(got.QKey)}, [2]uint32{5, 6})

	l := listen(t, m, cm.ListenConfig{Datagram: true})
	y, _ := newEnds(a, b, kit.Type(ci.RC)) // the manager of a daemon checks whose QP the answer names
	request := &mad.SIDRREQ{RequestID: p.id(), PKey: 0xffff, ServiceID: service}
	p.send(70, request)
	ctx, cancel := wait(t)
	defer cancel()
	r, err := l.AcceptLookup(ctx)
	kit.OK(t, err, "cm.Listener.AcceptLookup")
	kit.OK(t, r.Accept(y.Num(), 0x1234, []byte("hello")), "cm.LookupRequest.Accept")
	rep, h3 := expectSIDR(p)
	kit.Equal(t, "transaction ID of the SIDR_REP", h3.TID, 70)
	p.send(70, request)
	again, _ := expectSIDR(p)
	kit.Equal(t, "SIDR_REP for a duplicate SIDR_REQ", *again, *rep)
}

// expectSIDR waits for a SIDR_REP. It skips requests that were sent before the reply arrived.
func expectSIDR(p *script) (*mad.SIDRREP, message) {
	for {
		m := p.recv("SIDR_REP")
		switch r := m.msg.(type) {
		case *mad.SIDRREP:
			return r, m
		case *mad.SIDRREQ:
		default:
			p.t.Failf("SIDR_REP", "SIDR_REP", "%s", describe(m.msg))
		}
	}
}
