package mads_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/impair"
	"ciddk/mad"
	"ciddk/rvt"
)

// tap records every datagram that node a sends (rvt.Sent) or receives (rvt.Received), and may drop it.
type tap struct {
	mu  sync.Mutex
	see func(d rvt.Direction, h mad.Header, p mad.RMPP) impair.Verdict
	log []string // "> DATA 1" was sent by a, "< ACK 1 65" was received
}

func (x *tap) filter(d rvt.Direction, pkt *rvt.Packet) impair.Verdict {
	b := bytes.Join(pkt.Payload, nil)
	if len(b) != mad.Size {
		return impair.Pass
	}
	var h mad.Header
	h.Parse(b)
	var p mad.RMPP
	p.Parse(b[mad.HeaderLen:])
	x.mu.Lock()
	defer x.mu.Unlock()
	arrow := ">"
	if d == rvt.Received {
		arrow = "<"
	}
	line := fmt.Sprintf("%s %v", arrow, h.Method)
	if p.Active() {
		line = fmt.Sprintf("%s %v %d %d", arrow, p.Type, p.Data1, p.Data2)
		if p.Type == mad.RMPPAbort || p.Type == mad.RMPPStop {
			line = fmt.Sprintf("%s %v %d", arrow, p.Type, p.Status)
		}
	}
	v := impair.Pass
	if x.see != nil {
		v = x.see(d, h, p)
	}
	if v == impair.Drop {
		line += " lost"
	}
	x.log = append(x.log, line)
	return v
}

func (x *tap) lines() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.log...)
}

// count returns the number of lines with a prefix.
func (x *tap) count(prefix string) (n int) {
	for _, l := range x.lines() {
		if len(l) >= len(prefix) && l[:len(prefix)] == prefix {
			n++
		}
	}
	return n
}

// tapped returns two nodes in virtual time, with a tap on a's port.
func tapped(t *testing.T, ca, cb mads.Config, f func(t *testing.T, a, b *node, x *tap)) {
	synctest.Test(t, func(t *testing.T) {
		x := &tap{}
		l := direct.NewLink()
		pa := testenv.Must(impair.New(testenv.Must(direct.New(l, direct.Config{})), impair.Config{Filter: x.filter}))
		a, b := newNode(t, nodeConfig{mads: ca}, pa), newNode(t, nodeConfig{mads: cb},
			testenv.Must(direct.New(l, direct.Config{})))
		f(t, a, b, x)
	})
}

const long = mad.Class(0x30)

var oui = [3]byte{0, 2, 0xc9}

// message returns a message of class long with n bytes of data.
func message(m mad.Method, tid uint64, n int) []byte {
	b := make([]byte, 40+n)
	h := mad.Header{BaseVersion: 1, Class: long, ClassVersion: 1, Method: m, TID: tid}
	h.Put(b)
	b[mad.HeaderLen+2] = byte(mad.RMPPActive)
	copy(b[37:], oui[:])
	r := rand.New(rand.NewPCG(0, uint64(n)))
	for i := range n {
		b[40+i] = byte(r.Uint32())
	}
	return b
}

func longAgent(n *node, name string, methods []mad.Method, f func(*mads.Received)) mads.Agent {
	return n.agent(mads.AgentConfig{Name: name, Class: long, Version: 1, OUI: oui, Methods: methods,
		RMPP: true, OnReceive: f})
}

// longEcho sends a response whose length is in the first two data bytes of the request, in segments of 216 bytes.
func longEcho(t testing.TB, n *node, size func(*mads.Received) int) mads.Agent {
	var a mads.Agent
	a = longAgent(n, "echo", []mad.Method{mad.Get, mad.Set}, func(r *mads.Received) {
		h := r.Header()
		b := message(mad.GetResp, h.TID, size(r))
		if err := a.Send(&mads.Message{To: r.From, MAD: b}); !errors.Is(err, ci.InsufficientResources) &&
			!errors.Is(err, ci.ResourceBusy) {
			assert.NoError(t, err)
		}
	})
	return a
}

const perSegment = 216

// sizes are the data lengths for a number of segments, with the last one full and not full.
func sizes(segments int) []int { return []int{segments * perSegment, (segments-1)*perSegment + 1} }

// Messages of all relevant lengths, as a request and as a response.
func TestRMPP(t *testing.T) {
	for _, segments := range []int{1, 2, 64, 65, 66, 1000} {
		for _, size := range sizes(segments) {
			t.Run(fmt.Sprintf("%d segments, %d bytes", segments, size), func(t *testing.T) {
				tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
					got := make(chan []byte, 1)
					longEcho(t, b, func(r *mads.Received) int { got <- r.MAD; return len(r.MAD) - 40 })
					client := longAgent(a, "client", nil, nil)
					m := mads.Message{To: b.address(), MAD: message(mad.Get, 0x1234, size), Timeout: 3 * time.Second}
					r, err := client.Do(t.Context(), &m)
					require.NoError(t, err)
					assert.Equal(t, m.MAD[40:], (<-got)[40:], "the request")
					assert.Equal(t, uint64(0x1234), r.Header().TID)
					assert.Equal(t, mad.GetResp, r.Header().Method)
					assert.Equal(t, m.MAD[40:], r.MAD[40:], "the answer")
					assert.Equal(t, segments, x.count("> DATA"), "nothing was sent twice")
					assert.Equal(t, segments, x.count("< DATA"))
					acks := 1 // the first one, those at the edges of the window of 64, and the last one
					if segments > 1 {
						acks += (segments - 2) / 64
						acks++
					}
					assert.Equal(t, acks, x.count("< ACK"))
					synctest.Wait()
					assert.Equal(t, acks, x.count("> ACK"))
				})
			})
		}
	}
}

