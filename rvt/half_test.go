package rvt

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A halfRig has what a requester or a responder needs without a QP: an endpoint in RTS, a port that records packets, a
// CQ and memory. It is their host in place of the QP.
type halfRig struct {
	t     *testing.T
	clock *fakeClock
	h     *HCA
	pd    *PD
	e     *endpoint
	port  *recordingPort
	cq    *CQ
	buf   []byte
	mr    ci.Region

	// Calls of the half to its host.
	errors, kicks, deferred int
}

// A recordingPort records packets instead of sending them.
type recordingPort struct {
	*linkPort
	sent []Packet
}

func (p *recordingPort) Send(pkts []Packet) {
	for i := range pkts {
		c := pkts[i]
		var b []byte
		for _, s := range c.Payload {
			b = append(b, s...)
		}
		if c.Payload = nil; c.Len > 0 {
			c.Payload = [][]byte{b[:c.Len]}
		}
		p.sent = append(p.sent, c)
	}
}

const halfPSN = 0xfffffe // PSNs wrap around early

func newHalfRig(t *testing.T, service wire.Service, hints Hints) *halfRig {
	g := &halfRig{t: t, clock: newClock(), buf: make([]byte, 1<<16)}
	g.port = &recordingPort{linkPort: (&wireLink{mtu: ci.MTU1024, hints: hints}).port()}
	g.h = newHCA(Config{Info: ci.HCAInfo{GUID: 1}, Attr: ci.CAAttr{Caps: testCaps}, Rings: plainRings{}, Clock: g.clock,
		Ports: []Port{g.port}, Rand: rand.NewChaCha8([32]byte{3})})
	pd, err := (&CA{hca: g.h}).newPD("test", ci.PDNormal)
	require.NoError(t, err)
	g.pd = pd
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 64})
	require.NoError(t, err)
	g.cq = cq.(*CQ)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(g.buf), Access: allRights})
	require.NoError(t, err)
	g.mr = mr.Region()
	types := map[wire.Service]ci.QPType{wire.RC: ci.RC, wire.UC: ci.UC, wire.UD: ci.UD}
	e := &endpoint{dev: &g.h.device, pd: pd, num: 7, typ: types[service], service: service, sendCQ: g.cq, recvCQ: g.cq,
		caps: ci.QPCaps{SendDepth: 64, RecvDepth: 64, SendSGE: 4, RecvSGE: 4, MaxInline: 256}, flags: ci.QPSignalAll}
	e.sq, e.rq = &plainSend{depth: 64}, &plainRecv{depth: 64}
	e.source = e.rq
	e.port, e.route, e.peer = g.h.ports[0], &linkRoute{9}, Addr{LID: 9}
	e.home.Store(e.port)
	e.mtu, e.pkey = 1024, 0xffff
	e.attr = ci.QPAttr{DestNum: 8, APM: ci.APMMigrated, RetryCount: 2, RNRRetry: 2, MinRNRTimer: 5,
		InitDepth: 2, RespRes: 2,
		Access: ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.FlushRights, Primary: ci.Path{AckTimeout: 14}}
	e.setState(ci.QPRTS)
	g.e = e
	return g
}

func (g *halfRig) requester() *requester {
	r := &requester{endpoint: g.e, host: g, retries: g.e.attr.RetryCount, rnrRetries: g.e.attr.RNRRetry}
	r.start(halfPSN)
	return r
}

func (g *halfRig) responder() *responder {
	r := &responder{endpoint: g.e, host: g}
	r.start(halfPSN)
	return r
}

func (g *halfRig) toError(*turn) {
	g.errors++
	g.e.setState(ci.QPError)
}

func (g *halfRig) kick()     { g.kicks++ }
func (g *halfRig) deferAck() { g.deferred++ }

// run executes f as one turn.
func (g *halfRig) run(f func(t *turn)) {
	t := newTurn(g.e)
	f(t)
	t.finish()
	t.free()
}

// takeSent returns the packets sent since the last call.
func (g *halfRig) takeSent() []Packet {
	s := g.port.sent
	g.port.sent = nil
	return s
}

// oneSent returns the only packet sent since the last call.
func (g *halfRig) oneSent() Packet {
	g.t.Helper()
	s := g.takeSent()
	require.Len(g.t, s, 1)
	return s[0]
}

// poll returns the completions since the last call.
func (g *halfRig) poll() []ci.WC {
	wcs := make([]ci.WC, 64)
	return wcs[:g.cq.take(wcs)]
}

// statuses returns the statuses of the completions since the last call.
func (g *halfRig) statuses() []ci.WCStatus {
	var list []ci.WCStatus
	for _, wc := range g.poll() {
		list = append(list, wc.Status)
	}
	return list
}

// packet returns a received packet of the peer.
func (g *halfRig) packet(op wire.Op, n int) Packet {
	return Packet{Service: g.e.service, Op: op, Start: true, End: true, PKey: 0xffff, DestQP: 7, N: 1,
		MTU: g.e.mtu, Src: g.e.peer,
		PSN: psnAdd(halfPSN, uint32(n))}
}

// count returns a counter.
func (g *halfRig) count(c Counter) int { return int(g.h.count[c].Load()) }
