package cmsuite

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Service ID resolution (SIDR) for datagrams.
var lookups = area()

var _ = lookups.Needing(validate.Needs{Caps: ci.CapUD}).Add("cm.sidr.resolve",
	"resolve a service, then send a datagram", lookup,
	lookups.Must("CM-Sidr-01", "IBTA 12.11", "cm, Service.Lookup, LookupRequest.Accept",
		"A lookup returns the QP number, Q_Key and private data of the other end. Datagrams sent to that QP arrive."))

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
