package cmsuite

import (
	"fmt"
	"slices"
	"strings"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Every message in every state of a connection: what the manager sends, and the state after it.
var reactions = area()

// reactTime is the exponent of the response times of these cases, 69 s: no timer ends during a case.
const reactTime = 24

// rig has connections of the manager under test, each with a script at the other end.
type rig struct {
	*script
	y *end
	l cm.Listener
	m cm.Service
	n ci.QPN // number of connections so far
}

func newRig(t *validate.T) *rig { a, b := sides(t); return newRigOn(a, b) }

// newRigOn returns a rig whose manager is on side a.
func newRigOn(a, b *side) *rig {
	t := a.t
	y, _ := newEnds(a, b, kit.Type(ci.RC))
	m := a.manager()
	return &rig{script: newScript(t, b, a), y: y, m: m, l: listen(t, m, cm.ListenConfig{})}
}

// linked is one connection of a rig. The IDs and QP numbers are those that the script uses in its messages.
type linked struct {
	cm.Conn
	req          *mad.REQ // passive end: what the script sent; active end: what the manager sent
	rep          *mad.REP
	tid          uint64
	theirs, ours uint32
	active       bool
	outcome      chan error // of Connect
}

// tidOf returns the transaction ID of a message. DREQ and LAP begin transactions of their own.
func (k *linked) tidOf(kind string) uint64 {
	if kind == "DREQ" || kind == "LAP" {
		return k.tid ^ 0x70000
	}
	return k.tid
}

// sync returns the messages that the manager sends before it answers a DREQ for no connection. It answers messages in
// the order in which they arrive.
func (g *rig) sync(where string) []message {
	id := g.id()
	g.send(uint64(id), &mad.DREQ{LocalCommID: id, RemoteCommID: ^id, RemoteQPN: 1})
	var list []message
	for {
		m := g.recv(where)
		if d, ok := m.msg.(*mad.DREP); ok && d.RemoteCommID == id {
			return list
		}
		list = append(list, m)
	}
}

// texts describes messages.
func texts(list []message) string {
	var out []string
	for _, m := range list {
		s := describe(m.msg)
		switch m := m.msg.(type) {
		case *mad.REJ:
			s = fmt.Sprintf("REJ of %v, %v", m.Message, m.Reason)
		case *mad.MRA:
			s = fmt.Sprintf("MRA of %v", m.Message)
		}
		out = append(out, s)
	}
	if out == nil {
		return "nothing"
	}
	return strings.Join(out, "; ")
}

// request makes the script request a connection.
func (g *rig) request() *linked { return g.requestWith(nil) }

// newREQ returns a REQ of the script. Each has another QP number.
func (g *rig) newREQ() *mad.REQ {
	g.n++
	q := g.req(service, 0x400+g.n)
	q.LocalTimeout, q.RemoteTimeout, q.Primary.AckTimeout = reactTime, reactTime, 22 // 17 s of time-wait
	return q
}

// requestWith is request with a change of the REQ.
func (g *rig) requestWith(change func(*mad.REQ)) *linked {
	q := g.newREQ()
	if change != nil {
		change(q)
	}
	k := &linked{req: q, tid: 0x10000 + uint64(g.n), theirs: q.LocalCommID}
	g.send(k.tid, q)
	k.Conn = accepted(g.t, g.l)
	k.ours = k.ID()
	return k
}

// connect makes the manager request a connection. The Conn is known when the script has answered.
func (g *rig) connect() *linked { return g.connectWith(nil) }

// connectWith is connect with a change of the request.
func (g *rig) connectWith(change func(*cm.ConnectConfig)) *linked {
	g.n++
	cfg := g.y.request(g.here, nil)
	cfg.ResponseTime, cfg.RemoteResponseTime = reactTime, reactTime
	if change != nil {
		change(&cfg)
	}
	k := &linked{active: true, outcome: make(chan error, 1)}
	err := g.m.StartConnect(g.t.Context(), cfg, func(c cm.Conn, err error) { k.Conn = c; k.outcome <- err })
	kit.OK(g.t, err, "cm.Service.StartConnect")
	q, m := expect[*mad.REQ](g.script, "REQ")
	k.req, k.tid, k.ours = q, m.TID, q.LocalCommID
	k.rep = g.rep(q, 0x400+g.n)
	k.rep.TargetAckDelay = 22
	k.theirs = k.rep.LocalCommID
	return k
}

// await waits for the outcome of Connect.
func (g *rig) await(k *linked) error {
	select {
	case err := <-k.outcome:
		return err
	case <-g.t.Context().Done():
		g.t.Failf("cm.Service.StartConnect", "an outcome by the deadline", "none")
		return nil
	}
}

// replied returns a connection whose REP the script has sent.
func (g *rig) replied() *linked {
	k := g.connect()
	g.send(k.tid, k.rep)
	kit.OK(g.t, g.await(k), "cm.Service.StartConnect")
	return k
}

// message returns a message of the peer. kind is one of reactKinds.
func (g *rig) message(k *linked, kind string) mad.CMMessage {
	qpn := uint32(g.y.Num())
	switch kind {
	case "REQ":
		return k.req
	case "other REQ": // from a peer that has lost the connection
		q := g.req(service, 0x400+g.n)
		q.LocalCommID, q.StartingPSN = k.theirs, 8
		return q
	case "REP":
		if k.rep != nil && k.active {
			return k.rep
		}
		return &mad.REP{LocalCommID: k.theirs, RemoteCommID: k.ours, LocalQPN: 0x400,
			LocalCAGUID: uint64(g.here.port.CA)}
	case "RTU":
		return &mad.RTU{LocalCommID: k.theirs, RemoteCommID: k.ours}
	case "REJ":
		return &mad.REJ{LocalCommID: k.theirs, RemoteCommID: k.ours, Reason: mad.RejConsumer}
	case "MRA of REQ", "MRA of REP", "MRA of LAP":
		which := map[string]mad.CMWhich{"REQ": mad.WhichREQ, "REP": mad.WhichREP, "LAP": mad.WhichLAP}[kind[7:]]
		return &mad.MRA{LocalCommID: k.theirs, RemoteCommID: k.ours, Message: which, ServiceTimeout: reactTime}
	case "DREQ":
		return &mad.DREQ{LocalCommID: k.theirs, RemoteCommID: k.ours, RemoteQPN: qpn}
	case "DREP":
		return &mad.DREP{LocalCommID: k.theirs, RemoteCommID: k.ours}
	case "LAP": // for the path that the connection has
		path := g.req(service, 0).Primary
		return &mad.LAP{LocalCommID: k.theirs, RemoteCommID: k.ours, RemoteQPN: qpn, Alternate: path}
	case "APR":
		return &mad.APR{LocalCommID: k.theirs, RemoteCommID: k.ours}
	}
	panic("unknown kind of message " + kind)
}

var reactKinds = []string{"REQ", "other REQ", "REP", "RTU", "REJ", "MRA of REQ", "MRA of REP", "MRA of LAP", "DREQ",
	"DREP", "LAP", "APR"}

// reaction is what a message causes. A message without a reaction causes nothing.
type reaction struct {
	sends string
	state cm.State
}

// The answers to another REQ with the peer's communication ID, and to a message that only an established connection
// takes.
const (
	rejectsStale     = "REJ of REQ, stale connection"
	rejectsBothStale = rejectsStale + "; REJ of REP, stale connection"
	nothing          = "nothing"
	ownLAP           = "LAP" // stands for the answer to a LAP, which depends on the adapter
)

// reactPlace is a state and what messages cause in it.
type reactPlace struct {
	name  string
	state cm.State
	reach func(g *rig) *linked
	react map[string]reaction
}

// Ways to the states of the passive end.
func (g *rig) delayed() *linked {
	k := g.request()
	kit.OK(g.t, k.Delay(reactTime, nil), "cm.Conn.Delay")
	return k
}

func (g *rig) answered() *linked {
	k := g.request()
	kit.OK(g.t, k.StartAccept(g.t.Context(), g.y.acceptance(nil), func(error) {}), "cm.Conn.StartAccept")
	return k
}

func (g *rig) with(k *linked, kinds ...string) *linked {
	for _, kind := range kinds {
		g.send(k.tidOf(kind), g.message(k, kind))
	}
	g.sync("on the way to the state")
	return k
}

func (g *rig) do(k *linked, where string, call func() error) *linked {
	kit.OK(g.t, call(), where)
	return k
}

func (g *rig) open() *linked {
	k := g.replied()
	return g.do(k, "cm.Conn.Confirm", func() error { return k.Confirm(nil) })
}

// ended disconnects.
func (g *rig) ended(k *linked) *linked {
	return g.do(k, "cm.Conn.StartDisconnect",
		func() error { return k.StartDisconnect(g.t.Context(), nil, func([]byte, error) {}) })
}

func (g *rig) refused(k *linked) *linked {
	return g.do(k, "cm.Conn.Reject", func() error { return k.Reject(mad.RejConsumer, nil, nil) })
}

var passivePlaces = []reactPlace{
	{"REQRcvd", cm.StateREQRcvd, (*rig).request, map[string]reaction{
		"other REQ": {rejectsStale, cm.StateTimeWait}, "REJ": {nothing, cm.StateTimeWait}}},
	{"MRAREQSent", cm.StateMRAREQSent, (*rig).delayed, map[string]reaction{
		"REQ": {"MRA of REQ", cm.StateMRAREQSent}, "other REQ": {rejectsStale, cm.StateTimeWait},
		"REJ": {nothing, cm.StateTimeWait}}},
	{"REPSent", cm.StateREPSent, (*rig).answered, map[string]reaction{
		"REQ": {"REP", cm.StateREPSent}, "other REQ": {rejectsBothStale, cm.StateTimeWait},
		"RTU": {nothing, cm.StateEstablished}, "REJ": {nothing, cm.StateTimeWait},
		"MRA of REP": {nothing, cm.StateMRAREPRcvd}, "DREQ": {nothing, cm.StateDREQRcvd},
		"LAP": {ownLAP, cm.StateEstablished}}},
	{"MRAREPRcvd", cm.StateMRAREPRcvd, func(g *rig) *linked { return g.with(g.answered(), "MRA of REP") },
		map[string]reaction{
			"other REQ": {rejectsBothStale, cm.StateTimeWait}, "RTU": {nothing, cm.StateEstablished},
			"REJ": {nothing, cm.StateTimeWait}, "DREQ": {nothing, cm.StateDREQRcvd},
			"LAP": {ownLAP, cm.StateEstablished}}},
	{"Established", cm.StateEstablished, func(g *rig) *linked { return g.with(g.answered(), "RTU") },
		map[string]reaction{
			"other REQ": {rejectsStale + "; DREQ", cm.StateDREQSent}, "REJ": {nothing, cm.StateTimeWait},
			"DREQ": {nothing, cm.StateDREQRcvd}, "LAP": {ownLAP, cm.StateEstablished}}},
	{"DREQSent", cm.StateDREQSent, func(g *rig) *linked { return g.ended(g.with(g.answered(), "RTU")) },
		map[string]reaction{
			"other REQ": {rejectsStale, cm.StateDREQSent}, "REJ": {nothing, cm.StateTimeWait},
			"DREQ": {"DREP", cm.StateTimeWait}, "DREP": {nothing, cm.StateTimeWait}}},
	{"DREQRcvd", cm.StateDREQRcvd, func(g *rig) *linked { return g.with(g.answered(), "RTU", "DREQ") },
		map[string]reaction{
			"other REQ": {rejectsStale, cm.StateDREQRcvd}, "DREQ": {"DREP", cm.StateTimeWait}}},
	{"TimeWait", cm.StateTimeWait, func(g *rig) *linked { return g.with(g.answered(), "RTU", "DREQ", "DREQ") },
		map[string]reaction{
			"REQ": {rejectsStale, cm.StateTimeWait}, "other REQ": {rejectsStale, cm.StateTimeWait},
			"DREQ": {"DREP", cm.StateTimeWait}}},
	{"TimeWait after Reject", cm.StateTimeWait, func(g *rig) *linked { return g.refused(g.request()) },
		map[string]reaction{
			"REQ":       {"REJ of REQ, consumer reject", cm.StateTimeWait},
			"other REQ": {rejectsStale, cm.StateTimeWait},
			"REP":       {"REJ of REQ, consumer reject", cm.StateTimeWait},
			"RTU":       {"REJ of REQ, consumer reject", cm.StateTimeWait},
			"DREQ":      {"DREP", cm.StateTimeWait}}},
}

var activePlaces = []reactPlace{
	{"REPRcvd", cm.StateREPRcvd, (*rig).replied, map[string]reaction{
		"other REQ": {rejectsBothStale, cm.StateTimeWait}, "REJ": {nothing, cm.StateTimeWait},
		"DREQ": {nothing, cm.StateDREQRcvd}}},
	{"MRAREPSent", cm.StateMRAREPSent, func(g *rig) *linked {
		k := g.replied()
		return g.do(k, "cm.Conn.Delay", func() error { return k.Delay(reactTime, nil) })
	}, map[string]reaction{
		"other REQ": {rejectsBothStale, cm.StateTimeWait}, "REP": {"MRA of REP", cm.StateMRAREPSent},
		"REJ": {nothing, cm.StateTimeWait}, "DREQ": {nothing, cm.StateDREQRcvd}}},
	{"Established", cm.StateEstablished, (*rig).open, map[string]reaction{
		"other REQ": {rejectsStale + "; DREQ", cm.StateDREQSent}, "REP": {"RTU", cm.StateEstablished},
		"REJ": {nothing, cm.StateTimeWait}, "DREQ": {nothing, cm.StateDREQRcvd},
		"LAP": {ownLAP, cm.StateEstablished}}},
	{"DREQSent", cm.StateDREQSent, func(g *rig) *linked { return g.ended(g.open()) }, map[string]reaction{
		"other REQ": {rejectsStale, cm.StateDREQSent}, "REJ": {nothing, cm.StateTimeWait},
		"DREQ": {"DREP", cm.StateTimeWait}, "DREP": {nothing, cm.StateTimeWait}}},
	{"DREQRcvd", cm.StateDREQRcvd, func(g *rig) *linked { return g.with(g.open(), "DREQ") }, map[string]reaction{
		"other REQ": {rejectsStale, cm.StateDREQRcvd}, "DREQ": {"DREP", cm.StateTimeWait}}},
	{"TimeWait", cm.StateTimeWait, func(g *rig) *linked { return g.with(g.open(), "DREQ", "DREQ") },
		map[string]reaction{
			"other REQ": {rejectsStale, cm.StateTimeWait}, "DREQ": {"DREP", cm.StateTimeWait}}},
	{"TimeWait after Reject", cm.StateTimeWait, func(g *rig) *linked { return g.refused(g.replied()) },
		map[string]reaction{
			"other REQ": {rejectsStale, cm.StateTimeWait},
			"REP":       {"REJ of REP, consumer reject", cm.StateTimeWait},
			"RTU":       {"REJ of REP, consumer reject", cm.StateTimeWait},
			"DREQ":      {"DREP", cm.StateTimeWait}}},
}

var (
	CMReact01 = reactions.Must("CM-React-01", "IBTA 12.9.7.2", "cm, Conn",
		"In each state, the passive end answers a message as the state diagram requires, and enters the state that "+
			"follows. A message that the state ignores is not answered and has no effect.")
	CMReact02 = reactions.Must("CM-React-02", "IBTA 12.9.7.1", "cm, Conn",
		"In each state, the active end answers a message as the state diagram requires, and enters the state that "+
			"follows. A message that the state ignores is not answered and has no effect.")
	CMReact03 = reactions.Must("CM-React-03", "IBTA 12.9.7.1", "cm, Service.Connect",
		"Before the REP, the active end ignores messages that do not answer its REQ. The REP that follows completes "+
			"the connection.")
)

var _ = reactCases()

func reactCases() struct{} {
	for _, place := range passivePlaces {
		reactions.Case(place.newCase("passive"), CMReact01)
	}
	for _, place := range activePlaces {
		reactions.Case(place.newCase("active"), CMReact02)
	}
	for _, kinds := range [][]string{nil, {"MRA of REQ"}} {
		name := "REQSent"
		if kinds != nil {
			name = "REPWait"
		}
		reactions.Case(validate.Case{
			ID:    "cm.react.active." + strings.ToLower(name),
			Title: "every message to the active end in state " + name,
			Run:   func(t *validate.T) { reactBeforeREP(t, kinds) },
		}, CMReact03)
	}
	return struct{}{}
}

func (r reactPlace) newCase(end string) validate.Case {
	return validate.Case{
		ID:    "cm.react." + end + "." + strings.ToLower(strings.ReplaceAll(r.name, " ", "-")),
		Title: "every message to the " + end + " end in state " + r.name,
		Run:   func(t *validate.T) { r.run(t, end == "active") },
	}
}

func (r reactPlace) run(t *validate.T, isActive bool) { r.each(t, newRig(t), isActive) }

// each sends each message to a connection of its own.
func (r reactPlace) each(t *validate.T, g *rig, isActive bool) {
	for _, kind := range kit.Variants(t, "message", reactKinds) {
		if isActive && kind == "REQ" {
			continue // the active end has sent it
		}
		k := r.reach(g)
		g.sync("on the way to state " + r.name)
		inState(t, k, r.state, "before "+kind)
		want, ok := r.react[kind]
		if !ok {
			want = reaction{nothing, r.state}
		}
		if want.sends == ownLAP {
			want.sends = "APR, status " + g.statusOf(k).String()
		}
		tid := k.tidOf(kind)
		g.send(tid, g.message(k, kind))
		where := fmt.Sprintf("messages after %s in state %s", kind, r.name)
		got := g.sync(where)
		kit.Equal(t, where, texts(got), want.sends)
		for _, m := range got {
			g.checkIDs(k, m, tid)
		}
		inState(t, k, want.state, fmt.Sprintf("after %s in state %s", kind, r.name))
	}
}

// statusOf returns the status of the answer to a LAP for the path that the connection has. The active end takes none.
func (g *rig) statusOf(k *linked) mad.APRStatus {
	if k.active || !g.t.Attr().Caps.Has(ci.CapAPM) {
		return mad.APRUnsupported
	}
	return mad.APRDuplicatePath
}

// checkIDs checks the communication IDs and the transaction ID of an answer.
func (g *rig) checkIDs(k *linked, m message, tid uint64) {
	ours, theirs := commIDs(m.msg)
	where := " of the answer " + describe(m.msg)
	if j, ok := m.msg.(*mad.REJ); ok && j.Reason == mad.RejStaleConnection && j.Message == mad.WhichREQ {
		kit.Equal(g.t, "remote communication ID"+where, theirs, k.theirs) // our ID belongs to another REQ
	} else {
		kit.Equal(g.t, "communication IDs"+where, [2]uint32{ours, theirs}, [2]uint32{k.ours, k.theirs})
	}
	if _, ok := m.msg.(*mad.DREQ); !ok { // all others answer
		kit.Equal(g.t, "transaction ID"+where, m.TID, tid)
	}
}

// commIDs returns the local and the remote communication ID of a message, as its sender sees them.
func commIDs(m mad.CMMessage) (local, remote uint32) {
	switch m := m.(type) {
	case *mad.REP:
		return m.LocalCommID, m.RemoteCommID
	case *mad.RTU:
		return m.LocalCommID, m.RemoteCommID
	case *mad.REJ:
		return m.LocalCommID, m.RemoteCommID
	case *mad.MRA:
		return m.LocalCommID, m.RemoteCommID
	case *mad.DREQ:
		return m.LocalCommID, m.RemoteCommID
	case *mad.DREP:
		return m.LocalCommID, m.RemoteCommID
	case *mad.APR:
		return m.LocalCommID, m.RemoteCommID
	}
	return 0, 0
}

// reactBeforeREP sends each message that the active end must ignore, after those of kinds.
func reactBeforeREP(t *validate.T, kinds []string) {
	g := newRig(t)
	ignored := []string{"RTU", "MRA of REP", "MRA of LAP", "DREQ", "DREP", "LAP", "APR"}
	for _, kind := range kit.Variants(t, "message", slices.Concat(ignored, []string{"REJ"})) {
		k := g.with(g.connect(), kinds...)
		g.send(k.tid, g.message(k, kind))
		kit.Equal(t, "messages after "+kind+" before the REP", texts(g.sync("after "+kind)), nothing)
		g.send(k.tid, k.rep)
		err := g.await(k)
		if kind == "REJ" {
			kit.True(t, err != nil, "cm.Service.StartConnect after a REJ", "an error", "none")
			kit.Equal(t, "messages after a late REP", texts(g.sync("after a REP")),
				"REJ of REP, invalid communication ID")
			continue
		}
		kit.OK(t, err, "cm.Service.StartConnect after "+kind)
		inState(t, k, cm.StateREPRcvd, "after the REP")
		kit.Equal(t, "reply", *k.Reply(), *k.rep)
	}
}
