package rvt

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// A hostileRig is an HCA with QPs of every service in every state, and two more that must not be affected. The attacker
// knows all addresses and guesses PSNs, keys and lengths near critical values.
type hostileRig struct {
	t      testing.TB
	s      *side
	qps    []ci.QP
	srq    ci.SRQ
	extra  []ci.Object
	canary []byte
	clock  *fakeClock
	raw    *rawPeer
	victim ci.QP // an RC QP that the attacker does not know
	before ci.QPAttr
}

// A reader returns numbers from fuzz input, and zeros after its end.
type reader struct{ b []byte }

func (r *reader) u8() byte {
	if len(r.b) == 0 {
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) u64() (v uint64) {
	for range 8 {
		v = v<<8 | uint64(r.u8())
	}
	return v
}

// near returns a number close to one of several: equal and off-by-one values are likely.
func (r *reader) near(of ...uint64) uint64 {
	k := r.u8()
	if k < 16 {
		return r.u64()
	}
	return of[int(k)%len(of)] + uint64(int64(int8(r.u8()))/32)
}

func newHostileRig(t *testing.T) *hostileRig {
	l := &wireLink{mtu: ci.MTU4096}
	x := &hostileRig{t: t, clock: newClock(), canary: bytes.Repeat([]byte{0xc5}, 4096)}
	x.raw = &rawPeer{linkPort: l.port()}
	x.raw.linkPort.rx = x.raw
	x.s = newSide(t, l, 0xa, x.clock, ci.RC, nil)
	s := x.s
	x.raw.side = s
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	var err error
	x.srq, err = s.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 64, MaxSGE: 2}})
	must(err)
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD, ci.QP1} {
		for _, st := range []ci.QPState{ci.QPReset, ci.QPInit, ci.QPRTR, ci.QPRTS, ci.QPSQD, ci.QPError} {
			if typ == ci.QP1 && st != ci.QPRTS {
				continue
			}
			c := ci.QPCreate{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, QPCaps: ci.QPCaps{SendDepth: 16, RecvDepth: 16,
				SendSGE: 2, RecvSGE: 2}}
			if st == ci.QPRTR {
				c.RecvDepth, c.SRQ = 0, x.srq
			}
			var q ci.QP
			if typ == ci.QP1 {
				q, err = s.pd.CreateSpecialQP(1, c)
			} else {
				q, err = s.pd.CreateQP(c)
			}
			must(err)
			x.qps = append(x.qps, q)
			x.bring(q, typ, st)
		}
	}
	x.victim = s.qp
	a := s.attrTo(7, 77) // from an unknown address
	s.toRTS(a)
	x.before, err = x.victim.Query()
	must(err)
	copy(s.buf[0x40000:], x.canary) // outside of the region whose key the attacker knows
	mr, err := s.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(s.buf[:0x40000]), Access: allRemote})
	must(err)
	x.extra = append(x.extra, mr)
	return x
}

// bring moves a QP to a state, with work queued where that is possible.
func (x *hostileRig) bring(q ci.QP, typ ci.QPType, st ci.QPState) {
	s, real := x.s, x.s.qp
	defer func() { s.qp = real }()
	s.qp = q
	a := s.attrTo(rawQPN, x.raw.lid)
	for _, step := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
		if st != ci.QPError && st != ci.QPReset && (st >= step || st == ci.QPSQD) {
			s.step(step, a)
		}
	}
	if st == ci.QPSQD || st == ci.QPError {
		s.toState(st)
	}
	if st == ci.QPRTS {
		for i := range 8 {
			wr := ci.SendWR{ID: uint64(i), SGL: s.sge(0, 3000), Remote: ci.Remote{Addr: 1, RKey: 2}}
			if typ == ci.RC {
				wr.Op = []ci.SendOp{ci.OpSend, ci.OpRead, ci.OpWrite, ci.OpFetchAdd}[i%4]
				if wr.Op == ci.OpFetchAdd {
					wr.SGL = s.sge(0, 8)
				}
				s.send(wr)
			}
		}
	}
}

func (x *hostileRig) close() {
	for _, q := range x.qps {
		require.NoError(x.t, q.Destroy())
	}
	require.NoError(x.t, x.srq.Destroy())
	for _, o := range x.extra {
		require.NoError(x.t, o.Destroy())
	}
}

