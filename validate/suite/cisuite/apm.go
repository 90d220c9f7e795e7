package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// apmCases are the cases of automatic path migration. (IBTA 10.4, 17.2.8.)
var apmCases = &validate.Area{Feature: validate.FeatureAPM, Needs: validate.Needs{Caps: ci.CapAPM}}

// alternate returns the alternate path of an end. It uses the second port if both adapters have one, otherwise the
// first. Its ACK timeout differs from that of the primary path.
func alternate(e, peer *kit.End) ci.Path {
	return ci.Path{AV: e.QP.CA.AddressOf(peer.QP.CA), AckTimeout: e.Config.AckTimeout + 1}
}

// rearm loads the alternate path and requests Rearm at both ends.
func rearm(t *validate.T, p *kit.Pair) {
	rearmTo(t, p.A, alternate(p.A, p.B))
	rearmTo(t, p.B, alternate(p.B, p.A))
}

func rearmTo(t *validate.T, e *kit.End, to ci.Path) {
	a := ci.QPAttr{Alternate: to, APM: ci.APMRearm}
	kit.OK(t, e.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, a), "QP.Modify of the alternate path, with Rearm")
}

func apmOf(t *validate.T, e *kit.End) ci.QPAttr {
	a, err := e.Query()
	kit.OK(t, err, "QP.Query")
	return a
}

// armed rearms both ends and sends messages until both are Armed.
func armed(t *validate.T, p *kit.Pair) {
	rearm(t, p)
	arm(t, p)
}

// arm sends messages between two rearmed ends until both are Armed.
func arm(t *validate.T, p *kit.Pair) {
	for range 4 {
		p.A.Exchange(p.B, 100)
		p.B.Exchange(p.A, 100)
		if apmOf(t, p.A).APM == ci.APMArmed && apmOf(t, p.B).APM == ci.APMArmed {
			return
		}
	}
	t.Fail(validate.Failure{Where: "QPAttr.APM after four messages in each direction",
		Expected: "Armed (3) at both ends",
		Got:      fmt.Sprintf("%d and %d", apmOf(t, p.A).APM, apmOf(t, p.B).APM)})
}

func migrate(t *validate.T, e *kit.End) {
	kit.OK(t, e.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated}), "QP.Modify of an armed QP to Migrated")
}

var _ = apmCases.Add("apm.arm", "rearm both ends", func(t *validate.T) {
	p := kit.RC(t)
	rearm(t, p)
	for _, e := range []*kit.End{p.A, p.B} {
		kit.True(t, apmOf(t, e).APM == ci.APMRearm || apmOf(t, e).APM == ci.APMArmed, "QPAttr.APM after Rearm",
			"Rearm (2)", "%d", apmOf(t, e).APM)
	}
	for range 4 {
		p.A.Exchange(p.B, 100)
		p.B.Exchange(p.A, 100)
	}
	kit.Equal(t, "QPAttr.APM of one end after messages in both directions", apmOf(t, p.A).APM, ci.APMArmed)
	kit.Equal(t, "QPAttr.APM of the other end", apmOf(t, p.B).APM, ci.APMArmed)
	p.A.Events.Only()
	p.B.Events.Only()
}, apmCases.Must("CI-APM-01", "IBTA 10.4.1", "ci_modify_qp (25)",
	"A connection that is rearmed at both ends with an alternate path becomes Armed after packets have passed in "+
		"both directions."))

var ciAPM02 = apmCases.Must("CI-APM-02", "IBTA 10.4.1", "ci_modify_qp (25)",
	"An armed QP that is modified to Migrated uses its alternate path, which becomes the primary one. Traffic "+
		"continues.")

var _ = apmCases.Add("apm.migrate", "one end is modified to Migrated", apmMigrate, ciAPM02)

func apmMigrate(t *validate.T) {
	p := kit.RC(t)
	armed(t, p)
	want := apmOf(t, p.A).Alternate
	migrate(t, p.A)
	a := apmOf(t, p.A)
	kit.Equal(t, "QPAttr.APM after QP.Modify to Migrated", a.APM, ci.APMMigrated)
	kit.Equal(t, "QPAttr.Primary after the migration: AV", a.Primary.AV, want.AV)
	kit.Equal(t, "QPAttr.Primary after the migration: AckTimeout", a.Primary.AckTimeout, want.AckTimeout)
	p.A.WantState(ci.QPRTS)
	for range 3 {
		p.A.Exchange(p.B, 3000)
		p.B.Exchange(p.A, 3000)
	}
}

