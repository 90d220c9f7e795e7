package usersuite

import (
	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID: "user.service.lookups-answered",
	Title: "a process leaves a lookup request without an answer and answers as many later ones as it may leave " +
		"without one: they do not count, and the first one still has its answer",
	Run: servingLookupsAnswered,
}, req.SAS2_4_10)

func servingLookupsAnswered(t *validate.T) {
	const unanswered = 256 // docs/limits.md
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.Connections = unanswered + 10 })
	x, y := s.patron(), s.patron()
	to := x.loopback(s.app().open())
	l := y.made("Service.Listen", schema.CmdCMListen, &schema.CMListen{Services: y.services, ServiceID: serviceA,
		Datagram: true})
	op := uint64(0)
	request := func() (lookup, got schema.Handle) {
		op++
		kit.OK(t, y.do(schema.CmdCMAccept, &schema.CMAccept{Listener: l, Op: op, Lookup: true}, &schema.None{}),
			"Listener.AcceptLookup")
		lookup = x.made("Service.Lookup", schema.CmdCMLookup, &schema.CMLookup{Services: x.services, Op: op,
			ServiceID: serviceA, Path: schema.CMPath{Port: x.port, AV: to.AV, PKey: 0xffff, RemoteLID: to.AV.DLID,
				MTU: ci.MTU1024, LifeTime: 10}, Timeout: 3600e9, Retries: 1})
		n := y.notice(l, "a listener with a lookup request")
		kit.Equal(t, "operation of a lookup request", n.Op, op)
		return lookup, n.Object
	}
	reject := func(h schema.Handle) error {
		return y.do(schema.CmdCMAnswerLookup, &schema.CMAnswerLookup{Request: h, Status: uint32(mad.SIDRNoQP)},
			&schema.None{})
	}
	t.Step("a request that waits, and others that are answered")
	lookup, first := request()
	for range unanswered {
		other, h := request()
		kit.OK(t, reject(h), "an answer to a later request")
		x.destroyed(other)
	}
	other, h := request()
	t.Step("the answer to the first request")
	kit.OK(t, reject(first), "an answer to the first request")
	n := x.notice(lookup, "the first lookup")
	kit.Equal(t, "kind and error of its outcome", [2]uint64{uint64(n.Kind), uint64(n.Error.Code)},
		[2]uint64{uint64(schema.NoticeOutcome), uint64(schema.ErrorLookup)})
	kit.OK(t, reject(h), "an answer to the last request")
	x.destroyed(lookup)
	x.destroyed(other)
}
