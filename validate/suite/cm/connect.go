package cmsuite

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// service is what the cases listen on, of the range for local use.
const service = mad.ServiceIDLocal | 0x1dd4

// connectArea: two managers, and QPs that go where their connections take them.
func connectArea() validate.Suite {
	s := validate.Suite{}
	s.Requirements = append(s.Requirements,
		must("CM-Conn-01", "IBTA 12.9.7", "cm, Service.Connect, Conn.Accept, Confirm", "A connection set up by REQ, REP and RTU carries messages in both directions on the QPs that it named."),
		must("CM-Conn-02", "IBTA 12.6.5", "cm, Conn.Request, Reply", "Each end learns what the other one offered: QP number, starting PSN, private data to its full length."),
		must("CM-Conn-03", "IBTA 12.7.28", "cm, Conn.QPAttr", "Neither end of a connection has more RDMA reads and atomics outstanding than the other one takes."),
		must("CM-Conn-04", "IBTA 12.9.7.2", "cm, Conn.Established; ci, EventQPComm", "A first message that comes before the RTU establishes the connection."),
		must("CM-Conn-05", "IBTA 12.9.8", "cm, Conn.Disconnect", "After DREQ and DREP both ends are in time-wait, and both learn of it; when it is over, their QPs can be connected again."),
		must("CM-Conn-06", "IBTA 12.6.7.2", "cm, Service.Connect", "A request for a service ID that nobody listens on is rejected, reason invalid service ID."),
		must("CM-Conn-07", "IBTA 12.6.7.2", "cm, Conn.Reject", "A consumer's rejection brings the other end its reason, its information and its private data."),
		must("CM-Conn-08", "IBTA 12.7.3", "cm, ListenConfig.Mask, Compare", "A request goes to the listener that fits it best: by private data, then by bits of the service ID."),
		must("CM-Conn-09", "IBTA 12.9", "cm", "Connections set up at the same time in both directions do not disturb each other."),
	)
	s.Cases = append(s.Cases,
		kase("cm.connect.rc", "connect RC, send both ways", func(t *validate.T) { connect(t, ci.RC) }, "CM-Conn-01"),
		claiming(ci.CapUC, kase("cm.connect.uc", "connect UC, send both ways", func(t *validate.T) { connect(t, ci.UC) }, "CM-Conn-01")),
		kase("cm.connect.offers", "what the ends say of themselves", connectOffers, "CM-Conn-02"),
		kase("cm.connect.reads", "depths of RDMA reads", connectReads, "CM-Conn-03"),
		kase("cm.connect.early", "the first message overtakes the RTU", connectEarly, "CM-Conn-04"),
		kase("cm.connect.reuse", "the same QPs again after time-wait", connectReuse, "CM-Conn-05"),
		kase("cm.connect.nobody", "nobody listens", connectNobody, "CM-Conn-06"),
		kase("cm.connect.reject", "the consumer rejects", connectReject, "CM-Conn-07"),
		kase("cm.connect.listeners", "four listeners that overlap", connectListeners, "CM-Conn-08"),
		kase("cm.connect.many", "60 connections, both directions at once", connectMany, "CM-Conn-09"))
	return s
}

// end is one end of a connection with its QP.
type end struct {
	*kit.End
	side *side
	cm.Conn
}

// newEnds makes the QPs of a connection from a to b.
func newEnds(a, b *side, opts ...kit.Option) (x, y *end) {
	c := kit.Options(a.ca, b.ca, opts...)
	return &end{End: a.ca.End(c), side: a}, &end{End: b.ca.End(c), side: b}
}

func (e *end) qp() cm.QP {
	return cm.QP{Num: e.Num(), Type: e.Config.Type, StartPSN: e.PSN}
}

// move takes the QP to a state as the connection says.
func (e *end) move(to ...ci.QPState) {
	for _, s := range to {
		kit.OK(e.side.t, cm.Modify(e.End.QP, e.Conn, s, e.Config.Access), fmt.Sprintf("QP.Modify to %v as Conn.QPAttr says", s))
	}
}

