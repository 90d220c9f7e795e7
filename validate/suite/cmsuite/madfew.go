package cmsuite

import (
	"sync/atomic"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.few-received",
	Title: "long messages of one peer, with room for one, two or three transfers",
	Run:   rmppFewReceived,
}, MADRMPP05)

func rmppFewReceived(t *validate.T) {
	for _, most := range kit.Variants(t, "MaxTransfers", []int{1, 2, 3}) {
		s := newSender(t, mads.Config{MaxTransfers: most})
		s.segment(1, 1, 3, 405)
		s.segment(1, 2, 3, 0) // so that it keeps its place
		s.sent()
		s.settle(1)
		s.segment(2, 1, 3, 405)
		s.settle(1)
		list := s.sent()
		r := mad.RMPP{}
		if n := len(list); n > 0 {
			r = list[n-1].rmpp()
		}
		kit.Equal(t, "type and status of the last packet, to a second transfer of a peer",
			[2]uint32{uint32(r.Type), uint32(r.Status)},
			[2]uint32{uint32(mad.RMPPStop), uint32(mad.RMPPResourcesExhausted)})
		s.segment(1, 3, 3, 0)
		s.message(1, 3)
		s.end()
	}
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.rmpp.few-receives",
	Title: "a long message to an adapter whose queues have room for four receives: a window of one segment",
	Run:   rmppFewReceives,
}, MADRMPP04)

func rmppFewReceives(t *validate.T) {
	s := newSenderOn(newBench(t, benchSetting{virtual: true, query: func(a *ci.CAAttr) { a.MaxWRs = 4 }}))
	for i, ack := range []string{"ACK 1 2", "ACK 2 3", "ACK 3 3"} {
		s.segment(1, i+1, 3, 405)
		s.wants("a segment", ack)
	}
	s.message(1, 3)
}

var _ = datagrams.Case(validate.Case{
	ID: "mad.request.unsent",
	Title: "requests to addresses that the adapter refuses end with its status, and have no outcome beside it, also " +
		"not when their agent is closed",
	Run: requestUnsent,
}, MADLimit02)

func requestUnsent(t *validate.T) {
	b := newBench(t, benchSetting{})
	from := b.agent(vendor())
	b.idle(from)
	to := b.side.to(b.peer)
	to.AV.SL ^= 1                // no vector of it is kept
	const refused, begun = 20, 5 // requests of each status, and others that the agent's end ends
	outcomes := make(chan error, 2*refused+begun)
	var count atomic.Int32
	request := func(tid uint64) error {
		m := &mads.Message{To: to, MAD: datagram(t, mad.Get, tid), Timeout: time.Hour}
		return from.StartDo(t.Context(), m, func(_ *mads.Received, err error) {
			count.Add(1)
			outcomes <- err
		})
	}
	for _, status := range kit.Variants(t, "status", []ci.Status{ci.InsufficientResources, ci.InvalidPDHandle}) {
		b.set(func() { b.refuse = &ci.Error{Verb: "PD.CreateAV", Status: status} })
		for i := range uint64(refused) {
			kit.WantExactly(t, request(i+1), "mads.Agent.StartDo", status)
		}
		_, err := from.Do(t.Context(), &mads.Message{To: to, MAD: datagram(t, mad.Get, 100)})
		kit.WantExactly(t, err, "mads.Agent.Do", status)
	}
	b.set(func() { b.refuse = nil })
	for i := range uint64(begun) {
		kit.OK(t, request(i+200), "mads.Agent.StartDo")
	}
	kit.OK(t, from.Close(), "mads.Agent.Close")
	for range begun {
		kit.True(t, await(t, outcomes, "the outcome of a request") != nil, "a request whose agent is closed",
			"an error", "success")
	}
	kit.Equal(t, "outcomes of requests, of which others were refused", count.Load(), begun)
}

// capabilityCA counts the changes of capability masks.
type capabilityCA struct {
	ciwrap.CA
	n *atomic.Int32
}

func (c capabilityCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	if set&ci.PortFieldCapability != 0 {
		c.n.Add(1)
	}
	return c.CA.Modify(port, set, a)
}

var _ = datagrams.Case(validate.Case{
	ID:    "mad.capability.none",
	Title: "agents of classes without a bit in the capability mask, or of ports without such a mask, do not change it",
	Run:   capabilityNone,
}, MADCap01)

func capabilityNone(t *validate.T) {
	h := t.HCA()
	if _, ok := h.(Host); ok {
		t.Skip("the MAD services are in another process, and the case does not see what they do with the adapter")
	}
	var n atomic.Int32
	a := newSide(t, ciwrap.Wrap(h, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return capabilityCA{ciwrap.CA{CA: c}, &n} }}))
	classes := []mad.Class{mad.ClassDeviceAdmin}
	if a.ca.Port.Link != ci.LinkInfiniBand {
		classes = append(classes, mad.ClassCM, mad.ClassSNMP, mad.ClassVendor1First)
	}
	for _, class := range classes {
		agent := a.agent(mads.AgentConfig{Name: "certifier", Class: class, Version: 1, Methods: []mad.Method{mad.Get}})
		kit.OK(t, agent.Close(), "mads.Agent.Close")
		kit.Equal(t, "changes of the capability mask by an agent of "+class.String(), n.Load(), 0)
	}
}
