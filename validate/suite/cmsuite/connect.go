package cmsuite

import (
	"context"
	"errors"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// service is the ID of the service that the cases use, from the range for local use.
const service = mad.ServiceIDLocal | 0x1dd4

// Connections between two managers, and the states that their QPs reach.
var connects = area()

// end is one end of a connection with its QP.
type end struct {
	*kit.End
	side *side
	cm.Conn
}

// newEnds creates the QPs of a connection from a to b.
func newEnds(a, b *side, opts ...kit.Option) (x, y *end) {
	c := kit.Options(a.ca, b.ca, opts...)
	return &end{End: a.ca.End(c), side: a}, &end{End: b.ca.End(c), side: b}
}

func (e *end) qp() cm.QP {
	return cm.QP{Num: e.Num(), Type: e.Config.Type, StartPSN: e.PSN}
}

// move modifies the QP to each state with the attributes of the connection.
func (e *end) move(to ...ci.QPState) {
	for _, s := range to {
		kit.OK(e.side.t, cm.Modify(e.End.QP, e.Conn, s, e.Config.Access),
			fmt.Sprintf("QP.Modify to %v with the attributes of Conn.QPAttr", s))
	}
}

// request returns the request for a connection to peer.
func (e *end) request(peer *side, private []byte) cm.ConnectConfig {
	return cm.ConnectConfig{Service: service, QP: e.qp(), Primary: e.side.path(peer), Private: private,
		ResponderResources: *e.Config.RespRes, InitiatorDepth: *e.Config.InitDepth, RetryCount: 7, RNRRetry: 7}
}

func (e *end) acceptance(private []byte) cm.AcceptConfig {
	qp := e.qp()
	qp.StartPSN = 0 // Conn.QPAttr chooses it
	return cm.AcceptConfig{
		QP:                 qp,
		Private:            private,
		ResponderResources: *e.Config.RespRes,
		InitiatorDepth:     *e.Config.InitDepth,
		RNRRetry:           7,
	}
}

// listen creates a listener and closes it at the end of the case.
func listen(t *validate.T, m cm.Service, cfg cm.ListenConfig) cm.Listener {
	if cfg.Service == 0 {
		cfg.Service = service
	}
	l, err := m.Listen(cfg)
	kit.OK(t, err, "cm.Service.Listen")
	t.Cleanup(func() { kit.OK(t, l.Close(), "cm.Listener.Close") })
	return l
}

func accepted(t *validate.T, l cm.Listener) cm.Conn {
	ctx, cancel := wait(t)
	defer cancel()
	c, err := l.Accept(ctx)
	kit.OK(t, err, "cm.Listener.Accept")
	return c
}

// join connects x to y, whose manager listens with l, up to RTS on both ends.
func join(t *validate.T, x, y *end, m cm.Service, l cm.Listener) {
	await := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) {
		return m.Connect(ctx, x.request(y.side, private('q', mad.REQPrivateLen)))
	})
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	awaitAccept := result(t, "cm.Conn.Accept", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, y.Accept(ctx, y.acceptance(private('p', mad.REPPrivateLen)))
	})
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm")
	_, err = awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept")
	y.move(ci.QPRTS)
}

