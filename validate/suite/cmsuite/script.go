package cmsuite

import (
	"errors"
	"fmt"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// script plays a connection manager, message by message, on the peer of the manager under test.
type script struct {
	t     *validate.T
	here  *side
	there *side
	agent mads.Agent
	to    mads.Address
	ids   uint32
}

// message is a message that the script has received.
type message struct {
	mad.Header
	msg mad.CMMessage
}

// newScript returns a script on side here that communicates with the manager of side there. It receives all CM messages
// to side here.
func newScript(t *validate.T, here, there *side) *script {
	defer t.Setup()()
	p := &script{t: t, here: here, there: there, to: here.to(there), ids: t.Rand().Uint32() | 1}
	p.agent = here.agent(mads.AgentConfig{Name: "script", Class: mad.ClassCM, Version: mad.ClassVersionCM,
		Methods: []mad.Method{mad.Send}})
	return p
}

// id returns a new communication ID.
func (p *script) id() uint32 { p.ids++; return p.ids }

// send sends a message, valid or not.
func (p *script) send(tid uint64, m mad.CMMessage) {
	h := mad.CMHeader(tid, m)
	p.sendHeader(h, m)
}

func (p *script) sendHeader(h mad.Header, m mad.CMMessage) {
	b := make([]byte, mad.Size)
	h.Put(b)
	m.Put(b[mad.HeaderLen:])
	p.sendBytes(b)
}

func (p *script) sendBytes(b []byte) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := p.agent.Send(&mads.Message{To: p.to, MAD: b})
		if !errors.Is(err, ci.InsufficientResources) || p.t.Context().Err() != nil {
			kit.OK(p.t, err, "mads.Agent.Send")
			return
		}
		<-tick.C // the queue is full, and no event reports free space
	}
}

// recv waits for the next message and checks its header and its form.
func (p *script) recv(where string) message {
	ctx, cancel := wait(p.t)
	defer cancel()
	r, err := p.agent.Recv(ctx)
	if err != nil {
		p.t.Failf(where, "a message of the connection manager", "no message: %v", err)
	}
	h, m, err := mad.ParseCM(r.MAD)
	if err == nil {
		err = m.Check()
	}
	if err != nil {
		p.t.Failf(where, "a valid message", "%v", err)
	}
	kit.True(p.t, h.Status == 0 && h.Modifier == 0, where+": header", "status and attribute modifier 0", "%#x and %#x",
		h.Status, h.Modifier)
	kit.Equal(p.t, where+": source QP", r.From.QPN, 1)
	return message{h, m}
}

// expect waits for a message of one type. It skips repeated REQs and REPs, and MRAs, unless it waits for that type.
func expect[M mad.CMMessage](p *script, where string) (M, message) {
	for {
		m := p.recv(where)
		if want, ok := m.msg.(M); ok {
			return want, m
		}
		var want M
		switch m.msg.(type) {
		case *mad.MRA, *mad.REQ, *mad.REP:
			p.t.Logf("%s: skipped a %s before the %s", where, name(m.msg), name(want))
		default:
			p.t.Failf(where, name(want), "%s", describe(m.msg))
		}
	}
}

// quiet expects no message within 20 ms, except those that pass permits.
func (p *script) quiet(where string, pass func(message) bool) {
	for end := time.Now().Add(20 * time.Millisecond); ; {
		ctx, cancel := deadline(p.t, end)
		r, err := p.agent.Recv(ctx)
		cancel()
		if err != nil {
			return
		}
		h, m, err := mad.ParseCM(r.MAD)
		kit.OK(p.t, err, where+": mad.ParseCM")
		if pass == nil || !pass(message{h, m}) {
			p.t.Failf(where, "no message", "%s", describe(m))
		}
	}
}

func name(m mad.CMMessage) string { return mad.AttributeName(mad.ClassCM, m.Attribute()) }

func describe(m mad.CMMessage) string {
	switch m := m.(type) {
	case *mad.REJ:
		return fmt.Sprintf("REJ, reason %v", m.Reason)
	case *mad.APR:
		return fmt.Sprintf("APR, status %v", m.Status)
	case *mad.SIDRREP:
		return fmt.Sprintf("SIDR_REP, status %v", m.Status)
	}
	return name(m)
}

// req returns a valid request of the script.
func (p *script) req() *mad.REQ {
	r := &mad.REQ{
		LocalCommID: p.id(), ServiceID: service, LocalCAGUID: uint64(p.here.port.CA), LocalQPN: 0x321,
		StartingPSN:   7,
		RemoteTimeout: 18, LocalTimeout: 18, RetryCount: 7, RNRRetryCount: 7, MaxCMRetries: 15,
		PKey: uint16(partition(p.here.ca.Port)), PathMTU: mad.MTU(p.here.ca.MTU()), ResponderRes: 1,
		InitiatorDepth: 1,
	}
	r.Primary = mad.CMPath{LocalLID: uint16(p.here.ca.Port.LID), RemoteLID: uint16(p.there.ca.Port.LID),
		LocalGID:  p.here.gid(p.there),
		RemoteGID: p.there.gid(p.here), HopLimit: 64, Rate: 2, SubnetLocal: true, AckTimeout: 14}
	if p.here.ca.Port.Link == ci.LinkEthernet {
		r.Primary.LocalLID, r.Primary.RemoteLID, r.Primary.SubnetLocal = 0xffff, 0xffff, false
	}
	return r
}

// rep returns the reply to a REQ of the manager under test.
func (p *script) rep(req *mad.REQ, qpn ci.QPN) *mad.REP {
	return &mad.REP{LocalCommID: p.id(), RemoteCommID: req.LocalCommID, LocalQPN: uint32(qpn), StartingPSN: 9,
		ResponderRes:   1,
		InitiatorDepth: 1, TargetAckDelay: 5, RNRRetryCount: 7, LocalCAGUID: uint64(p.here.port.CA)}
}