// packet makes a packet of fuzz input. Its payload has the stated length, as ports guarantee. Nothing else is
// guaranteed.
func (x *hostileRig) packet(r *reader) Packet {
	key := x.extra[0].(ci.MR).Region()
	q := x.victim // no packet of this source has an effect
	if k := int(r.u8()) % (len(x.qps) + 1); k > 0 {
		q = x.qps[k-1]
	}
	p := Packet{
		Service: wire.Service(r.u8() % 4), Op: wire.Op(r.u8() % 12), PKey: 0xffff, DestQP: q.Num(),
		SrcQP: ci.QPN(r.near(rawQPN)) & psnMask,
		QKey:  ci.QKey(r.near(0x1234, qp1QKey)), PSN: ci.PSN(r.near(uint64(psn0), uint64(psn0)+3, uint64(psn0)+8, 0,
			1<<23, uint64(psn0)+1<<23)) & psnMask,
		N: uint32(r.near(1, 1, 1, 2, 4, 0xffffffff, 1<<22)), MTU: uint32(r.near(1024, 1024, 4096, 1<<31)),
		VA: r.near(key.Addr, key.Addr+key.Length-1024, 1<<64-1024, 0), RKey: ci.Key(r.near(uint64(key.RKey))),
		DMALen: uint32(r.near(0, 1024, 2048, 3000, 1<<31, 1<<32-1)), Swap: r.u64(), Compare: r.u64(),
		Syndrome: wire.Syndrome(r.u8()),
		MSN:      uint32(r.u8()), Imm: uint32(r.u8()), Inv: ci.Key(r.near(uint64(key.RKey))),
		Src: Addr{LID: x.raw.lid}, MigReq: true,
	}
	f := r.u8()
	p.Start, p.End, p.HasImm = f&1 == 0, f&2 == 0, f&4 != 0
	p.HasInv, p.SE, p.Ack = f&8 != 0, f&16 != 0, f&32 != 0
	if p.MigReq = r.u8() > 8; !p.MigReq {
		p.PKey = ci.PKey(r.near(0xffff, 0x7fff, 0))
	}
	if q := q.(*QP); r.u8() > 40 { // most have the right service
		p.Service = q.service
	}
	n := 0
	switch k := r.u8(); {
	case k < 60:
	case k < 200:
		n = 1024 * int(1+k%4)
	default:
		n = int(k) * 16
	}
	if r.u8() > 60 && n > 0 { // a valid train
		p.MTU, p.N = 1024, uint32(n+1023)/1024
	}
	p.Len = uint32(n)
	for n > 0 { // in segments
		k := min(n, 1+int(r.u8())*8)
		p.Payload = append(p.Payload, make([]byte, k))
		n -= k
	}
	if r.u8() > 200 {
		p.GRH = make([]byte, grhSize)
	}
	return p
}

// run delivers packets made of fuzz input.
func (x *hostileRig) run(b []byte) {
	t := x.t
	r := &reader{b}
	for len(r.b) > 0 {
		p := x.packet(r)
		for _, q := range x.qps { // repost receives
			if qq := q.(*QP); qq.rq != nil && qq.current() >= ci.QPInit && qq.rq.Len() < 2 {
				_, err := q.PostRecv([]ci.RecvWR{{SGL: x.s.sge(0x20000, 5000)}})
				require.NoError(t, err)
			}
		}
		_, err := x.srq.PostRecv([]ci.RecvWR{{SGL: x.s.sge(0x20000, 5000)}})
		if err != nil {
			require.ErrorIs(t, err, ci.InsufficientResources)
		}
		was := x.drops()
		receiverOf(x.s.hca, 0).Deliver([]Packet{p}, r.u8()&1 == 0, r.u8()&1 == 0)
		var reasons, dropped uint64
		for c, n := range x.drops() {
			if d := n - was[c]; d > 0 {
				reasons++
				dropped += d
			}
		}
		packets := max(uint64(p.N), 1)
		require.LessOrEqual(t, dropped, packets, "%+v", p)
		most := uint64(1)
		if p.MTU != 1024 { // the packets of such a train are handled one by one
			most = packets
		}
		require.LessOrEqual(t, reasons, most, "one reason for one packet: %+v", p)
		x.raw.take()
		x.s.poll()
		if k := r.u8(); k > 250 {
			x.clock.Advance(time.Duration(k) * time.Millisecond)
		}
		for _, q := range x.qps { // a QP in Error is connected again
			if qq := q.(*QP); qq.current() == ci.QPError && r.u8() > 128 {
				require.NoError(t, q.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
				x.bring(q, qq.typ, ci.QPRTS)
			}
		}
	}
	receiverOf(x.s.hca, 0).FlushAcks()
	after, err := x.victim.Query()
	require.NoError(t, err)
	require.Equal(t, x.before, after)
	require.Equal(t, x.canary, x.s.buf[0x40000:0x41000])
}

// drops are the counters of packets that were dropped.
func (x *hostileRig) drops() (n [numCounters]uint64) {
	for c := DropMalformed; c <= DropBusy; c++ {
		n[c] = x.s.hca.count[c].Load()
	}
	return n
}

// FuzzDeliver delivers hostile packets.
func FuzzDeliver(f *testing.F) {
	for seed := range uint64(4) {
		b := make([]byte, 2000)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // never fails
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 20000 {
			t.Skip()
		}
		x := newHostileRig(t)
		defer x.close()
		x.run(b)
	})
}

