package rvt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// sayAs delivers packets from an address, with the service that they have.
func (r *rawPeer) sayAs(from Addr, pkts ...Packet) {
	for i := range pkts {
		p := &pkts[i]
		p.DestQP, p.PKey, p.MigReq = r.side.qp.Num(), 0xffff, true
		p.Src, p.N, p.MTU = from, max(p.N, 1), 1024
		for _, b := range p.Payload {
			p.Len += uint32(len(b))
		}
	}
	receiverOf(r.side.hca, 0).Deliver(pkts, true, false)
}

// marked returns a SEND that the network has marked.
func marked(typ ci.QPType, k int) Packet {
	p := sendPkt(k, "x")
	p.Service, p.CE = services[typ], true
	return p
}

func cnps(pkts []Packet) (list []Packet) {
	for _, p := range pkts {
		if p.Op == wire.OpCNP {
			list = append(list, p)
		}
	}
	return list
}

// TestMarked checks that marked packets of the peer are answered with CNPs, at most one in an interval, and that the
// answer to the packets themselves stays the same. Marks of others are not answered.
func TestMarked(t *testing.T) {
	for _, typ := range []ci.QPType{ci.RC, ci.UC} {
		for _, c := range []struct {
			name     string
			interval time.Duration
			want     time.Duration // 0: none
		}{{"default", 0, DefaultCNPInterval}, {"longer", time.Millisecond, time.Millisecond}, {"off", -1, 0}} {
			t.Run(typ.String()+" "+c.name, func(t *testing.T) {
				a, r, clock := rawPair(t, &wireLink{}, typ, nil)
				if c.interval != 0 {
					a.hca.cfg.CNPInterval = c.interval
				}
				for range 5 {
					a.recv(ci.RecvWR{SGL: a.sge(0, 8)})
				}
				peer := Addr{LID: r.lid}
				before := a.hca.Counters()
				r.sayAs(Addr{LID: 99}, marked(typ, 0))
				require.Empty(t, r.take(), "of another address")
				r.sayAs(peer, marked(typ, 0), marked(typ, 1))
				got := r.take()
				require.Len(t, a.poll(), 2)
				if typ == ci.RC {
					require.Equal(t, psnAt(1), got[len(got)-1].PSN)
					require.True(t, got[len(got)-1].Syndrome.IsACK())
				}
				sent := cnps(got)
				if c.want != 0 {
					require.Len(t, sent, 1)
					p := sent[0]
					require.Equal(t, wire.Congestion, p.Service)
					require.Equal(t, ci.QPN(rawQPN), p.DestQP)
					require.Zero(t, p.PSN)
					require.False(t, p.Ack)
					require.Equal(t, make([]byte, wire.CNPLen), p.Payload[0])
					clock.Advance(c.want - 1)
					r.sayAs(peer, marked(typ, 2))
					require.Empty(t, cnps(r.take()))
					clock.Advance(1)
					r.sayAs(peer, marked(typ, 3))
					require.Len(t, cnps(r.take()), 1)
				} else {
					require.Empty(t, sent)
					clock.Advance(time.Second)
					r.sayAs(peer, marked(typ, 2), marked(typ, 3))
					require.Empty(t, cnps(r.take()))
				}
				want := map[string]uint64{"np_ecn_marked_roce_packets": 4}
				if c.want != 0 {
					want["np_cnp_sent"] = 2
				}
				require.Equal(t, want, linuxCounts(t, before, a.hca.Counters()))
				require.EqualValues(t, 4, counted(t, a).Marked)
			})
		}
	}
}

// TestNotified checks that CNPs of the peer are counted, those of others are not, and that none changes the QP.
func TestNotified(t *testing.T) {
	cnp := Packet{Service: wire.Congestion, Op: wire.OpCNP, Start: true, End: true, CE: true,
		Payload: [][]byte{make([]byte, wire.CNPLen)}}
	for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			a, r, clock := rawPair(t, &wireLink{}, typ, nil)
			before, query, timers := a.hca.Counters(), testQuery(t, a), clock.Pending()
			r.sayAs(Addr{LID: r.lid}, cnp, cnp)
			r.sayAs(Addr{LID: 99}, cnp)
			require.Empty(t, r.take())
			require.Empty(t, a.poll())
			require.Equal(t, query, testQuery(t, a))
			require.Equal(t, timers, clock.Pending())
			after := a.hca.Counters()
			if typ == ci.UD {
				require.Equal(t, map[string]uint64{"rp_cnp_ignored": 3}, linuxCounts(t, before, after))
				return
			}
			require.Equal(t, map[string]uint64{"rp_cnp_handled": 2}, linuxCounts(t, before, after))
			require.EqualValues(t, 1, after["drop_source"]-before["drop_source"])
			require.EqualValues(t, 2, counted(t, a).Notified)
		})
	}
}

func testQuery(t *testing.T, s *side) ci.QPAttr {
	t.Helper()
	q, err := s.qp.Query()
	require.NoError(t, err)
	return q
}
