package mads_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/mad"
	"ciddk/rvt"
)

// hostile is a host without MAD services that sends arbitrary bytes from its QP0 and QP1.
type hostile struct {
	qp [2]*accesslayer.QP
	cq *accesslayer.CQ
	av *accesslayer.AV
}

func newHostile(t testing.TB, l *direct.Link, to *node) *hostile {
	hca := must(reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(direct.New(l, direct.Config{}))}}))
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	t.Cleanup(func() {
		assert.NoError(t, al.Close())
		assert.NoError(t, hca.Close())
	})
	require.NoError(t, al.Register(hca))
	pd := must(must(must(al.Open(accesslayer.ClientConfig{})).OpenCA(hca.Info().GUID, nil)).NewPD(ci.PDSpecial))
	h := &hostile{cq: must(pd.NewCQ(ci.CQCreate{Size: 64}, accesslayer.CQHandler{})),
		av: must(pd.NewAV(ci.AVAttr{Port: 1, DLID: to.attr().LID}))}
	for i, typ := range []ci.QPType{ci.QP0, ci.QP1} {
		h.qp[i] = must(pd.NewSpecialQP(1, ci.QPCreate{Type: typ, SendCQ: h.cq, RecvCQ: h.cq,
			QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 1, MaxInline: 512}}, nil))
		require.NoError(t, h.qp[i].InitDatagram(1, 0, 0))
	}
	return h
}

// send sends at most 512 bytes.
func (h *hostile) send(t testing.TB, qp int, b []byte) {
	_, err := h.qp[qp].PostSend([]ci.SendWR{{Op: ci.OpSend, Flags: ci.SendSignaled, Inline: b[:min(len(b), 512)],
		To: ci.Dest{AV: h.av, QPN: ci.QPN(qp), QKey: ci.QKey(mad.QKeyGSI)}}})
	require.NoError(t, err)
	var wc [1]ci.WC
	_, err = h.cq.Wait(t.Context(), wc[:])
	require.NoError(t, err)
	require.Equal(t, ci.WCSuccess, wc[0].Status)
}

// startLoad creates an agent of every kind, and starts requests.
func startLoad(t *testing.T, n *node, peer mads.Address) {
	longEcho(t, n, func(r *mads.Received) int { return min(len(r.MAD), 5000) })
	n.agent(mads.AgentConfig{Class: mad.ClassCM, Version: 2, Methods: []mad.Method{mad.Send}})
	client, requester := longAgent(n, "client", nil, nil), n.agent(mads.AgentConfig{})
	for i := range uint64(3) {
		go func() {
			_, _ = client.Do(t.Context(), &mads.Message{To: peer, MAD: message(mad.Get, i, 3000), Timeout: time.Second})
		}()
		go func() {
			_, _ = client.Do(t.Context(), &mads.Message{To: peer, MAD: message(mad.Set, i, 216)[:256],
				Timeout: time.Second})
		}()
		go func() {
			_, _ = requester.Do(t.Context(), &mads.Message{To: peer, MAD: request(vendor, 1, mad.Get, i),
				Timeout: 10 * time.Second})
		}()
	}
	echo(t, n)
	synctest.Wait()
}

// checkHealthy checks that requests are answered, and that no state is left at the end.
func checkHealthy(t *testing.T, n *node) {
	synctest.Wait()
	r, err := n.agent(mads.AgentConfig{}).Do(t.Context(), &mads.Message{To: n.address(),
		MAD: request(vendor, 1, mad.Get, 1), Retries: 3})
	require.NoError(t, err)
	require.Equal(t, uint64(1), r.Header().TID)
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	require.Empty(t, n.m.Held(n.port()))
}

// FuzzReceive sends datagrams of arbitrary bytes to the services. Each record of the input is a byte that selects the
// QP (bit 0) and the delay in seconds (the other bits), a length, and the datagram.
func FuzzReceive(f *testing.F) {
	record := func(qp, seconds byte, b []byte) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{seconds<<1 | qp}, uint16(len(b))), b...)
	}
	rmpp := func(m mad.Method, tid uint64, r mad.RMPP) []byte {
		b := message(m, tid, perSegment)
		r.Version, r.Flags = 1, r.Flags|mad.RMPPActive
		r.Put(b[mad.HeaderLen:])
		return record(1, 0, b)
	}
	data := func(tid uint64, n uint32, flags mad.RMPPFlags, length uint32) []byte {
		return rmpp(mad.Set, tid, mad.RMPP{Type: mad.RMPPData, Flags: flags, Data1: n, Data2: length})
	}
	f.Add([]byte{})
	f.Add(record(1, 0, request(vendor, 1, mad.Get, 1)))
	f.Add(record(1, 0, request(vendor, 1, mad.GetResp, 2<<32|1)))
	f.Add(record(0, 0, request(mad.ClassSubnetDirected, 1, mad.Get, 1)))
	f.Add(record(0, 0, request(mad.ClassSubnetLID, 1, mad.Set, 1)))
	f.Add(record(1, 3, []byte("short")))
	f.Add(bytes.Join([][]byte{data(1, 1, mad.RMPPFirst, 660), data(1, 3, mad.RMPPLast, 220), data(1, 2, 0, 0)}, nil))
	f.Add(bytes.Join([][]byte{data(1, 1, mad.RMPPFirst|mad.RMPPLast, 220), rmpp(mad.GetResp^mad.ResponseMask, 1,
		ack(1, 100)), rmpp(mad.Get, 1, ack(5, 100))}, nil))
	for tid := uint64(1); tid < 4; tid++ {
		f.Add(bytes.Join([][]byte{rmpp(mad.GetResp, 1<<32|tid, ack(1, 9)), rmpp(mad.GetResp, 1<<32|tid, ack(9, 9)),
			rmpp(mad.GetResp, 1<<32|tid, abort(mad.RMPPAbort, 120))}, nil))
		f.Add(rmpp(mad.GetResp, 1<<32|tid, mad.RMPP{Type: mad.RMPPData, Flags: mad.RMPPFirst, Data1: 1, Data2: 4000}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		synctest.Test(t, func(t *testing.T) {
			l := direct.NewLink()
			n := newNode(t, nodeConfig{mads: mads.Config{FirstAgent: 1, MaxTransfers: 8, RecvDepth: 64}},
				testenv.Must(direct.New(l, direct.Config{})))
			h := newHostile(t, l, n)
			startLoad(t, n, mads.Address{QPN: 1, AV: ci.AVAttr{DLID: n.attr().LID + 1}})
			for range 64 {
				if len(in) < 3 {
					break
				}
				how, size := in[0], int(binary.BigEndian.Uint16(in[1:]))
				in = in[3:]
				b := in[:min(size, len(in))]
				in = in[len(b):]
				if how > 1 {
					time.Sleep(time.Duration(how>>1) * time.Second)
				}
				h.send(t, int(how&1), b)
				synctest.Wait()
			}
			checkHealthy(t, n)
		})
	})
}