var _ = apmCases.Add("apm.events", "events at both ends", func(t *validate.T) {
	p := kit.RC(t)
	armed(t, p)
	migrate(t, p.A)
	e := p.A.Events.Wait(ci.EventQPAPM)
	kit.True(t, e.Context == any(p.A.Events), "Event.Context", "the context of the QP's creation", "%v", e.Context)
	p.A.Exchange(p.B, 100)
	p.B.Events.Wait(ci.EventQPAPM)
	kit.Equal(t, "QPAttr.APM of the peer after a message from the migrated QP", apmOf(t, p.B).APM, ci.APMMigrated)
	p.B.Exchange(p.A, 100)
	drain(t, p.A.QP) // its event is delivered after all others
	drain(t, p.B.QP)
	for _, end := range []*kit.End{p.A, p.B} {
		end.Events.Wait(ci.EventSQDrained)
		kit.Equal(t, "events path migrated", end.Events.Count(ci.EventQPAPM), 1)
		end.Events.Only(ci.EventQPAPM, ci.EventSQDrained)
	}
}, apmCases.Must("CI-APM-03", "IBTA 10.4.1", "ci_modify_qp (25)",
	"The peer of a migrated QP migrates at the next packet, and each end raises the event path migrated once."))

var _ = apmCases.Add("apm.illegal", "states that cannot be requested", func(t *validate.T) {
	p := kit.RC(t)
	refused := func(what string, want ci.APMState, set ci.QPField, a ci.QPAttr) {
		before := plain(apmOf(t, p.A))
		kit.WantExactly(t, p.A.Modify(set, a), "QP.Modify to "+what, ci.InvalidAPMState)
		kit.Equal(t, "QPAttr after the rejected QP.Modify to "+what, plain(apmOf(t, p.A)), before)
		kit.Equal(t, "QPAttr.APM", before.APM, want)
	}
	refused("Rearm without an alternate path", ci.APMMigrated, ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm})
	refused("Migrated, the current state", ci.APMMigrated, ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated})
	refused("Armed, which only the adapter may set", ci.APMMigrated, ci.QPFieldAPM|ci.QPFieldAlternate,
		ci.QPAttr{APM: ci.APMArmed, Alternate: alternate(p.A, p.B)})
	refused("a state that does not exist", ci.APMMigrated, ci.QPFieldAPM, ci.QPAttr{APM: 9})
	kit.OK(t, p.A.Modify(ci.QPFieldAlternate|ci.QPFieldAPM,
		ci.QPAttr{APM: ci.APMRearm, Alternate: alternate(p.A, p.B)}), "QP.Modify to Rearm")
	refused("Migrated before the QP is Armed", ci.APMRearm, ci.QPFieldAPM, ci.QPAttr{APM: ci.APMMigrated})
	rearmTo(t, p.B, alternate(p.B, p.A))
	arm(t, p)
	refused("Rearm of an armed QP", ci.APMArmed, ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm})
	refused("Rearm of an armed QP, with another alternate path", ci.APMArmed, ci.QPFieldAPM|ci.QPFieldAlternate,
		ci.QPAttr{APM: ci.APMRearm, Alternate: alternate(p.A, p.B)})
	p.A.Exchange(p.B, 100)
}, apmCases.Must("CI-APM-04", "IBTA 10.4.1", "ci_modify_qp (25)",
	"A request for a migration state that the current state does not permit, or that cannot be requested, fails "+
		"with InvalidAPMState and changes nothing."))

