package cmsuite

import (
	"context"
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = callers.Case(validate.Case{
	ID:    "cm.call.ended-context",
	Title: "the next event of a connection with a context that has ended: its error, and the event stays",
	Run:   callEndedContext,
}, CMCall03)

func callEndedContext(t *validate.T) {
	g := newRig(t)
	k := g.open()
	g.sync("on the way to Established")
	g.with(k, "DREQ")
	inState(t, k, cm.StateDREQRcvd, "after a DREQ")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		_, err := k.Next(ctx)
		kit.True(t, errors.Is(err, context.Canceled), "cm.Conn.Next with a context that has ended", "context.Canceled",
			"%v", err)
	}
	event(t, k, cm.EventDisconnect, "event after a DREQ")
}