// Floods of every kind hold a bounded amount of state, which is released after they end.
func TestFloods(t *testing.T) {
	for name, next := range map[string]func(i int, r *rand.Rand) []byte{
		"unclaimed requests": func(i int, _ *rand.Rand) []byte { return request(vendor+1, 1, mad.Get, uint64(i)) },
		"REQs without a reader": func(i int, _ *rand.Rand) []byte {
			b := request(mad.ClassCM, 2, mad.Send, uint64(i))
			b[17] = byte(mad.AttrREQ)
			return b
		},
		"responses to nothing": func(i int, r *rand.Rand) []byte { return request(vendor, 1, mad.GetResp, r.Uint64()) },
		"beginnings of long messages": func(i int, _ *rand.Rand) []byte {
			b := message(mad.Set, uint64(i), perSegment)
			(&mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPActive | mad.RMPPFirst, Data1: 1,
				Data2: 1 << 20}).Put(b[mad.HeaderLen:])
			return b
		},
		"short long messages": func(i int, _ *rand.Rand) []byte {
			b := message(mad.Set, uint64(i), perSegment)
			(&mad.RMPP{Version: 1, Type: mad.RMPPData, Flags: mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast, Data1: 1,
				Data2: 220}).Put(b[mad.HeaderLen:])
			return b
		},
		"noise": func(_ int, r *rand.Rand) []byte {
			b := make([]byte, mad.Size)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			b[0], b[1], b[2] = 1, byte(long), 1
			b[24], b[25] = 1, byte(r.Uint32N(6))
			b[3] &= 0x83
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := direct.NewLink()
				n := newNode(t, nodeConfig{mads: mads.Config{FirstAgent: 1}},
					testenv.Must(direct.New(l, direct.Config{})))
				h := newHostile(t, l, n)
				startLoad(t, n, mads.Address{QPN: 1, AV: ci.AVAttr{DLID: n.attr().LID + 1}})
				r := rand.New(rand.NewPCG(1, 2))
				for i := range 5000 {
					h.send(t, 1, next(i, r))
					if i%1000 == 999 {
						synctest.Wait()
						held := n.m.Held(n.port())
						assert.LessOrEqual(t, held["transfers of peers"], 64, "a peer's share")
						assert.LessOrEqual(t, held["transfers remembered"], 1024)
						assert.LessOrEqual(t, held["transfers out"], 256)
						assert.LessOrEqual(t, held["bytes in"], 1<<20)
						assert.LessOrEqual(t, held["bytes out"], 1<<22)
						assert.LessOrEqual(t, held["queued"], 4096+1024)
					}
				}
				checkHealthy(t, n)
			})
		})
	}
}

// Address vectors of many peers are kept up to the limit. Those in use beyond the limit are destroyed when they are
// released.
func TestVectorCache(t *testing.T) {
	bubble(t, nodeConfig{mads: mads.Config{AVs: 8}}, nodeConfig{}, func(t *testing.T, a, b *node) {
		client := a.agent(mads.AgentConfig{})
		for i := range 100 {
			to := b.address()
			to.AV.DLID += ci.LID(i)
			require.NoError(t, client.Send(&mads.Message{To: to, MAD: request(vendor, 1, mad.Send, 1)}))
		}
		synctest.Wait()
		assert.Equal(t, 8, a.m.Vectors(a.port()))
		assert.Less(t, a.hca.Live()["AV"], 10, "%v", a.hca.Live())
		require.NoError(t, a.hca.SetLink(1, false))
		synctest.Wait()
		assert.Equal(t, 0, a.m.Vectors(a.port()), "the vectors may refer to other addresses")
		assert.Empty(t, a.m.Held(a.port()))
	})
}