// private returns n bytes of private data that count up from first.
func private(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// event waits for the next event. It skips events of the establishment of the connection.
func event(t *validate.T, c cm.Conn, want cm.EventType, where string) cm.Event {
	ctx, cancel := wait(t)
	defer cancel()
	for {
		e, err := c.Next(ctx)
		if err != nil {
			t.Failf(where, want.String(), "no event: %v", err)
		}
		if e.Type == cm.EventEstablished || e.Type == cm.EventDelayed { // from the establishment
			continue
		}
		kit.Equal(t, where, e.Type, want)
		return e
	}
}

// inState checks the state of a connection. A manager whose consumer is late, as on a busy machine, may have asked for
// more time.
func inState(t *validate.T, c cm.Conn, want cm.State, where string) {
	more := map[cm.State]cm.State{cm.StateREQRcvd: cm.StateMRAREQSent, cm.StateREPRcvd: cm.StateMRAREPSent}
	if got := c.State(); got != more[want] || got == 0 {
		kit.Equal(t, "state "+where, got, want)
	}
}

var cmConn01 = connects.Must("CM-Conn-01", "IBTA 12.9.7", "cm, Service.Connect, Conn.Accept, Confirm",
	"A connection established with REQ, REP and RTU carries messages in both directions on the QPs that these "+
		"messages name.")

var _ = connects.Add("cm.connect.rc", "connect RC QPs and send in both directions",
	func(t *validate.T) { connect(t, ci.RC) }, cmConn01)

var _ = connects.Needing(validate.Needs{Caps: ci.CapUC}).Add("cm.connect.uc",
	"connect UC QPs and send in both directions", func(t *validate.T) { connect(t, ci.UC) }, cmConn01)

func connect(t *validate.T, typ ci.QPType) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, y := newEnds(a, b, kit.Type(typ))
	join(t, x, y, ma, l)
	inState(t, x, cm.StateEstablished, "of the active end")
	inState(t, y, cm.StateEstablished, "of the passive end")
	x.Exchange(y.End, 3000)
	y.Exchange(x.End, 1)
}

var _ = connects.Add("cm.connect.offers", "offers of both ends", func(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, y := newEnds(a, b, kit.Type(ci.RC))
	join(t, x, y, ma, l)
	q, p := y.Request(), x.Reply()
	kit.Equal(t, "QP number in the request", q.LocalQPN, uint32(x.Num()))
	kit.Equal(t, "starting PSN in the request", q.StartingPSN, uint32(x.PSN))
	kit.SameBytes(t, "private data of the request", q.PrivateData[:], private('q', mad.REQPrivateLen))
	kit.Equal(t, "QP number in the reply", p.LocalQPN, uint32(y.Num()))
	attr, err := y.End.QP.Query()
	kit.OK(t, err, "QP.Query")
	kit.Equal(t, "starting PSN in the reply", ci.PSN(p.StartingPSN), attr.RQPSN)
	kit.SameBytes(t, "private data of the reply", p.PrivateData[:], private('p', mad.REPPrivateLen))
	kit.Equal(t, "remote ID of the active end", x.RemoteID(), y.ID())
	kit.Equal(t, "remote ID of the passive end", y.RemoteID(), x.ID())
	awaitEnd := result(t, "cm.Conn.Disconnect",
		func(ctx context.Context) ([]byte, error) { return x.Disconnect(ctx, private('d', mad.DREQPrivateLen)) })
	e := event(t, y, cm.EventDisconnect, "event of the end that receives the DREQ")
	kit.SameBytes(t, "private data of the DREQ", e.Private, private('d', mad.DREQPrivateLen))
	kit.OK(t, y.AnswerDisconnect(private('e', mad.DREPPrivateLen)), "cm.Conn.AnswerDisconnect")
	got, err := awaitEnd()
	kit.OK(t, err, "cm.Conn.Disconnect")
	kit.SameBytes(t, "private data of the DREP", got, private('e', mad.DREPPrivateLen))
}, connects.Must("CM-Conn-02", "IBTA 12.6.5", "cm, Conn.Request, Reply",
	"Each end receives the QP number, the starting PSN and the complete private data of the other end."))