// request is what end asks peer for.
func (e *end) request(peer *side, private []byte) cm.ConnectConfig {
	return cm.ConnectConfig{Service: service, QP: e.qp(), Primary: e.side.path(peer), Private: private,
		ResponderResources: *e.Config.RespRes, InitiatorDepth: *e.Config.InitDepth, RetryCount: 7, RNRRetry: 7}
}

func (e *end) acceptance(private []byte) cm.AcceptConfig {
	qp := e.qp()
	qp.StartPSN = 0 // what Conn.QPAttr gave
	return cm.AcceptConfig{QP: qp, Private: private, ResponderResources: *e.Config.RespRes, InitiatorDepth: *e.Config.InitDepth, RNRRetry: 7}
}

// listen begins to listen, at the first as the case's time is.
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
	asked := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) {
		return m.Connect(ctx, x.request(y.side, private('q', mad.REQPrivateLen)))
	})
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	answered := result(t, "cm.Conn.Accept", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, y.Accept(ctx, y.acceptance(private('p', mad.REPPrivateLen)))
	})
	var err error
	x.Conn, err = asked()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm")
	_, err = answered()
	kit.OK(t, err, "cm.Conn.Accept")
	y.move(ci.QPRTS)
}

// private is n bytes that tell from where they are.
func private(first byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// event waits for the next event, past those of how the connection came about.
func event(t *validate.T, c cm.Conn, want cm.EventType, where string) cm.Event {
	ctx, cancel := wait(t)
	defer cancel()
	for {
		e, err := c.Next(ctx)
		if err != nil {
			t.Failf(where, want.String(), "no event: %v", err)
		}
		if e.Type == cm.EventEstablished || e.Type == cm.EventDelayed { // of what is over
			continue
		}
		kit.Equal(t, where, e.Type, want)
		return e
	}
}

func inState(t *validate.T, c cm.Conn, want cm.State, where string) {
	kit.Equal(t, "state "+where, c.State(), want)
}

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

func connectOffers(t *validate.T) {
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
	kit.Equal(t, "starting PSN in the reply, with which the peer is to begin", ci.PSN(p.StartingPSN), attr.RQPSN)
	kit.SameBytes(t, "private data of the reply", p.PrivateData[:], private('p', mad.REPPrivateLen))
	kit.Equal(t, "remote ID of the active end", x.RemoteID(), y.ID())
	kit.Equal(t, "remote ID of the passive end", y.RemoteID(), x.ID())
	gone := result(t, "cm.Conn.Disconnect", func(ctx context.Context) ([]byte, error) { return x.Disconnect(ctx, private('d', mad.DREQPrivateLen)) })
	e := event(t, y, cm.EventDisconnect, "event of the end that is asked to disconnect")
	kit.SameBytes(t, "private data of the DREQ", e.Private, private('d', mad.DREQPrivateLen))
	kit.OK(t, y.AnswerDisconnect(private('e', mad.DREPPrivateLen)), "cm.Conn.AnswerDisconnect")
	got, err := gone()
	kit.OK(t, err, "cm.Conn.Disconnect")
	kit.SameBytes(t, "private data of the DREP", got, private('e', mad.DREPPrivateLen))
}

func connectReads(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, y := newEnds(a, b, kit.Type(ci.RC), kit.Reads(2, 1))
	join(t, x, y, ma, l)
	p := x.Reply()
	kit.True(t, p.ResponderRes <= 2, "responder resources in the reply", "at most 2, the initiator depth of the request", "%d", p.ResponderRes)
	kit.True(t, p.InitiatorDepth <= 1, "initiator depth in the reply", "at most 1, the responder resources of the request", "%d", p.InitiatorDepth)
	for _, e := range kit.Variants(t, "", []struct {
		name       string
		from, peer *end
	}{{"active", x, y}, {"passive", y, x}}) {
		own, err := e.from.End.QP.Query()
		kit.OK(t, err, "QP.Query")
		other, err := e.peer.End.QP.Query()
		kit.OK(t, err, "QP.Query")
		kit.True(t, own.InitDepth <= other.RespRes, "initiator depth of the "+e.name+" end's QP",
			fmt.Sprintf("at most %d, the responder resources of the other", other.RespRes), "%d", own.InitDepth)
		kit.True(t, own.InitDepth > 0, "initiator depth of the "+e.name+" end's QP", "at least 1, as both asked for", "0")
		copy(e.peer.Buf.Bytes, "to be read by the "+e.name+" end")
		e.from.Send(e.from.RDMA(ci.OpRead, 1, 100, 40, e.peer.End, 0))
		e.from.CQ.WaitOK(1)
		kit.SameBytes(t, "bytes read", e.from.Buf.Bytes[100:140], e.peer.Buf.Bytes[:40])
	}
}

// connectEarly has the adapter under test passive: it must say that a message came.
func connectEarly(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, ma, cm.ListenConfig{})
	x, y := newEnds(b, a, kit.Type(ci.RC)) // y is on a
	asked := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) { return mb.Connect(ctx, x.request(a, nil)) })
	y.Conn = accepted(t, l)
	y.move(ci.QPInit, ci.QPRTR)
	y.Recv(y.RecvWR(1, 0, 16))
	answered := result(t, "cm.Conn.Accept", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, y.Accept(ctx, y.acceptance(nil))
	})
	var err error
	x.Conn, err = asked()
	kit.OK(t, err, "cm.Service.Connect")
	x.move(ci.QPInit, ci.QPRTR, ci.QPRTS)
	x.Send(x.SendWR(2, 0, 16)) // and no RTU
	y.RecvCQ.WaitOK(1)
	y.Events.Wait(ci.EventQPComm)
	kit.OK(t, y.Established(), "cm.Conn.Established")
	_, err = answered()
	kit.OK(t, err, "cm.Conn.Accept when the first message has come")
	inState(t, y, cm.StateEstablished, "of the passive end")
	y.move(ci.QPRTS)
	kit.OK(t, x.Confirm(nil), "cm.Conn.Confirm, late")
	x.CQ.WaitOK(2)
	y.Exchange(x.End, 100)
}