var _ = apmCases.Add("apm.path", "alternate paths that do not exist", func(t *validate.T) {
	p := kit.RC(t)
	for _, x := range kit.Variants(t, "", []struct {
		what   string
		change func(*ci.Path)
		want   []ci.Status
	}{
		{"port 0", func(a *ci.Path) { a.AV.Port = 0 }, []ci.Status{ci.InvalidPort}},
		{"port n+1", func(a *ci.Path) { a.AV.Port = uint8(len(p.A.QP.CA.Attr.Ports) + 1) },
			[]ci.Status{ci.InvalidPort}},
		{"a P_Key index beyond the table", func(a *ci.Path) { a.PKeyIndex = uint16(len(p.A.QP.CA.Port.PKeys)) },
			[]ci.Status{ci.InvalidPKey}},
		{"ACK timeout 32", func(a *ci.Path) { a.AckTimeout = 32 }, []ci.Status{ci.InvalidParameter}},
		{"a GID index beyond the table", func(a *ci.Path) { a.AV.Global, a.AV.GRH.SGIDIndex = true, 255 },
			[]ci.Status{ci.InvalidParameter}},
	}) {
		before := plain(apmOf(t, p.A))
		alt := alternate(p.A, p.B)
		x.change(&alt)
		kit.Want(t, p.A.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{Alternate: alt, APM: ci.APMRearm}),
			"QP.Modify of an alternate path with "+x.what, x.want...)
		kit.Equal(t, "QPAttr after the rejected QP.Modify with "+x.what, plain(apmOf(t, p.A)), before)
	}
	ports := p.A.QP.CA.Attr.Ports
	for i := range ports {
		port := &ports[i]
		if port.State == ci.PortActive && port.Link == p.A.QP.CA.Port.Link && port.MTU < p.A.Config.MTU {
			other := *p.A.QP.CA
			other.Port = port
			before := plain(apmOf(t, p.A))
			kit.WantExactly(t, p.A.Modify(ci.QPFieldAlternate|ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm,
				Alternate: ci.Path{AV: other.AddressOf(&other), AckTimeout: p.A.Config.AckTimeout}}),
				"QP.Modify of an alternate path by a port with a smaller MTU than the QP's", ci.InvalidParameter)
			kit.Equal(t, "QPAttr after the rejected QP.Modify", plain(apmOf(t, p.A)), before)
		}
	}
}, apmCases.Must("CI-APM-05", "IBTA 11.2.5.2", "ci_modify_qp (25)",
	"An alternate path with a port or P_Key index that does not exist fails with InvalidPort or InvalidPKey and "+
		"changes nothing."))

var ciAPM06 = apmCases.Must("CI-APM-06", "IBTA 10.4.1", "ci_query_qp (27)",
	"A new QP is Migrated. Query returns the migration state and the alternate path.")

var _ = apmCases.Add("apm.query", "results of Query", func(t *validate.T) {
	p := kit.RC(t)
	kit.Equal(t, "QPAttr.APM of a new connection", apmOf(t, p.A).APM, ci.APMMigrated)
	alt := alternate(p.A, p.B)
	kit.OK(t, p.A.Modify(ci.QPFieldAlternate, ci.QPAttr{Alternate: alt}), "QP.Modify of the alternate path")
	a := apmOf(t, p.A)
	kit.Equal(t, "QPAttr.Alternate", a.Alternate, alt)
	kit.Equal(t, "QPAttr.APM with an alternate path loaded", a.APM, ci.APMMigrated)
	kit.OK(t, p.A.Modify(ci.QPFieldAPM, ci.QPAttr{APM: ci.APMRearm}), "QP.Modify to Rearm")
	kit.Equal(t, "QPAttr.APM after Rearm", apmOf(t, p.A).APM, ci.APMRearm)
}, ciAPM06)

var _ = apmCases.Add("apm.again", "migrate three times", func(t *validate.T) {
	p := kit.RC(t)
	for i := range 3 {
		armed(t, p)
		from, to := p.A, p.B
		if i%2 == 1 {
			from, to = to, from
		}
		migrate(t, from)
		from.Events.Wait(ci.EventQPAPM)
		from.Exchange(to, 200)
		to.Events.Wait(ci.EventQPAPM)
		to.Exchange(from, 200)
	}
}, apmCases.Must("CI-APM-07", "IBTA 10.4.1", "ci_modify_qp (25)",
	"A connection that has migrated can be rearmed and can migrate again."), ciAPM02)