// Losses in a transfer of 130 segments: which packets are lost, whether the transfer succeeds, and how long it takes.
// The edges of the window are 1, 65 and 129.
func TestRMPPLoss(t *testing.T) {
	const segments = 130
	for name, c := range map[string]struct {
		lose   func(d rvt.Direction, p mad.RMPP, nth int) bool // nth packet of this type and number, from 1
		after  time.Duration
		sent   int // minimum number of segments sent
		status ci.Status
	}{
		"first DATA": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPData &&
				p.Data1 == 1 && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"DATA in the window": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPData && p.Data1 == 30 && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"several": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPData && p.Data1%7 == 0 && n == 1
		}, after: 4 * time.Second, sent: segments + 18},
		"last DATA": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPData && p.Data1 == segments && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"first ACK": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPAck &&
				p.Data1 == 1 && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"ACK in between": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPAck &&
				p.Data1 == 65 && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"last ACK": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPAck && p.Data1 == segments && n == 1
		}, after: 2 * time.Second, sent: segments + 1},
		"one segment always": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool {
			return p.Type == mad.RMPPData &&
				p.Data1 == 100
		}, after: 10 * time.Second, sent: 100, status: ci.Timeout},
		"every ACK": {lose: func(_ rvt.Direction, p mad.RMPP, n int) bool { return p.Type == mad.RMPPAck },
			after: 8 * time.Second, sent: 4, status: ci.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			tapped(t, mads.Config{}, mads.Config{}, func(t *testing.T, a, b *node, x *tap) {
				nth := map[[2]uint32]int{}
				x.see = func(d rvt.Direction, h mad.Header, p mad.RMPP) impair.Verdict {
					k := [2]uint32{uint32(p.Type), p.Data1}
					nth[k]++
					if p.Active() && c.lose(d, p, nth[k]) {
						return impair.Drop
					}
					return impair.Pass
				}
				var server mads.Agent
				got := make(chan []byte, 10)
				server = longAgent(b, "server", []mad.Method{mad.Set}, func(r *mads.Received) {
					got <- r.MAD
					r.MAD = request(long, 1, mad.GetResp, r.Header().TID)
					copy(r.MAD[37:], oui[:])
					assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: r.MAD}))
				})
				client := longAgent(a, "client", nil, nil)
				m := mads.Message{To: b.address(), MAD: message(mad.Set, 1, segments*perSegment), Retries: 3,
					Timeout: 2 * time.Second}
				start := time.Now()
				r, err := client.Do(t.Context(), &m)
				if c.status == ci.Success && name != "last ACK" {
					require.NoError(t, err)
					assert.Len(t, r.MAD, mad.Size)
					assert.Equal(t, c.after, time.Since(start))
				} else if name == "last ACK" { // the response acknowledges as well
					require.NoError(t, err)
					assert.Zero(t, time.Since(start))
				} else {
					require.ErrorIs(t, err, c.status)
					var e *mads.RMPPError
					require.ErrorAs(t, err, &e)
					assert.Equal(t, mads.RMPPError{Status: mad.RMPPTooManyRetries}, *e)
					assert.Equal(t, c.after, time.Since(start))
					synctest.Wait()
					assert.Equal(t, 1, x.count("> ABORT 126"))
				}
				if name != "last ACK" {
					assert.GreaterOrEqual(t, x.count("> DATA"), c.sent, "%v", x.lines())
				}
				synctest.Wait()
				if c.status == ci.Success {
					require.Len(t, got, 1, "delivered once")
					assert.Equal(t, m.MAD[40:], (<-got)[40:])
				} else {
					require.Empty(t, got)
				}
			})
		})
	}
}

// Over a link that loses, duplicates and reorders packets in both directions, each message arrives unchanged and once,
// or its send fails. A run repeats by its seed.
func TestRMPPImpaired(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := direct.NewLink()
				bad := impair.Model{Drop: 0.05, Duplicate: 0.05, Reorder: 0.05}
				p := testenv.Must(impair.New(testenv.Must(direct.New(l, direct.Config{})),
					impair.Config{Seed: seed, Out: bad, In: bad}))
				a, b := newNode(t, nodeConfig{}, p),
					newNode(t, nodeConfig{}, testenv.Must(direct.New(l, direct.Config{})))
				var mu sync.Mutex
				delivered := map[byte]int{}
				longEcho(t, b, func(r *mads.Received) int {
					mu.Lock()
					defer mu.Unlock()
					delivered[r.MAD[40]]++
					return len(r.MAD) - 40
				})
				client := longAgent(a, "client", nil, nil)
				r := rand.New(rand.NewPCG(seed, 0))
				through := 0
				for i := range byte(20) {
					m := message(mad.Get, uint64(i), 1+r.IntN(40000))
					m[40] = i
					answer, err := client.Do(t.Context(), &mads.Message{To: b.address(), MAD: m,
						Timeout: 2 * time.Second, Retries: 5})
					if err != nil {
						var gaveUp *mads.RMPPError // the peer's response could not be sent
						require.True(t, errors.Is(err, ci.Timeout) || errors.As(err, &gaveUp), "%v", err)
						continue
					}
					through++
					want := message(mad.GetResp, 0, len(m)-40)
					require.Equal(t, want[40:], answer.MAD[40:])
				}
				assert.GreaterOrEqual(t, through, 17, "the answer may be given up: it has the default retries")
				time.Sleep(3 * time.Minute)
				mu.Lock()
				defer mu.Unlock()
				for i, n := range delivered {
					assert.Equal(t, 1, n, "message %d", i)
				}
				assert.Empty(t, a.m.Held(a.port()))
				assert.Empty(t, b.m.Held(b.port()))
				assert.NotZero(t, a.counters().Retried)
			})
		})
	}
}