func connectReuse(t *validate.T) {
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
		gone := result(t, "cm.Conn.Disconnect", func(ctx context.Context) ([]byte, error) { return from.Disconnect(ctx, nil) })
		event(t, to, cm.EventDisconnect, "event of the end that is asked to disconnect")
		kit.OK(t, to.AnswerDisconnect(nil), "cm.Conn.AnswerDisconnect")
		_, err := gone()
		kit.OK(t, err, "cm.Conn.Disconnect")
		for _, e := range []*end{x, y} {
			e.Recv(e.RecvWR(5, 0, 1))
			kit.OK(t, e.End.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError}), "QP.Modify to Error of a QP that was connected")
			e.RecvCQ.WaitStatus(5, ci.WCFlushErr)
			if e == from {
				event(t, e, cm.EventDisconnected, "event of the end that disconnected")
			} else {
				event(t, e, cm.EventDisconnected, "event of the end that answered")
			}
			event(t, e, cm.EventTimeWaitExit, "event at the end of time-wait")
			kit.OK(t, e.End.QP.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}), "QP.Modify to Reset of a QP that was connected")
		}
	}
}

// refused expects that Connect is rejected.
func refused(t *validate.T, err error, want mad.RejReason) *cm.RejectError {
	var rej *cm.RejectError
	if !errors.As(err, &rej) {
		t.Failf("cm.Service.Connect", "a *cm.RejectError", "%v", err)
	}
	kit.Equal(t, "reason", rej.Reason, want)
	kit.Equal(t, "message rejected", rej.Message, mad.WhichREQ)
	return rej
}

func connectNobody(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	listen(t, mb, cm.ListenConfig{Service: service + 1})
	listen(t, mb, cm.ListenConfig{Datagram: true}) // for SIDR, not for REQ
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	ctx, cancel := wait(t)
	defer cancel()
	_, err := ma.Connect(ctx, x.request(b, nil))
	_ = refused(t, err, mad.RejInvalidServiceID)
}

