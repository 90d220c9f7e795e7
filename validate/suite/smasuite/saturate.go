package smasuite

import (
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var _ = components.Needing(validate.Needs{Caps: ci.CapQKeyCounter | ci.CapUD | ci.CapAV, HCAs: 2}).With(
	validate.Case{Timeout: time.Minute}).Add("sma.component.saturate",
	"more packets with a wrong Q_Key than the counter has numbers", componentSaturate,
	components.Must("SMA-Comp-05", "IBTA 14.2.5.6", "ci_local_mad; PortInfo.QKeyViolations",
		"The counter of Q_Key violations counts each packet, and stops at 0xffff, in PortInfo and in CA.Query."))

func componentSaturate(t *validate.T) {
	const most, batch = 0xffff, 64
	p := open(t)
	var sender *kit.CA
	if p.peer != nil {
		sender = p.peer.ca
	} else {
		sender = kit.OpenHCA(t, t.HCAs()[1])
	}
	c := kit.Options(p.ca, sender, kit.Type(ci.UD), kit.Depth(2*batch))
	to, from := p.ca.End(c), sender.End(c)
	for _, e := range []*kit.End{to, from} {
		e.Init().RTR(nil).RTS()
	}
	av := sender.AV(from.PD, p.ca)
	list := make([]ci.SendWR, batch)
	for i := range list {
		list[i] = ci.SendWR{ID: uint64(i), Op: ci.OpSend, To: ci.Dest{AV: av, QPN: to.Num(), QKey: c.QKey ^ 0x1000}}
	}
	list[batch-1].Flags = ci.SendSignaled
	send := func() {
		from.Send(list...)
		from.CQ.WaitOK(batch - 1)
	}
	count := func() int { return int(p.info().QKeyViolations) }
	queried := func() int { return int(p.attr().QKeyErrors) }
	was, wasQueried := count(), queried()
	send()
	if !await(t, func() bool { return count() >= was+batch }) {
		t.Failf("QKeyViolations after 64 packets with a wrong Q_Key", "64 more", "%d, before them %d", count(), was)
	}
	kit.Equal(t, "QKeyViolations after 64 packets with a wrong Q_Key", count(), was+batch)
	kit.Equal(t, "PortAttr.QKeyErrors after 64 packets with a wrong Q_Key", queried(), wasQueried+batch)
	// A link may lose packets of such a number without a pause, so that more are sent until the counter has stopped.
	for n := 0; count() < most || queried() < most; n++ {
		if n == 4 {
			t.Failf("QKeyViolations and PortAttr.QKeyErrors after more than 4 * 0xffff packets with a wrong Q_Key",
				"65535 and 65535", "%d and %d", count(), queried())
		}
		for range most/batch + 1 {
			send()
		}
	}
	send()
	kit.Equal(t, "QKeyViolations after further packets", count(), most)
	kit.Equal(t, "PortAttr.QKeyErrors after further packets", queried(), most)
	kit.Equal(t, "QKeyViolations after a Set of 0",
		p.change(func(i *mad.PortInfo) { i.QKeyViolations = 0 }).QKeyViolations, 0)
}
