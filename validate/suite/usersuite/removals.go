package usersuite

import (
	"context"
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// Adapters that are removed while processes use them. (SAS 2.2, SAS 2.4.)
var removals = area()

var _ = removals.Case(validate.Case{
	ID: "user.removal.objects",
	Title: "an adapter is removed: one event for each open, InvalidState from each verb of each object, and objects " +
		"that can be destroyed, children first",
	Needs: validate.Needs{HCAs: 2},
	Run:   removalObjects,
}, req.SAS2_4_11)

func removalObjects(t *validate.T) {
	s := newStage(t)
	x, y, z := s.speaker(), s.speaker(), s.speaker()
	queue, events := x.started()
	queueY, eventsY := y.started()
	queueZ, eventsZ := z.started()
	stays := x.whole(1, queue)
	base := s.probe.living()
	z.whole(1, queueZ)
	per := s.probe.living()
	for kind, n := range base {
		per[kind] -= n
	}
	gone, goneY := x.whole(0, queue), y.whole(0, queueY)
	kit.OK(t, s.al.Deregister(s.guids[0]), "Registrar.Deregister")
	for kind, n := range per {
		kit.Equal(t, "objects at the driver after Deregister of the other adapter: "+kind,
			s.probe.living()[kind], 2*n)
	}
	fatal := schema.Event{Kind: schema.EventAsync, Type: uint32(ci.EventLocalFatal)}
	s.await("EventLocalFatal of the processes that have the adapter open", "one each", func() string {
		if a, b := events.count(fatal), eventsY.count(fatal); a != 1 || b != 1 {
			return fmt.Sprintf("%d and %d", a, b)
		}
		return ""
	})
	fatal.Token = uint64(schema.KindCA)
	kit.Equal(t, "EventLocalFatal with the token of the open", events.count(fatal), 1)

	t.Step("verbs of objects of the adapter that was removed")
	for _, c := range declared() {
		body, ok := gone.body(c)
		if !ok || c == schema.CmdOpenCA {
			continue
		}
		h, _, err := x.exchange(c, body)
		kit.OK(t, err, "the connection")
		kit.Equal(t, fmt.Sprintf("status of the request %q for objects of an adapter that was removed", c), h.Status,
			ci.InvalidState)
	}
	for c, body := range gone.posts() {
		h, _, err := x.exchange(c, body)
		kit.OK(t, err, "the connection")
		kit.Equal(t, fmt.Sprintf("status of the request %q for objects of an adapter that was removed", c), h.Status,
			ci.InvalidState)
	}
	gone.mixed(stays)
	err := x.do(schema.CmdQueryCQ, &schema.CQ{CQ: stays.cq}, &schema.QueryCQReply{})
	kit.OK(t, err, "CQ.Query at the other adapter")

	t.Step("the objects of the adapter that was removed are destroyed")
	for _, w := range []*whole{gone, goneY} {
		for _, h := range []schema.Handle{w.queue, w.ca, w.pd, w.cq} {
			kit.WantExactly(t, w.destroy(h), fmt.Sprintf("the destroy of a %v before that of its children", h.Kind()),
				ci.ResourceBusy)
		}
		for _, h := range slices.Backward(w.list) {
			var r schema.DestroyReply
			err := w.do(schema.CmdDestroy, &schema.Object{Handle: h}, &r)
			kit.OK(t, err, fmt.Sprintf("the destroy of a %v of an adapter that was removed", h.Kind()))
			want := uint64(0)
			if h == w.ca {
				want = 1
			}
			kit.Equal(t, fmt.Sprintf("events of a %v of an adapter that was removed", h.Kind()), r.Async, want)
			kit.WantExactly(t, w.destroy(h), "a second destroy", h.Kind().Invalid())
		}
	}
	y.destroyed(queueY)
	s.await("the end of an event queue that was destroyed", "the end", func() string {
		if !eventsY.isEnded() {
			return "none"
		}
		return ""
	})
	kit.WantExactly(t, x.destroy(queue), "the destroy of a queue that the other adapter uses", ci.ResourceBusy)
	kit.Equal(t, "EventLocalFatal of a process without the adapter", eventsZ.count(schema.Event{
		Kind: schema.EventAsync, Type: uint32(ci.EventLocalFatal)}), 0)

	t.Step("the adapter comes back")
	_, err = x.create(schema.CmdOpenCA, &schema.OpenCA{GUID: s.guids[0], Async: queue})
	kit.WantExactly(t, err, "HCA.OpenCA of an adapter that was removed", ci.NotFound)
	kit.OK(t, s.al.Register(s.hcas[0]), "Registrar.Register")
	again := x.whole(0, queue)
	kit.Equal(t, "EventLocalFatal with the token of an open", events.count(fatal), 1)
	for _, h := range slices.Backward(again.list) {
		x.destroyed(h)
	}
}

// mixed executes verbs of objects of an adapter that is present with objects of w, whose adapter was removed.
func (w *whole) mixed(there *whole) {
	t := w.s.t
	caps := schema.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1}
	for c, request := range map[schema.Command]any{
		schema.CmdCreateQP:    &schema.CreateQP{PD: there.pd, SendCQ: w.cq, RecvCQ: there.cq, Caps: caps, Type: ci.RC},
		schema.CmdRegisterSMR: &schema.RegisterSMR{PD: there.pd, MR: w.mr},
		schema.CmdModifyMR: &schema.ModifyMR{MR: there.mr, PD: w.pd, Set: uint32(ci.MRFieldPD),
			Memory: there.plain(0)},
	} {
		_, err := w.execute(c, native.Append(nil, request))
		kit.WantExactly(t, err, fmt.Sprintf("the request %q with an object of an adapter that was removed", c),
			ci.InvalidState)
	}
	for _, h := range []schema.SendHandles{{AV: w.of(schema.KindAV)}, {MW: w.of(schema.KindMW)}, {MR: w.mr}} {
		if h == (schema.SendHandles{}) {
			continue
		}
		wr := &ci.SendWR{Op: ci.OpBindMW, Ext: new(ci.SendExt)}
		if h.AV != 0 {
			wr = &ci.SendWR{Op: ci.OpSend}
		}
		b := native.AppendSend(native.AppendPost(nil, there.qp, 1), wr, h)
		_, err := w.execute(schema.CmdPostSend, b)
		kit.WantExactly(t, err, "QP.PostSend with an object of an adapter that was removed", ci.InvalidState)
	}
	if mw := w.of(schema.KindMW); mw != 0 {
		_, err := w.execute(schema.CmdBindMW, native.Append(nil, &schema.BindMW{QP: there.qp,
			Bind: schema.Bind{MW: mw, MR: there.mr}}))
		kit.WantExactly(t, err, "QP.BindMW with a window of an adapter that was removed", ci.InvalidState)
		_, err = w.execute(schema.CmdBindMW, native.Append(nil, &schema.BindMW{QP: there.qp,
			Bind: schema.Bind{MW: there.of(schema.KindMW), MR: w.mr}}))
		kit.WantExactly(t, err, "QP.BindMW with a region of an adapter that was removed", ci.InvalidState)
	}
}