var _ = connects.Add("cm.connect.reads", "depths for RDMA reads", func(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, y := newEnds(a, b, kit.Type(ci.RC), kit.Reads(2, 1))
	join(t, x, y, ma, l)
	p := x.Reply()
	kit.True(t, p.ResponderRes <= 2, "responder resources in the reply",
		"at most 2, the initiator depth of the request", "%d", p.ResponderRes)
	kit.True(t, p.InitiatorDepth <= 1, "initiator depth in the reply",
		"at most 1, the responder resources of the request", "%d", p.InitiatorDepth)
	for _, e := range kit.Variants(t, "", []struct {
		name       string
		from, peer *end
	}{{"active", x, y}, {"passive", y, x}}) {
		own, err := e.from.End.QP.Query()
		kit.OK(t, err, "QP.Query")
		other, err := e.peer.End.QP.Query()
		kit.OK(t, err, "QP.Query")
		kit.True(t, own.InitDepth <= other.RespRes, "initiator depth of the "+e.name+" end's QP",
			fmt.Sprintf("at most %d, the responder resources of the other end", other.RespRes), "%d", own.InitDepth)
		kit.True(t, own.InitDepth > 0, "initiator depth of the "+e.name+" end's QP",
			"at least 1, as both ends requested", "0")
		copy(e.peer.Buf.Bytes, "to be read by the "+e.name+" end")
		e.from.Send(e.from.RDMA(ci.OpRead, 1, 100, 40, e.peer.End, 0))
		e.from.CQ.WaitOK(1)
		kit.SameBytes(t, "bytes read", e.from.Buf.Bytes[100:140], e.peer.Buf.Bytes[:40])
	}
}, connects.Must("CM-Conn-03", "IBTA 12.7.28", "cm, Conn.QPAttr",
	"Neither end of a connection has more outstanding RDMA reads and atomics than the other end accepts."))

// The case tests the adapter under test as the passive end, which must report the first message.
var _ = connects.Add("cm.connect.early", "the first message arrives before the RTU", func(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, ma, cm.ListenConfig{})
	x, y := newEnds(b, a, kit.Type(ci.RC)) // the QP of y is on a
	await := result(t, "cm.Service.Connect",
		func(ctx context.Context) (cm.Conn, error) { return mb.Connect(ctx, x.request(a, nil)) })
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	y.Recv(y.RecvWR(1, 0, 16))
	awaitAccept := result(t, "cm.Conn.Accept", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, y.Accept(ctx, y.acceptance(nil))
	})
	var err error
	x.Conn, err = await()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	x.Send(x.SendWR(2, 0, 16)) // without an RTU
	y.RecvCQ.WaitOK(1)
	y.Events.Wait(ci.EventQPComm)
	kit.OK(t, y.Established(), "cm.Conn.Established")
	_, err = awaitAccept()
	kit.OK(t, err, "cm.Conn.Accept after the first message has arrived")
	inState(t, y, cm.StateEstablished, "of the passive end")
	y.move(ci.QPRTS)
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm after the first message")
	x.CQ.WaitOK(2)
	y.Exchange(x.End, 100)
}, connects.Must("CM-Conn-04", "IBTA 12.9.7.2", "cm, Conn.Established; ci, EventQPComm",
	"A first message that arrives before the RTU establishes the connection."))

var _ = connects.Add("cm.connect.reuse", "connect the same QPs again after time-wait", func(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, y := newEnds(a, b, kit.Type(ci.RC))
	for i := range 3 {
		join(t, x, y, ma, l)
		x.Exchange(y.End, 10)
		from, to := x, y
		if i%2 == 1 {
			from, to = y, x
		}
		awaitEnd := result(t, "cm.Conn.Disconnect",
			func(ctx context.Context) ([]byte, error) { return from.Disconnect(ctx, nil) })
		event(t, to, cm.EventDisconnect, "event of the end that receives the DREQ")
		kit.OK(t, to.AnswerDisconnect(nil), "cm.Conn.AnswerDisconnect")
		_, err := awaitEnd()
		kit.OK(t, err, "cm.Conn.Disconnect")
		for _, e := range []*end{x, y} {
			e.Recv(e.RecvWR(5, 0, 1))
			kit.OK(t, e.End.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}),
				"QP.Modify to Error of a QP that was connected")
			e.RecvCQ.WaitStatus(5, ci.WCFlushErr)
			if e == from {
				event(t, e, cm.EventDisconnected, "event of the end that disconnected")
			} else {
				event(t, e, cm.EventDisconnected, "event of the end that sent the DREP")
			}
			event(t, e, cm.EventTimeWaitExit, "event at the end of time-wait")
			kit.OK(t, e.End.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}),
				"QP.Modify to Reset of a QP that was connected")
		}
	}
}, connects.Must("CM-Conn-05", "IBTA 12.9.8", "cm, Conn.Disconnect",
	"After DREQ and DREP both ends enter time-wait and both are notified. Then their QPs can be connected again."))