func connectReject(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	l := listen(t, mb, cm.ListenConfig{})
	x, _ := newEnds(a, b, kit.Type(ci.RC))
	request := x.request(b, nil)
	request.Primary.LifeTime = 19 // time-wait lasts seconds, so that it is seen on a busy machine
	asked := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) { return ma.Connect(ctx, request) })
	c := accepted(t, l)
	info, no := private('i', mad.CMInfoLen), private('n', mad.REJPrivateLen)
	kit.OK(t, c.Reject(mad.RejConsumer, info, no), "cm.Conn.Reject")
	_, err := asked()
	rej := refused(t, err, mad.RejConsumer)
	kit.SameBytes(t, "additional information", rej.Info, info)
	kit.SameBytes(t, "private data of the REJ", rej.Private, no)
	inState(t, c, cm.StateTimeWait, "after Reject: a REQ that comes again is answered again")
}

func connectListeners(t *validate.T) {
	a, b := sides(t)
	ma, mb := a.manager(), b.manager()
	exact := listen(t, mb, cm.ListenConfig{})
	space := listen(t, mb, cm.ListenConfig{Mask: mad.PortSpaceMask})
	red := listen(t, mb, cm.ListenConfig{Offset: 2, Compare: []byte("red")})
	dark := listen(t, mb, cm.ListenConfig{Offset: 2, Compare: []byte("red, dark")})
	_, err := mb.Listen(cm.ListenConfig{Service: service, Offset: 2, Compare: []byte("red")})
	kit.Want(t, err, "cm.Service.Listen with the same IDs and comparison", ci.InvalidSetting)
	for _, want := range kit.Variants(t, "", []struct {
		name    string
		l       cm.Listener
		service mad.ServiceID
		private string
	}{{"exact ID", exact, service, "xxblue"}, {"mask", space, service + 3, "xxred"}, {"comparison", red, service, "xxred"},
		{"longer comparison", dark, service, "xxred, dark"}}) {
		x, _ := newEnds(a, b, kit.Type(ci.RC))
		cfg := x.request(b, []byte(want.private))
		cfg.Service = want.service
		asked := result(t, "cm.Service.Connect", func(ctx context.Context) (cm.Conn, error) { return ma.Connect(ctx, cfg) })
		c := accepted(t, want.l)
		kit.True(t, bytes.HasPrefix(c.Request().PrivateData[:], []byte(want.private)), "request at the listener by "+want.name, want.private, "%q", c.Request().PrivateData[:16])
		kit.OK(t, c.Close(), "cm.Conn.Close of a request")
		_, err := asked()
		kit.True(t, err != nil, "cm.Service.Connect", "a rejection", "success")
	}
}

func connectMany(t *validate.T) {
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
					c, err := managers[d.from].Connect(t.Context(), cm.ConnectConfig{Service: service, RetryCount: 7, RNRRetry: 7,
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
					if err := c.Accept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: q2.Num(), Type: ci.RC}, RNRRetry: 7}); err != nil {
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
			t.Failf("60 connections", "both ends of all established", "%d of %d ends", i, 4*n)
		}
	}
	for s, list := range qps {
		peers := map[ci.QPN]bool{}
		for _, q := range list {
			attr, err := q.Query()
			kit.OK(t, err, "QP.Query")
			kit.Equal(t, "state of a connected QP", attr.State, ci.QPRTS)
			kit.True(t, !peers[attr.DestNum], "destination QP", "another one for each QP of "+fmt.Sprint(s.port), "%#x twice", attr.DestNum)
			peers[attr.DestNum] = true
		}
	}
}

func raise(q ci.QP, c cm.Conn, to ...ci.QPState) error {
	for _, s := range to {
		if err := cm.Modify(q, c, s, 0); err != nil {
			return fmt.Errorf("QP.Modify to %v: %w", s, err)
		}
	}
	return nil
}