var _ = removals.Case(validate.Case{
	ID: "user.removal.stop",
	Title: "a daemon that stops announces it to each open of an adapter, once, and waits for the processes; verbs " +
		"continue to work",
	Run: removalStop,
}, req.SAS2_4_11)

func removalStop(t *validate.T) {
	s := newStage(t)
	s.restart(func(*kproxy.Config) {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := func() chan error {
		done := make(chan error, 1)
		core := s.core
		t.Go(func() { done <- core.Stop(ctx) })
		return done
	}
	fatal := schema.Event{Kind: schema.EventAsync, Type: uint32(ci.EventLocalFatal), Token: uint64(schema.KindCA)}
	one := func(l *eventList, what string) {
		s.await("EventLocalFatal of "+what, "one", func() string {
			if n := l.count(fatal); n != 1 {
				return fmt.Sprint(n)
			}
			return ""
		})
	}
	x := s.speaker()
	queue, events := x.started()
	w := x.whole(0, queue)
	done := stop()
	one(events, "a process when the daemon stops")
	kit.OK(t, x.do(schema.CmdQueryCQ, &schema.CQ{CQ: w.cq}, &schema.QueryCQReply{}), "CQ.Query while the daemon stops")
	y := s.speaker()
	queueY, eventsY := y.started()
	y.whole(0, queueY)
	one(eventsY, "an open while the daemon stops")
	for _, h := range slices.Backward(w.list) {
		x.destroyed(h)
	}
	again := x.whole(0, queue)
	s.await("EventLocalFatal of a second open while the daemon stops", "one more", func() string {
		if n := events.count(fatal); n != 2 {
			return fmt.Sprint(n)
		}
		return ""
	})
	if len(s.guids) > 0 {
		kit.OK(t, s.al.Deregister(s.guids[0]), "Registrar.Deregister while the daemon stops")
		h, _, err := x.exchange(schema.CmdQueryCQ, native.Append(nil, &schema.CQ{CQ: again.cq}))
		kit.OK(t, err, "the connection")
		kit.Equal(t, "status of CQ.Query of an adapter that was removed", h.Status, ci.InvalidState)
		var r schema.DestroyReply
		for _, h := range slices.Backward(again.list) {
			kit.OK(t, x.do(schema.CmdDestroy, &schema.Object{Handle: h}, &r), "a destroy")
		}
		kit.Equal(t, "events of an open when the daemon stops and its adapter is removed", r.Async, 1)
	}
	s.waitsForLast(done, "Server.Stop", x, y, func() {})
}

// waitsForLast ends the connections of the only two processes, and expects that a verb of the daemon returns with the
// last, and not before. between is called when there is one.
func (s *stage) waitsForLast(done <-chan error, verb string, first, last *speaker, between func()) {
	first.c.Close()
	s.await("the processes of the daemon after the end of one", "one", func() string {
		if n := len(s.core.Sessions()); n != 1 {
			return fmt.Sprint(n)
		}
		return ""
	})
	between()
	select {
	case err := <-done:
		s.t.Failf(verb+" with a process", "no return", "%s", kit.Describe(err))
	default:
	}
	last.c.Close()
	select {
	case err := <-done:
		kit.OK(s.t, err, verb+" after the end of the last process")
	case <-s.t.Context().Done():
		s.t.Failf(verb+" after the end of the last process", "its return", "none")
	}
}