// TestHostilePackets delivers packets made of long random input.
func TestHostilePackets(t *testing.T) {
	n := 300000
	if testing.Short() {
		n = 100000
	}
	seen := map[string]uint64{}
	for seed := range byte(4) {
		x := newHostileRig(t)
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
		x.run(b)
		for name, n := range x.s.hca.Counters() {
			seen[name] += n
		}
		x.close()
	}
	for _, c := range []Counter{DropQPState, DropService, DropPKey, DropQKey, DropMalformed, DropSource, DropSequence,
		DropDuplicate, DropStale, DropResponse, DropLength} {
		require.NotZero(t, seen[c.String()], "the attack never came to %s", c)
	}
}

// TestHostileArithmetic delivers single packets whose fields overflow when added.
func TestHostileArithmetic(t *testing.T) {
	huge := [][]byte{make([]byte, 1024)}
	tests := []struct {
		name string
		p    Packet
		want string // the counter that increases, or "" for a fatal response
	}{
		{"no packets", Packet{Op: wire.OpSend, Start: true, End: true, N: 1 << 31, Payload: huge}, "drop_malformed"},
		{"trains without payload", Packet{Op: wire.OpReadRequest, Start: true, End: true, N: 1 << 24},
			"drop_malformed"},
		{"a train too short", Packet{Op: wire.OpWrite, Start: true, N: 2, Payload: huge}, "drop_malformed"},
		{"VA at the end", Packet{Op: wire.OpWrite, Start: true, VA: 1<<64 - 1, DMALen: 1 << 31, Payload: huge}, ""},
		{"DMALen above the most", Packet{Op: wire.OpWrite, Start: true, DMALen: 1<<31 + 1, Payload: huge}, ""},
		{"READ above the most", Packet{Op: wire.OpReadRequest, Start: true, End: true, DMALen: 1<<32 - 1}, ""},
		{"READ at the end", Packet{Op: wire.OpReadRequest, Start: true, End: true, VA: 1<<64 - 8, DMALen: 16}, ""},
		{"atomic at the end", Packet{Op: wire.OpFetchAdd, Start: true, End: true, VA: 1<<64 - 8}, ""},
		{"more than DMALen", Packet{Op: wire.OpWrite, Start: true, DMALen: 1000, Payload: huge}, ""},
		{"less than DMALen", Packet{Op: wire.OpWrite, Start: true, End: true, DMALen: 2000, Payload: huge}, ""},
		{"middle without first", Packet{Op: wire.OpSend, Payload: huge}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, r, _ := rawPair(t, &wireLink{}, ci.RC, nil)
			tt.p.RKey = a.mr.Region().RKey
			if tt.p.VA == 0 {
				tt.p.VA = a.mr.Region().Addr
			}
			tt.p.PSN = psn0
			a.recv(ci.RecvWR{SGL: a.sge(0, 2000)})
			r.say(tt.p)
			if tt.want != "" {
				require.EqualValues(t, 1, a.hca.Counters()[tt.want])
				require.Equal(t, ci.QPRTS, a.state())
				require.Empty(t, r.take())
				return
			}
			require.True(t, r.one().Syndrome.IsNAK())
			require.Equal(t, ci.QPError, a.state())
			ev := (<-a.events).Type
			require.Contains(t, []ci.EventType{ci.EventWQAccessError, ci.EventWQReqError}, ev)
		})
	}
}

// TestHostileResponses checks that a response without a request, or with excess data, changes only counters.
func TestHostileResponses(t *testing.T) {
	a, r, _ := rawPair(t, &wireLink{hints: Hints{Window: 8 << 10}}, ci.RC, func(q *ci.QPAttr) { q.InitDepth = 1 })
	r.say(Packet{Op: wire.OpReadResponse, PSN: psn0, Start: true, End: true})
	r.say(ack(5), nak(0, wire.NAKRemoteAccess))
	require.EqualValues(t, 3, a.hca.Counters()["drop_stale_ack"])
	a.send(ci.SendWR{ID: 1, Op: ci.OpRead, SGL: a.sge(0, 64<<10), Flags: ci.SendSignaled})
	require.EqualValues(t, 2048, r.one().DMALen)
	// more than requested
	r.say(Packet{Op: wire.OpReadResponse, PSN: psn0, N: 3, Start: true, Payload: [][]byte{make([]byte, 3072)}})
	require.Equal(t, ci.WCBadRespErr, a.onlyWC().Status)
}
