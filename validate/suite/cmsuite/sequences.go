package cmsuite

import (
	"errors"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var CMPath04 = alternates.Must("CM-Path-04", "IBTA 12.8.1", "cm, EventAlternate, Conn.AnswerAlternate, Delay",
	"A new LAP replaces one that the consumer has not answered, and the answer is for the new one. Each path that "+
		"differs in an address is another path. A rejected path leaves the one that was loaded before.")

var _ = alternates.Case(validate.Case{
	ID:    "cm.alternate.sequence",
	Title: "proposals one after the other",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   alternateSequence,
}, CMPath04)

func alternateSequence(t *validate.T) {
	g := newRig(t)
	k := g.with(g.answered(), "RTU")
	x := &end{End: g.y.End, side: g.there, Conn: k}
	lap := func(n byte) *mad.LAP {
		l := &mad.LAP{LocalCommID: k.theirs, RemoteCommID: k.ours, RemoteQPN: uint32(g.y.Num()), RemoteTimeout: 18,
			Alternate: otherPort(k.req.Primary)}
		l.Alternate.LocalGID[14] ^= n
		return l
	}
	proposed := func(tid uint64, l *mad.LAP, where string) cm.Event {
		g.send(tid, l)
		kit.Equal(t, "messages after "+where, texts(g.sync("after "+where)), nothing)
		e := nextEvent(t, k, cm.EventAlternate)
		kit.Equal(t, "path of "+where, e.Path.AV.GRH.DGID, ci.GID(l.Alternate.LocalGID))
		return e
	}
	answer := func(tid uint64, status mad.APRStatus, where string) {
		kit.OK(t, k.AnswerAlternate(status, nil, nil), "cm.Conn.AnswerAlternate of "+where)
		list := g.sync("after AnswerAlternate")
		kit.Equal(t, "messages after AnswerAlternate of "+where, texts(list), "APR, status "+status.String())
		kit.Equal(t, "transaction ID of the answer to "+where, list[0].TID, tid)
	}
	proposed(0, lap(1), "a LAP with transaction ID 0")
	kit.WantExactly(t, k.AnswerAlternate(mad.APRRejected, make([]byte, mad.CMInfoLen+1), nil),
		"cm.Conn.AnswerAlternate with too much information", ci.InvalidParameter)
	kit.WantExactly(t, k.AnswerAlternate(mad.APRRejected, nil, make([]byte, mad.APRPrivateLen+1)),
		"cm.Conn.AnswerAlternate with too much private data", ci.InvalidParameter)
	kit.WantExactly(t, k.Delay(1, make([]byte, mad.MRAPrivateLen+1)), "cm.Conn.Delay with too much private data",
		ci.InvalidParameter)
	kit.Equal(t, "messages after calls that failed", texts(g.sync("after calls that failed")), nothing)
	answer(0, mad.APRRejected, "a LAP with transaction ID 0")
	kit.WantExactly(t, k.Delay(1, nil), "cm.Conn.Delay after the answer", ci.InvalidState)

	wrong := lap(1)
	wrong.RemoteQPN ^= 1
	g.send(1, wrong)
	list := g.sync("after a LAP for another QP")
	kit.Equal(t, "messages after a LAP for another QP", texts(list), "APR, status "+mad.APRInvalidQPN.String())
	kit.Equal(t, "transaction ID of the answer", list[0].TID, 1)
	g.send(0, lap(1))
	kit.Equal(t, "messages after a copy of the first LAP", texts(g.sync("after a copy of the first LAP")),
		"APR, status "+mad.APRRejected.String())

	proposed(2, lap(2), "a LAP")
	first := proposed(3, lap(3), "a LAP that replaces one")
	answer(3, mad.APRLoaded, "a LAP that replaces one")
	x.loads(first.Path.AV, 16)
	proposed(4, lap(4), "a LAP after one that was loaded")
	kit.OK(t, k.Delay(20, nil), "cm.Conn.Delay")
	kit.Equal(t, "messages after Delay", texts(g.sync("after Delay")), "MRA of "+mad.WhichLAP.String())
	g.send(4, lap(4))
	kit.Equal(t, "messages after a copy of a delayed LAP", texts(g.sync("after a copy")),
		"MRA of "+mad.WhichLAP.String())
	proposed(5, lap(5), "a LAP that replaces a delayed one")
	answer(5, mad.APRRejected, "a LAP that replaces a delayed one")
	x.loads(first.Path.AV, 16)
	for range 2 {
		g.send(5, lap(5))
		kit.Equal(t, "messages after a copy of the last LAP", texts(g.sync("after a copy of the last LAP")),
			"APR, status "+mad.APRRejected.String())
	}

	// A path is the same if all its addresses are.
	isIB := g.there.ca.Port.Link == ci.LinkInfiniBand
	tid := uint64(6)
	for _, v := range kit.Variants(t, "", []struct {
		name   string
		skip   bool
		isSame bool
		change func(c *mad.CMPath)
	}{
		{"the primary path", false, true, func(c *mad.CMPath) { *c = k.req.Primary }},
		{"the primary path with another rate and timeout", false, true, func(c *mad.CMPath) {
			*c = k.req.Primary
			c.Rate, c.AckTimeout, c.FlowLabel = 5, 3, 7
		}},
		{"the loaded path", false, true, func(c *mad.CMPath) { *c = lap(3).Alternate }},
		{"the primary path from another GID", false, false, func(c *mad.CMPath) {
			*c = k.req.Primary
			c.LocalGID[15] ^= 0x20
		}},
		{"the primary path from another LID", !isIB, false, func(c *mad.CMPath) {
			*c = k.req.Primary
			c.LocalLID ^= 0x20
		}},
		{"the primary path to another LID of the port", !isIB || g.there.ca.Port.LMC == 0, false,
			func(c *mad.CMPath) { *c = k.req.Primary; c.RemoteLID ^= 1 }},
		{"the loaded path from another GID", false, false, func(c *mad.CMPath) { c.LocalGID[14] ^= 9 }},
	}) {
		if v.skip {
			continue
		}
		l := lap(0)
		v.change(&l.Alternate)
		tid++
		if !v.isSame {
			proposed(tid, l, "a LAP with "+v.name)
			answer(tid, mad.APRRejected, "a LAP with "+v.name)
			continue
		}
		g.send(tid, l)
		list := g.sync("after a LAP with " + v.name)
		kit.Equal(t, "messages after a LAP with "+v.name, texts(list), "APR, status "+mad.APRDuplicatePath.String())
		kit.Equal(t, "transaction ID of the answer to a LAP with "+v.name, list[0].TID, tid)
	}
	x.loads(first.Path.AV, 16)

	// After the migration, messages go to the new address. Nothing is there.
	kit.OK(t, k.Migrated(), "cm.Conn.Migrated")
	_, rts := x.attrOf(ci.QPRTS)
	kit.Equal(t, "primary path after the migration", rts.Primary.AV, first.Path.AV)
	ctx, cancel := wait(t)
	defer cancel()
	kit.OK(t, k.StartDisconnect(ctx, nil, func([]byte, error) {}), "cm.Conn.StartDisconnect")
	kit.Equal(t, "messages to the old address after the migration", texts(g.sync("after StartDisconnect")), nothing)
	inState(t, k, cm.StateDREQSent, "after StartDisconnect")
}

var CMPath05 = alternates.Must("CM-Path-05", "IBTA 12.8", "cm, Conn.LoadAlternate",
	"A proposal ends with ErrClosed when the connection ends, at either end. A later proposal replaces the path of an "+
		"earlier one, and a rejected one does not.")

var _ = alternates.Case(validate.Case{
	ID:    "cm.propose.ends",
	Title: "connections that end during a proposal, and proposals one after the other",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   proposeEnds,
}, CMPath05)

func proposeEnds(t *validate.T) {
	statesAtOnce(t)
	g := newRig(t)
	outcome := make(chan error, 1)
	propose := func(k *linked, hops uint8) (*mad.LAP, uint64) {
		path := g.there.path(g.here)
		path.AV.GRH.HopLimit = hops
		err := k.StartLoadAlternate(t.Context(), cm.AlternateConfig{Path: path},
			func(_ *mad.APR, err error) { outcome <- err })
		kit.OK(t, err, "cm.Conn.StartLoadAlternate")
		l, m := expect[*mad.LAP](g.script, "LAP")
		return l, m.TID
	}
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		end   func(k *linked)
		sends string
		state cm.State
	}{
		{"a DREQ", func(k *linked) { g.send(k.tidOf("DREQ"), g.message(k, "DREQ")) }, nothing, cm.StateDREQRcvd},
		{"a REJ", func(k *linked) { g.send(k.tid, g.message(k, "REJ")) }, nothing, cm.StateTimeWait},
		{"a REQ of a peer that has lost the connection",
			func(k *linked) { g.send(k.tid, g.message(k, "other REQ")) }, rejectsStale + "; DREQ", cm.StateDREQSent},
		{"Disconnect", func(k *linked) { g.ended(k) }, "DREQ", cm.StateDREQSent},
		{"Close", func(k *linked) { kit.OK(t, k.Close(), "cm.Conn.Close") }, "DREQ", cm.StateDREQSent},
	}) {
		for _, isDelayed := range []bool{false, true} {
			k := g.open()
			g.sync("on the way to Established")
			l, tid := propose(k, 64)
			if isDelayed {
				g.with(k, "MRA of LAP")
			}
			v.end(k)
			err := g.await(&linked{outcome: outcome})
			kit.True(t, errors.Is(err, cm.ErrClosed), "outcome of a proposal after "+v.name, "cm.ErrClosed", "%v", err)
			kit.Equal(t, "messages after "+v.name, texts(g.sync("after "+v.name)), v.sends)
			inState(t, k, v.state, "after "+v.name)
			g.send(tid, apr(l, mad.APRLoaded))
			kit.Equal(t, "messages after a late APR", texts(g.sync("after a late APR")), nothing)
			_, _, err = k.AlternateAttr()
			kit.WantExactly(t, err, "cm.Conn.AlternateAttr after a late APR", ci.InvalidState)
			inState(t, k, v.state, "after a late APR")
		}
	}
	k := g.open()
	g.sync("on the way to Established")
	for _, v := range []struct {
		hops   uint8
		status mad.APRStatus
		want   uint8 // hops of the path that the attributes load
	}{{10, mad.APRLoaded, 10}, {11, mad.APRRejected, 10}, {12, mad.APRLoaded, 12}} {
		l, tid := propose(k, v.hops)
		kit.Equal(t, "hop limit of the LAP", l.Alternate.HopLimit, v.hops)
		g.send(tid, apr(l, v.status))
		err := g.await(&linked{outcome: outcome})
		var no *cm.AlternateError
		if v.status == mad.APRLoaded {
			kit.OK(t, err, "outcome of a proposal")
		} else if !errors.As(err, &no) || no.APR.Status != v.status {
			t.Failf("outcome of a proposal", "a *cm.AlternateError with the status of the peer", "%v", err)
		}
		_, a, err := k.AlternateAttr()
		kit.OK(t, err, "cm.Conn.AlternateAttr")
		kit.Equal(t, fmt.Sprintf("hop limit of the alternate path after APR %v", v.status),
			a.Alternate.AV.GRH.HopLimit, v.want)
	}
}

