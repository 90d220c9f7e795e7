package usersuite

import (
	"encoding/binary"
	"fmt"
	"os"

	"ciddk/ci"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = items.Case(validate.Case{
	ID: "user.event.frontend",
	Title: "event queues of a front end with a form of its own: what the process reads, what it does not read when " +
		"an object ends, and the end of a queue that nobody has any more",
	Run: eventFrontEnd,
}, req.SAS2_4_11)

// leftOut is the type of events that the front end of the case leaves out.
const leftOut = ci.EventQPComm

// ownForm is its form of events: the token, and the kind.
func ownForm(b []byte, e *schema.Event) []byte {
	if e.Kind == schema.EventAsync && ci.EventType(e.Type) == leftOut {
		return b
	}
	return append(binary.NativeEndian.AppendUint64(b, e.Token), byte(e.Kind), 0x77)
}

func eventFrontEnd(t *validate.T) {
	s := newStage(t)
	x := s.session(peer(os.Getuid())).domain()
	q, theirs, err := x.c.NewEventQueue(ownForm)
	kit.OK(t, err, "Session.NewEventQueue")
	t.Cleanup(func() { theirs.Close() })
	next := func(where string, token uint64, kind schema.EventKind) {
		b := make([]byte, 64)
		n, err := theirs.Read(b)
		kit.OK(t, err, "the event of "+where)
		kit.SameBytes(t, "the event of "+where, b[:n], append(binary.NativeEndian.AppendUint64(nil, token), byte(kind),
			0x77))
	}
	type cq struct {
		h    schema.Handle
		made ci.CQCreate
	}
	create := func(token uint64) cq {
		r, err := x.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: x.pd, Size: 4, Token: token, Completions: q, Async: q})
		kit.OK(t, err, "PD.CreateCQ")
		return cq{r.Body.(*schema.CreateCQReply).Handle, s.probe.lastCQ()}
	}
	counts := func(h schema.Handle) [2]uint64 {
		r, err := x.do(schema.CmdDestroy, &schema.Object{Handle: h})
		kit.OK(t, err, "CQ.Destroy")
		d := r.Body.(*schema.DestroyReply)
		return [2]uint64{d.Completions, d.Async}
	}
	complete := func(c cq, n int) {
		for range n {
			c.made.OnCompletion(c.made.Context)
		}
	}
	const tokenA, tokenB = 0x1122334455667788, 0x99aabbccddeeff00
	for _, held := range []bool{true, false, true} {
		what := map[bool]string{true: "a queue that the front end holds", false: "a queue that it does not hold"}[held]
		if !held {
			kit.True(t, !x.c.ReapEventQueue(q), "Session.ReapEventQueue of a queue that the process has", "false",
				"true")
		} else {
			for range 2 {
				kit.OK(t, x.c.HoldEventQueue(q, theirs), "Session.HoldEventQueue")
			}
		}
		a, b := create(tokenA), create(tokenB)
		kit.True(t, !x.c.ReapEventQueue(q), "Session.ReapEventQueue of a queue that objects use", "false", "true")
		complete(a, 2)
		next(what, tokenA, schema.EventCompletion)
		next(what, tokenA, schema.EventCompletion)
		a.made.OnEvent(ci.Event{Type: leftOut})
		b.made.OnEvent(ci.Event{Type: ci.EventCQError})
		next("an event after one that is left out", tokenB, schema.EventAsync)
		complete(a, 3) // which the process does not read
		complete(b, 4)
		want := uint64(2)
		if !held {
			want += 3
		}
		kit.Equal(t, "events of a CQ that the destroy counts, with "+what, counts(a.h), [2]uint64{want, 0})
		if !held {
			for range 3 {
				next(what, tokenA, schema.EventCompletion)
			}
		}
		for range 4 {
			next(what, tokenB, schema.EventCompletion)
		}
		kit.Equal(t, "events of a CQ that the destroy counts, with "+what, counts(b.h), [2]uint64{4, 1})
	}
	kit.True(t, !x.c.ReapEventQueue(q), "Session.ReapEventQueue of a queue that the process has", "false", "true")
	theirs.Close()
	kit.True(t, x.c.ReapEventQueue(q), "Session.ReapEventQueue of a queue that the process has closed", "true", "false")
	kit.True(t, !x.c.ReapEventQueue(q), "Session.ReapEventQueue of a queue that is gone", "false", "true")
	kit.WantExactly(t, x.c.HoldEventQueue(q, nil), "Session.HoldEventQueue of a queue that is gone",
		schema.KindEventQueue.Invalid())

	t.Step("quotas")
	most := x.c.Quota().EventQueues - 1 // beside the session's own
	var list []schema.Handle
	for range most {
		h, f, err := x.c.NewEventQueue(ownForm)
		kit.OK(t, err, "Session.NewEventQueue")
		f.Close()
		list = append(list, h)
	}
	_, _, err = x.c.NewEventQueue(ownForm)
	kit.WantExactly(t, err, "Session.NewEventQueue beyond the quota", ci.InsufficientResources)
	for _, h := range list {
		kit.True(t, x.c.ReapEventQueue(h), "Session.ReapEventQueue of a queue that the process has closed", "true",
			"false")
	}

	t.Step("QPs and memory of the process")
	r, err := x.do(schema.CmdCreateCQ, &schema.CreateCQ{PD: x.pd, Size: 4})
	kit.OK(t, err, "PD.CreateCQ")
	plain := r.Body.(*schema.CreateCQReply).Handle
	r, err = x.do(schema.CmdCreateQP, &schema.CreateQP{PD: x.pd, SendCQ: plain, RecvCQ: plain, Type: ci.RC,
		Caps: schema.QPCaps{SendDepth: 2, RecvDepth: 2, SendSGE: 1, RecvSGE: 1}})
	kit.OK(t, err, "PD.CreateQP")
	num := r.Body.(*schema.CreateQPReply).Num
	guid := s.guids[0]
	other := s.session(peer(otherUser))
	for what, v := range map[string]struct {
		uid  int
		guid ci.GUID
		num  ci.QPN
		is   bool
	}{
		"the QP":          {os.Getuid(), guid, num, true},
		"another user":    {otherUser, guid, num, false},
		"another adapter": {os.Getuid(), guid + 1, num, false},
		"another number":  {os.Getuid(), guid, num ^ 1<<22, false},
	} {
		got := s.core.Owner(v.uid, v.guid, v.num)
		kit.True(t, (got == x.c) == v.is && (got != nil) == v.is, "Server.Owner of "+what, fmt.Sprint(v.is), "%v",
			got != nil)
		err := x.c.CheckQP("certifier", v.guid, v.num)
		kit.True(t, (err == nil) == (v.guid == guid && v.num == num), "Session.CheckQP of "+what, "as it is", "%v", err)
	}
	kit.WantExactly(t, other.c.CheckQP("certifier", guid, num), "Session.CheckQP of another process",
		ci.InvalidQPHandle)
	b, own := make([]byte, 1000), kit.Random(t, make([]byte, 1000))
	kit.OK(t, x.c.ReadMemory(b, ci.Bytes(own).Addr()), "Session.ReadMemory")
	kit.SameBytes(t, "Session.ReadMemory", b, own)
	kit.WantExactly(t, x.c.ReadMemory(b, 4096), "Session.ReadMemory of an address that is not mapped",
		ci.InvalidPermission)
	kit.OK(t, x.c.Close(), "kproxy.Session.Close")
	kit.WantExactly(t, x.c.ReadMemory(b, ci.Bytes(own).Addr()), "Session.ReadMemory after the end of the process",
		ci.InvalidState)
	_, _, err = x.c.NewEventQueue(ownForm)
	kit.WantExactly(t, err, "Session.NewEventQueue after the end of the process", ci.InvalidState)
}
