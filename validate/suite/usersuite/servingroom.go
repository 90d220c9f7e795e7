package usersuite

import (
	"bytes"
	"fmt"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

var _ = servings.Case(validate.Case{
	ID: "user.service.outcome-quota",
	Title: "an answer that a process has no room for becomes an outcome without data, whose error is that of the " +
		"quota, and shorter answers arrive before and after it",
	Run: servingOutcomeQuota,
}, req.SAS2_4_10)

func servingOutcomeQuota(t *validate.T) {
	const long, short = 2 * room, room / 4 // bytes of an answer
	s := newStage(t)
	s.withServices(func(cfg *kproxy.Config) { cfg.Quota.ServiceBytes = room })
	p := s.patron()
	to := p.loopback(s.app().open())
	class, oui := mad.ClassVendor2First+5, [3]uint8{1, 2, 3}
	asks := p.made("mads.Register", schema.CmdRegisterAgent, &schema.RegisterAgent{Services: p.services, Port: p.port,
		Class: uint8(class), Version: 1, OUI: oui, RMPP: true})
	sizes := []int{short, long, short, long, long, short}
	var answers mads.Agent
	next := make(chan int, len(sizes)) // bytes of each answer
	answer := func(r *mads.Received) {
		select {
		case n := <-next:
			b := make([]byte, n)
			copy(b, r.MAD)
			b[3] = byte(mad.GetResp)
			_ = answers.Send(&mads.Message{To: r.From, MAD: b}) // the outcome shows an answer that was not sent
		default: // a request that was repeated
		}
	}
	answers, err := s.mads.Register(mads.AgentConfig{Name: "answers", Port: mads.Port{CA: p.port.CA, Num: p.port.Num},
		Class: class, Version: 1, OUI: oui, RMPP: true, Methods: []mad.Method{mad.Get}, OnReceive: answer})
	kit.OK(t, err, "mads.Register of the peer")
	t.Cleanup(func() { kit.OK(t, answers.Close(), "mads.Agent.Close") })
	request := make([]byte, lenDatagram)
	h := mad.Header{BaseVersion: mad.BaseVersion, Class: class, ClassVersion: 1, Method: mad.Get, Attribute: 0x11}
	h.Put(request)
	copy(request[37:], oui[:])
	for i, n := range sizes {
		op := uint64(i + 1)
		next <- n
		kit.OK(t, p.do(schema.CmdSendMAD, &schema.SendMAD{Agent: asks, Op: op, To: to, Timeout: 3600e9,
			MAD: bytes.Clone(request)}, &schema.None{}), "Agent.StartDo")
		r := p.await(asks, "an outcome")
		where := fmt.Sprintf("kind, operation, error, status and length of the outcome of a request with an answer of "+
			"%d bytes and a quota of %d", n, room)
		got := [5]uint64{uint64(r.Kind), r.Op, uint64(r.Error.Code), uint64(r.Error.Status), uint64(r.Total)}
		want := [5]uint64{uint64(schema.MADOutcome), op, uint64(schema.ErrorNone), 0, uint64(n)}
		if n == long {
			want[2], want[3], want[4] = uint64(schema.ErrorStatus), uint64(ci.InsufficientResources), 0
		}
		kit.Equal(t, where, got, want)
	}
}