var CMAttr04 = attributes.Must("CM-Attr-04", "IBTA 12.6.5", "cm, Path, ConnectConfig",
	"A REQ has the path MTU of the port if the consumer's is larger or not set, and the default times and retries "+
		"where the consumer sets none. It is sent to the LID of the peer's manager.")

var _ = attributes.Case(validate.Case{
	ID:    "cm.attributes.defaults",
	Title: "path MTUs, defaults, and another LID of the peer's manager",
	Run:   attributesDefaults,
}, CMAttr04)

func attributesDefaults(t *validate.T) {
	g := newRig(t)
	port := g.there.ca.Port
	refuse := func(k *linked) {
		g.send(k.tid, &mad.REJ{RemoteCommID: k.ours, Reason: mad.RejConsumer})
		_ = refused(t, g.await(k), mad.RejConsumer)
	}
	for _, mtu := range kit.Variants(t, "MTU", []ci.MTU{0, ci.MTU256, port.MTU, ci.MTU4096}) {
		k := g.connectWith(func(c *cm.ConnectConfig) { c.Primary.MTU = mtu })
		want := port.MTU
		if mtu != 0 && mtu < want {
			want = mtu
		}
		kit.Equal(t, "path MTU of the REQ", k.req.PathMTU, mad.MTU(want))
		refuse(k)
	}
	k := g.connectWith(func(c *cm.ConnectConfig) {
		c.ResponseTime, c.RemoteResponseTime = 0, 0
		c.MaxRetries, c.Primary.PKey = 0, 0
		c.RetryCount, c.RNRRetry = 0, 0
		c.FlowControl, c.QP.SRQ = true, true
	})
	kit.Equal(t, "default times and retries of the REQ", [3]uint8{uint8(k.req.LocalTimeout),
		uint8(k.req.RemoteTimeout), k.req.MaxCMRetries}, [3]uint8{18, 18, 8})
	kit.Equal(t, "retry counts of the REQ", [2]uint8{k.req.RetryCount, k.req.RNRRetryCount}, [2]uint8{})
	kit.Equal(t, "default P_Key of the REQ", k.req.PKey&0x7fff, 0x7fff)
	kit.True(t, k.req.FlowControl && k.req.SRQ, "flow control and SRQ of the REQ", "both", "%t, %t", k.req.FlowControl,
		k.req.SRQ)
	refuse(k)
	if port.Link == ci.LinkInfiniBand {
		k := g.connectWith(func(c *cm.ConnectConfig) { // the REQ arrives at the LID of the manager
			c.Primary.RemoteLID = c.Primary.AV.DLID
			c.Primary.AV.DLID ^= 0x40
		})
		kit.Equal(t, "remote LID of the path", ci.LID(k.req.Primary.RemoteLID), g.here.ca.Port.LID^0x40)
		refuse(k)
	}
	// The exponent of a timeout is that of the nearest time.
	delay := mad.TimeExp(g.there.ca.Attr.AckDelay)
	for life := mad.TimeExp(0); life < mad.MaxTimeExp-1; life++ {
		k := g.connectWith(func(c *cm.ConnectConfig) { c.Primary.LifeTime = life })
		want := 2*life.Duration() + delay.Duration()
		got := k.req.Primary.AckTimeout
		far := func(e mad.TimeExp) int64 { return max(int64(e.Duration()-want), int64(want-e.Duration())) }
		kit.True(t, far(got) <= far(got+1) && (got == 0 || far(got) <= far(got-1)), "ACK timeout",
			fmt.Sprintf("the exponent nearest to %v", want), "%v", got.Duration())
		refuse(k)
	}
	// The largest values of a path are valid, and one more of each is not.
	x := g.y.request(g.here, nil)
	for name, change := range map[string]func(w *cm.Path, more uint8){
		"static rate":      func(w *cm.Path, more uint8) { w.AV.StaticRate = ci.Rate(63 + more) },
		"service level":    func(w *cm.Path, more uint8) { w.AV.SL = ci.SL(15 + more) },
		"packet life time": func(w *cm.Path, more uint8) { w.LifeTime = mad.TimeExp(31 + more) },
		"flow label":       func(w *cm.Path, more uint8) { w.AV.GRH.FlowLabel = 1<<20 - 1 + uint32(more) },
		"index of the GIDs": func(w *cm.Path, more uint8) {
			w.AV.GRH.SGIDIndex = uint16(len(port.GIDs)-1) + uint16(more)
		},
	} {
		for more := range uint8(2) {
			path := x.Primary
			change(&path, more)
			ctx, cancel := wait(t)
			err := g.m.StartLookup(ctx, cm.LookupConfig{Service: service, Path: path},
				func(*cm.LookupReply, error) {})
			cancel()
			if more == 0 {
				kit.OK(t, err, "cm.Service.StartLookup with the largest "+name)
			} else {
				kit.WantExactly(t, err, "cm.Service.StartLookup with a larger "+name, ci.InvalidParameter,
					ci.InvalidGID)
			}
		}
	}
	absent := g.newREQ()
	absent.PKey = uint16(g.there.absentPKey())
	g.send(5, absent)
	for {
		m := g.recv("answer to a REQ of a partition that the port does not have")
		if _, ok := m.msg.(*mad.SIDRREQ); ok {
			continue
		}
		kit.Equal(t, "answer to a REQ of a partition that the port does not have", texts([]message{m}),
			"REJ of REQ, "+mad.RejUnsupported.String())
		break
	}
}
