package cmsuite

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests that one listener passes to another.
var handoffs = area()

var CMHandoff01 = handoffs.Must("CM-Handoff-01", "CI connection manager", "cm, Conn.Handoff",
	"A request that is handed off arrives unchanged at the other listener, which answers it. A request for a service "+
		"without a listener is kept.")

var _ = handoffs.Case(validate.Case{
	ID:    "cm.handoff",
	Title: "a request is handed off to another service",
	Run:   handoff,
}, CMHandoff01)

func handoff(t *validate.T) {
	const other = service + 1
	a, b := sides(t)
	p := newScript(t, b, a)
	y, _ := newEnds(a, b, kit.Type(ci.RC))
	m := a.manager()
	first := listen(t, m, cm.ListenConfig{})
	second := listen(t, m, cm.ListenConfig{Service: other})
	q := p.req(service, 0x321)
	copy(q.PrivateData[:], private('q', mad.REQPrivateLen))
	p.send(0x1000, q)
	c := accepted(t, first)
	kit.WantExactly(t, c.Handoff(other+1), "cm.Conn.Handoff to a service without a listener", ci.NotFound)
	inState(t, c, cm.StateREQRcvd, "after a handoff that failed")
	id := c.ID()
	kit.OK(t, c.Handoff(other), "cm.Conn.Handoff")
	ctx, cancel := wait(t)
	defer cancel()
	_, err := c.Next(ctx)
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next after Handoff", "cm.ErrClosed", "%v", err)
	y.Conn = accepted(t, second)
	kit.Equal(t, "communication ID after the handoff", y.ID(), id)
	kit.Equal(t, "REQ after the handoff", y.Request().REQ, *q)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept",
		func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, y.acceptance(nil)) })
	r, reply := expect[*mad.REP](p, "REP")
	kit.Equal(t, "transaction ID of the REP", reply.TID, 0x1000)
	kit.Equal(t, "communication IDs of the REP", [2]uint32{r.LocalCommID, r.RemoteCommID},
		[2]uint32{id, q.LocalCommID})
	p.send(0x1000, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
	_, err = awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	inState(t, y, cm.StateEstablished, "after the RTU")
}