// refused expects Connect to fail with a rejection.
func refused(t *validate.T, err error, want mad.RejReason) *cm.RejectError {
	var rej *cm.RejectError
	if !errors.As(err, &rej) {
		t.Failf("cm.Service.Connect", "a *cm.RejectError", "%v", err)
	}
	kit.Equal(t, "reason", rej.Reason, want)
	kit.Equal(t, "message rejected", rej.Message, mad.WhichREQ)
	return rej
}

var _ = connects.Add("cm.connect.many", "60 connections, in both directions at the same time", func(t *validate.T) {
	const n = 30
	a, b := sides(t)
	managers := map[*side]cm.Service{a: a.manager(), b: b.manager()}
	done := make(chan error, 4*n)
	pd := map[*side]ci.PD{a: a.ca.PD(), b: b.ca.PD()}
	qps := map[*side][]*kit.QP{}
	for s, p := range pd {
		cq := s.ca.CQ(p, 8*n)
		for range 2 * n {
			qps[s] = append(qps[s], s.ca.QP(p, cq, cq, kit.Depth(1)))
		}
	}
	for _, d := range kit.Variants(t, "", []struct{ from, to *side }{{a, b}, {b, a}}) {
		l := listen(t, managers[d.to], cm.ListenConfig{})
		active, passive := qps[d.from][:n], qps[d.to][n:]
		for i := range n {
			q := active[i]
			t.Go(func() {
				done <- func() error {
					c, err := managers[d.from].Connect(t.Context(),
						cm.ConnectConfig{Service: service, RetryCount: 7, RNRRetry: 7,
							QP: cm.QP{Num: q.Num(), Type: ci.RC, StartPSN: q.PSN}, Primary: d.from.path(d.to)})
					if err != nil {
						return fmt.Errorf("Connect: %w", err)
					}
					if err := raise(q, c, ci.QPInit, ci.QPRTR, ci.QPRTS); err != nil {
						return err
					}
					return c.Confirm(nil)
				}()
			})
			q2 := passive[i]
			t.Go(func() {
				done <- func() error {
					c, err := l.Accept(t.Context())
					if err != nil {
						return fmt.Errorf("Accept of the listener: %w", err)
					}
					if err := raise(q2, c, ci.QPInit, ci.QPRTR); err != nil {
						return err
					}
					if err := c.Accept(t.Context(),
						cm.AcceptConfig{QP: cm.QP{Num: q2.Num(), Type: ci.RC}, RNRRetry: 7}); err != nil {
						return fmt.Errorf("Accept: %w", err)
					}
					return raise(q2, c, ci.QPRTS)
				}()
			})
		}
	}
	for i := range 4 * n {
		select {
		case err := <-done:
			kit.OK(t, err, "one of the connections")
		case <-t.Context().Done():
			t.Failf("60 connections", "both ends of all connections established", "%d of %d ends", i, 4*n)
		}
	}
	for s, list := range qps {
		peers := map[ci.QPN]bool{}
		for _, q := range list {
			attr, err := q.Query()
			kit.OK(t, err, "QP.Query")
			kit.Equal(t, "state of a connected QP", attr.State, ci.QPRTS)
			kit.True(t, !peers[attr.DestNum], "destination QP", "a different one for each QP of "+fmt.Sprint(s.port),
				"%#x twice", attr.DestNum)
			peers[attr.DestNum] = true
		}
	}
}, connects.Must("CM-Conn-09", "IBTA 12.9", "cm",
	"Connections established at the same time in both directions do not interfere with each other."))

func raise(q ci.QP, c cm.Conn, to ...ci.QPState) error {
	for _, s := range to {
		if err := cm.Modify(q, c, s, 0); err != nil {
			return fmt.Errorf("QP.Modify to %v: %w", s, err)
		}
	}
	return nil
}
