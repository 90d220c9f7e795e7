package ladder_test

import (
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
)

// The consumers of the runs follow the documentation of accesslayer/cm.

// connect establishes a connection on the active side.
func (e *end) connect(edit ...func(*cm.ConnectConfig)) {
	e.newQP(ci.RC)
	e.call("Connect")
	e.use(e.cm.Connect(e.w.t.Context(), e.ask(edit...)))
	e.confirm()
}

func (e *end) confirm() {
	e.modify(ci.QPInit, ci.QPRTR, ci.QPRTS)
	e.call("Confirm")
	require.NoError(e.w.t, e.conn.Confirm(nil))
}

func (e *end) listen() cm.Listener { return must(e.cm.Listen(cm.ListenConfig{Service: service})) }

// accept accepts a connection on the passive side. first is the event that an RTU causes, or 0 if the RTU is lost.
func (e *end) accept(first cm.EventType) {
	l := e.listen()
	e.newQP(ci.RC)
	e.use(l.Accept(e.w.t.Context()))
	e.answer(first)
	require.NoError(e.w.t, l.Close())
}

func (e *end) answer(first cm.EventType) {
	e.modify(ci.QPInit, ci.QPRTR)
	e.call("Accept")
	require.NoError(e.w.t, e.conn.Accept(e.w.t.Context(), e.reply()))
	if first != 0 {
		e.event(first)
	}
	e.modify(ci.QPRTS)
}

// connectBoth connects one of two ends that both send a request. It finds out which role the end gets.
func (e *end) connectBoth() {
	e.newQP(ci.RC)
	e.call("Connect")
	c := e.use(e.cm.Connect(e.w.t.Context(), e.ask(func(c *cm.ConnectConfig) { c.Peer = true })))
	if c.State() == cm.StateREQRcvd {
		e.answer(cm.EventEstablished)
	} else {
		e.confirm()
	}
}

// datagrams returns a UD QP in RTS.
func (e *end) datagrams() {
	q := e.newQP(ci.UD)
	a := ci.QPAttr{Port: 1, QKey: qkey}
	for _, s := range []struct {
		to  ci.QPState
		set ci.QPField
	}{{ci.QPInit, ci.QPFieldsUDInit}, {ci.QPRTR, ci.QPFieldsUDRTR}, {ci.QPRTS, ci.QPFieldsUDRTS}} {
		a.State = s.to
		require.NoError(e.w.t, q.Modify(s.set, a))
	}
	e.post(4)
	e.w.look()
}

// arm loads the alternate path that the ends have agreed on.
func (e *end) arm() {
	pass(step)
	set, a, err := e.conn.AlternateAttr()
	require.NoError(e.w.t, err)
	require.NoError(e.w.t, e.qp.Modify(set, a))
	e.w.look()
}
