package rvt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// TestSelf connects a QP to itself. Everything that it sends arrives while its token is held.
func TestSelf(t *testing.T) {
	for _, k := range linkKinds {
		for _, typ := range []ci.QPType{ci.RC, ci.UC, ci.UD} {
			t.Run(fmt.Sprint(k.name, typ), func(t *testing.T) {
				s := newSide(t, &wireLink{mtu: ci.MTU4096, hints: k.hints}, 0xa, nil, typ, nil)
				s.connect(s, nil)
				rng := rand.New(rand.NewPCG(1, 1))
				for _, size := range []int{0, 1, 1024, 4096, 100001} {
					off := 0
					if typ == ci.UD {
						off = grhSize
						size = min(size, 4096)
					}
					fillRandom(rng, s.buf[:size])
					s.recv(ci.RecvWR{ID: 1, SGL: s.sge(200000, size+off)})
					s.send(ci.SendWR{ID: 2, Flags: ci.SendSignaled, SGL: s.sge(0, size), To: s.dest(s, 0x1234)})
					s.clock.(*fakeClock).Advance(time.Millisecond) // for UC, whose bursts are bounded
					var got, sent ci.WC
					for _, wc := range s.poll() {
						if wc.Op.IsRecv() {
							got = wc
						} else {
							sent = wc
						}
					}
					require.EqualValues(t, 1, got.ID)
					require.EqualValues(t, 2, sent.ID)
					require.EqualValues(t, size+off, got.Length)
					require.True(t, bytes.Equal(s.buf[:size], s.buf[200000+off:200000+off+size]))
					if typ != ci.RC {
						continue
					}
					s.send(ci.SendWR{ID: 3, Op: ci.OpRead, Flags: ci.SendSignaled, SGL: s.sge(400000, size),
						Remote: s.mr.Region().Remote(0)})
					require.Equal(t, ci.WCSuccess, s.onlyWC().Status)
					require.True(t, bytes.Equal(s.buf[:size], s.buf[400000:400000+size]))
				}
			})
		}
	}
}

// TestLoopback connects two QPs of one HCA at one port, and posts to both in turn.
func TestLoopback(t *testing.T) {
	for _, k := range linkKinds {
		t.Run(k.name, func(t *testing.T) {
			a := newSide(t, &wireLink{mtu: ci.MTU4096, hints: k.hints}, 0xa, nil, ci.RC, nil)
			b := *a
			var err error
			b.cq, err = a.pd.CreateCQ(ci.CQCreate{Size: 4096})
			require.NoError(t, err)
			b.qp, err = a.pd.CreateQP(ci.QPCreate{SendCQ: b.cq, RecvCQ: b.cq, QPCaps: ci.QPCaps{SendDepth: 256,
				RecvDepth: 256, SendSGE: 1, RecvSGE: 1}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, b.qp.Destroy()); require.NoError(t, b.cq.Destroy()) })
			a.connect(&b, nil)
			b.connect(a, nil)
			for i := range 200 {
				for _, d := range [][2]*side{{a, &b}, {&b, a}} {
					d[1].recv(ci.RecvWR{ID: uint64(i), SGL: d[1].sge(300000, 5000)})
					d[0].buf[0] = byte(i)
					d[0].send(ci.SendWR{ID: uint64(i), Flags: ci.SendSignaled, SGL: d[0].sge(0, 5000)})
					require.EqualValues(t, i, d[1].onlyWC().ID)
					require.Equal(t, ci.WC{ID: uint64(i), Op: ci.WCSend, Length: 5000, QPN: d[0].qp.Num()},
						d[0].onlyWC())
					require.Equal(t, byte(i), d[1].buf[300000])
				}
			}
		})
	}
}
