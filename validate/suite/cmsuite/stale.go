package cmsuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Messages that show that one end has lost a connection.
var stales = area()

var CMStale01 = stales.Must("CM-Stale-01", "IBTA 12.9.8.3.1", "cm, Conn",
	"A REQ for a remote QP that belongs to a connection is rejected as stale, and the connection ends. After the end "+
		"of the connection, the QP can be connected again at once.")

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.qp",
	Title: "another REQ of the peer's QP, in every state",
	Run:   staleQP,
}, CMStale01)

func staleQP(t *validate.T) {
	g := newRig(t)
	for i, places := range [][]reactPlace{passivePlaces, activePlaces} {
		for _, p := range places {
			k := p.reach(g)
			g.sync("on the way to state " + p.name)
			q := g.newREQ()
			q.LocalQPN = k.req.LocalQPN
			if k.active {
				q.LocalQPN = k.rep.LocalQPN
			}
			g.send(3, q)
			where := fmt.Sprintf("another REQ of the QP in state %s of end %d", p.name, i)
			list := g.sync("after " + where)
			if p.state == cm.StateTimeWait {
				kit.Equal(t, "messages after "+where, texts(list), nothing)
				c := accepted(t, g.l)
				kit.Equal(t, "request after the end of the connection", c.Request().REQ, *q)
				kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
				g.sync("after Reject")
				continue
			}
			want := p.react["other REQ"]
			kit.Equal(t, "messages after "+where, texts(list), want.sends)
			_, theirs := commIDs(list[0].msg)
			kit.Equal(t, "remote communication ID of the REJ after "+where, theirs, q.LocalCommID)
			kit.Equal(t, "transaction ID of the REJ after "+where, list[0].TID, 3)
			inState(t, k, want.state, "after "+where)
		}
	}
}

var CMStale02 = stales.Must("CM-Stale-02", "IBTA 12.9.8.3.1", "cm, Service.Connect",
	"A REP whose communication ID or QP belongs to another connection is rejected, and Connect fails. In the case of "+
		"the QP, the other connection ends.")

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.reply",
	Title: "REPs with the ID, and with the QP, of another connection",
	Run:   staleReply,
}, CMStale02)

func staleReply(t *validate.T) {
	g := newRig(t)
	old := g.open()
	g.sync("on the way to Established")
	k := g.connect()
	k.rep.LocalCommID, k.theirs = old.theirs, old.theirs
	g.send(k.tid, k.rep)
	kit.WantExactly(t, g.await(k), "cm.Service.StartConnect with a REP with the ID of another connection",
		ci.RemoteError)
	list := g.sync("after a REP with the ID of another connection")
	kit.Equal(t, "messages after a REP with the ID of another connection", texts(list),
		"REJ of REP, "+mad.RejDuplicateCommID.String())
	g.checkIDs(k, list[0], k.tid)
	inState(t, old, cm.StateEstablished, "of a connection whose ID another REP has")
	k = g.connect()
	k.rep.LocalQPN = old.rep.LocalQPN
	g.send(k.tid, k.rep)
	kit.WantExactly(t, g.await(k), "cm.Service.StartConnect with a REP with the QP of another connection",
		ci.RemoteError)
	list = g.sync("after a REP with the QP of another connection")
	kit.Equal(t, "messages after a REP with the QP of another connection", texts(list),
		"REJ of REP, stale connection; DREQ")
	g.checkIDs(k, list[0], k.tid)
	g.checkIDs(old, list[1], 0)
	inState(t, old, cm.StateDREQSent, "of a connection whose QP another REP has")
	// With an ID and a QP of its own, and with those of another adapter, a REP is valid.
	k = g.connect()
	k.rep.LocalCommID, k.theirs = old.theirs, old.theirs
	k.rep.LocalQPN, k.rep.LocalCAGUID = old.rep.LocalQPN, k.rep.LocalCAGUID^1
	g.send(k.tid, k.rep)
	kit.OK(t, g.await(k), "cm.Service.StartConnect with a REP of another adapter")
}

var CMStale03 = stales.Must("CM-Stale-03", "IBTA 12.6.7.2", "cm, Conn",
	"A REJ, timeout, with the CA GUID of a peer that does not have our communication ID ends a connection that is not "+
		"established. Without the right GUID and ID, or from another port, it has no effect.")

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.timeout",
	Title: "REJs, timeout, of a peer without our communication ID",
	Run:   staleTimeout,
}, CMStale03)