// The case loads an alternate path at B that leads back to B itself. A migrates on a valid path, and B must not
// migrate.
var _ = apmCases.Needing(validate.Needs{Caps: ci.CapAPM, HCAs: 2}).Add("apm.refused",
	"the peer migrates to a path other than the loaded one", func(t *validate.T) {
		p := kit.RC(t)
		rearmTo(t, p.A, alternate(p.A, p.B))
		rearmTo(t, p.B, alternate(p.B, p.B))
		arm(t, p)
		before := plain(apmOf(t, p.B))
		migrate(t, p.A)
		p.A.Events.Wait(ci.EventQPAPM)
		p.B.Recv(p.B.RecvWR(1, 0, 100))
		p.A.Send(p.A.SendWR(1, 0, 100))
		e := p.B.Events.Wait(ci.EventQPAPMError)
		kit.True(t, e.Context == any(p.B.Events), "Event.Context", "the context of the QP's creation", "%v", e.Context)
		a := plain(apmOf(t, p.B))
		kit.Equal(t, "QPAttr.APM of the end that must not migrate", a.APM, ci.APMArmed)
		kit.Equal(t, "QPAttr.Primary of that end", a.Primary, before.Primary)
		kit.Equal(t, "events path migrated at that end", p.B.Events.Count(ci.EventQPAPM), 0)
	}, apmCases.Must("CI-APM-08", "IBTA 11.6.3", "event QP_APM_ERROR (18)",
		"A migration request on a path other than the loaded alternate path is ignored and raises the event path "+
			"migration error."))

var _ = apmCases.Needing(validate.Needs{Caps: ci.CapAPM, Impair: true}).Add("apm.automatic",
	"the primary path fails", apmAutomatic,
	apmCases.Must("CI-APM-09", "IBTA 17.2.8", "retry",
		"An armed QP that has used up its retries on the primary path does not fail. It migrates by itself, raises "+
			"the event path migrated, and continues on the alternate path."))

// apmAutomatic cuts the link until the sender has migrated by itself. The alternate path has a longer timeout, so that
// the link is restored long before the retries on that path are used up.
func apmAutomatic(t *validate.T) {
	p := kit.RC(t, kit.AckTime(14), kit.Retry(3)) // 67 ms, at most four transmissions
	longer := func(e, peer *kit.End) ci.Path {
		a := alternate(e, peer)
		a.AckTimeout = e.Config.AckTimeout + 4 // 1 s
		return a
	}
	want := longer(p.A, p.B)
	rearmTo(t, p.A, want)
	rearmTo(t, p.B, longer(p.B, p.A))
	arm(t, p)
	t.Impair(validate.Impairment{Cut: true})
	kit.Random(t, p.A.Buf.Bytes[:3000])
	p.B.Recv(p.B.RecvWR(1, 0, 3000))
	p.A.Send(p.A.SendWR(1, 0, 3000), p.A.RDMA(ci.OpRead, 2, 8192, 3000, p.B, 0))
	p.A.Events.Wait(ci.EventQPAPM)
	p.A.WantState(ci.QPRTS)
	a := apmOf(t, p.A)
	kit.Equal(t, "QPAttr.APM after the retries are used up", a.APM, ci.APMMigrated)
	kit.Equal(t, "QPAttr.Primary.AckTimeout after the migration", a.Primary.AckTimeout, want.AckTimeout)
	p.A.CQ.Empty()
	t.Impair(validate.Impairment{})
	p.B.RecvCQ.WaitOK(1)
	p.A.CQ.WaitOK(1, 2)
	kit.SameBytes(t, "message that was sent while the primary path was cut", p.B.Buf.Bytes[:3000], p.A.Buf.Bytes[:3000])
	p.B.Events.Wait(ci.EventQPAPM)
	kit.Equal(t, "QPAttr.APM of the peer after the automatic migration", apmOf(t, p.B).APM, ci.APMMigrated)
	p.B.Exchange(p.A, 100)
	for _, end := range []*kit.End{p.A, p.B} {
		kit.Equal(t, "events path migrated", end.Events.Count(ci.EventQPAPM), 1)
		end.WantState(ci.QPRTS)
	}
}