func staleTimeout(t *validate.T) {
	g := newRig(t)
	third := g.third()
	for _, p := range passivePlaces[:5] {
		k := p.reach(g)
		g.sync("on the way to state " + p.name)
		rej := func(change func(*mad.REJ)) *mad.REJ {
			j := &mad.REJ{LocalCommID: k.theirs, Message: mad.WhichREQ, Reason: mad.RejTimeout}
			kit.OK(t, j.SetAdditionalInfo(binary.BigEndian.AppendUint64(nil, k.req.LocalCAGUID)),
				"mad.REJ.SetAdditionalInfo")
			if change != nil {
				change(j)
			}
			return j
		}
		for _, v := range kit.Variants(t, "", []struct {
			name   string
			change func(*mad.REJ)
		}{
			{"another GUID", func(j *mad.REJ) { j.Info[7] ^= 1 }},
			{"a GUID of 7 bytes", func(j *mad.REJ) { j.InfoLength = 7 }},
			{"another reason", func(j *mad.REJ) { j.Reason = mad.RejConsumer }},
			{"another ID", func(j *mad.REJ) { j.LocalCommID ^= 1 }},
		}) {
			g.send(k.tid, rej(v.change))
			kit.Equal(t, "messages after a REJ with "+v.name, texts(g.sync("after a REJ")), nothing)
			inState(t, k, p.state, "after a REJ with "+v.name)
		}
		if p.state != cm.StateEstablished {
			third.send(k.tid, rej(nil))
			g.quiet("after a REJ from another port", nil)
			inState(t, k, p.state, "after a REJ from another port")
		}
		g.send(k.tid, rej(nil))
		kit.Equal(t, "messages after a REJ", texts(g.sync("after a REJ")), nothing)
		want := cm.StateTimeWait
		if p.state == cm.StateEstablished {
			want = p.state
		}
		inState(t, k, want, "after a REJ without our ID in state "+p.name)
	}
}

var CMStale04 = stales.Must("CM-Stale-04", "CI access layer", "cm, Conn",
	"A REQ from another port than the peer's, with the communication ID or the QP of the peer, ends no connection.")

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.forged",
	Title: "REQs of the peer's ID and QP, from a third address",
	Run:   staleForged,
}, CMStale04)

func staleForged(t *validate.T) {
	g := newRig(t)
	third := g.third()
	for _, p := range passivePlaces[:5] {
		k := p.reach(g)
		g.sync("on the way to state " + p.name)
		for _, isSameID := range []bool{true, false} {
			q := third.req(service, ci.QPN(k.req.LocalQPN))
			q.LocalCAGUID = k.req.LocalCAGUID
			if isSameID {
				q.LocalCommID, q.StartingPSN = k.theirs, 8
			}
			third.send(k.tid, q)
			g.quiet("after a REQ from another port", nil)
			inState(t, k, p.state, "after a REQ from another port")
		}
	}
}

var CMStale05 = stales.Must("CM-Stale-05", "IBTA 12.6.7.2", "cm",
	"A REQ or REP of another class version is rejected with reason invalid class version and the version of the "+
		"manager. Other messages of another version have no answer.")

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.versions",
	Title: "messages of the class versions before and after that of the manager",
	Run:   staleVersions,
}, CMStale05)

func staleVersions(t *validate.T) {
	g := newRig(t)
	k := g.open()
	g.sync("on the way to Established")
	for _, version := range []uint8{mad.ClassVersionCM - 1, mad.ClassVersionCM + 1} {
		for _, kind := range reactKinds {
			msg := g.message(k, kind)
			h := mad.CMHeader(9, msg)
			h.ClassVersion = version
			g.sendHeader(h, msg)
			where := fmt.Sprintf("answers to a %s of class version %d", kind, version)
			list := g.sync(where)
			ours, _ := commIDs(msg)
			want := [2]uint32{0, k.theirs}
			switch m := msg.(type) {
			case *mad.REQ:
				kit.Equal(t, where, texts(list), "REJ of REQ, "+mad.RejClassVersion.String())
				want[1] = m.LocalCommID
			case *mad.REP:
				kit.Equal(t, where, texts(list), "REJ of REP, "+mad.RejClassVersion.String())
				want = [2]uint32{k.ours, ours}
			default:
				kit.Equal(t, where, texts(list), nothing)
				continue
			}
			rej, _ := list[0].msg.(*mad.REJ)
			kit.Equal(t, "communication IDs of "+where, [2]uint32{rej.LocalCommID, rej.RemoteCommID}, want)
			kit.Equal(t, "transaction ID of "+where, list[0].TID, 9)
			kit.SameBytes(t, "additional information of "+where, rej.AdditionalInfo(), []byte{mad.ClassVersionCM})
		}
	}
	inState(t, k, cm.StateEstablished, "after messages of other versions")
}
