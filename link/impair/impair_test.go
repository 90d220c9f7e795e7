package impair

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The verdicts on packets depend only on the seed, not on timing.
func TestImpairReplays(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (fates []string) {
		in := &nullPort{send: func(pkts []rvt.Packet) {
			for _, k := range pkts {
				fates = append(fates, fmt.Sprint(k.PSN))
			}
			fates = append(fates, "|")
		}}
		p, err := New(in, Config{Seed: seed, Out: Model{Drop: 0.2, Duplicate: 0.2, Reorder: 0.2, Corrupt: 0.2,
			MaxDelay: time.Hour}})
		require.NoError(t, err)
		require.NoError(t, linktest.StartAt(p, linktest.NewCollector(), stoppedClock{}))
		for psn := range ci.PSN(50) {
			p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, PSN: psn * 10, N: 3,
				MTU: 256, Len: 600, Payload: [][]byte{make([]byte, 600)}}})
		}
		return fates
	}
	assert.Equal(t, run(1), run(1))
	assert.NotEqual(t, run(1), run(2))
}

type stoppedClock struct{}

func (stoppedClock) Elapsed() time.Duration                      { return 0 }
func (stoppedClock) AfterFunc(time.Duration, func()) clock.Timer { return stoppedTimer{} }

type stoppedTimer struct{}

func (stoppedTimer) Stop() bool               { return true }
func (stoppedTimer) Reset(time.Duration) bool { return true }

type nullPort struct {
	rvt.Port
	send func([]rvt.Packet)
}

func (p *nullPort) Start(rvt.PortContext) error { return nil }
func (p *nullPort) Send(pkts []rvt.Packet)      { p.send(pkts) }

func TestImpairFilter(t *testing.T) {
	t.Parallel()
	l := direct.NewLink()
	verdicts := map[ci.PSN]Verdict{0: Pass, 1: Drop, 2: Duplicate, 3: Reorder, 5: Corrupt}
	seen := [2]int{}
	p, err := New(testenv.Must(direct.New(l, direct.Config{})),
		Config{Filter: func(d rvt.Direction, p *rvt.Packet) Verdict {
			seen[d]++
			if d == rvt.Received {
				return Chance
			}
			return verdicts[p.PSN]
		}})
	require.NoError(t, err)
	r := linktest.NewCollector()
	require.NoError(t, linktest.StartAt(p, r, stoppedClock{}))
	rt, err := p.Route(&ci.AVAttr{DLID: 1}, rvt.Flow{})
	require.NoError(t, err)
	require.False(t, p.Hints().Lossless)
	body := make([]byte, 6*256+10)
	linktest.Fill(body, 1)
	p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, Start: true, End: true, Ack: true, N: 7, MTU: 256,
		Len: uint32(len(body)), Payload: [][]byte{body[:300], body[300:]}, Route: rt}})
	p.Send([]rvt.Packet{{Service: wire.RC, Op: wire.OpSend, PSN: 7, N: 1, Route: rt},
		{Service: wire.RC, Op: wire.OpSend, PSN: 8, N: 1, Route: rt}})
	var order []ci.PSN
	for _, k := range r.Taken() {
		order = append(order, k.PSN)
		if k.PSN < 6 {
			assert.Equal(t, body[256*k.PSN:256*k.PSN+256], bytes.Join(k.Payload, nil))
			assert.False(t, k.End || k.Ack)
		}
		assert.Equal(t, k.PSN == 0, k.Start)
	}
	assert.Equal(t, []ci.PSN{0, 2, 2}, order[:3])
	assert.ElementsMatch(t, []ci.PSN{0, 2, 2, 3, 4, 6, 7, 8}, order)
	assert.NotEqual(t, ci.PSN(3), order[3], "held back")
	assert.Equal(t, 1, r.Counted(rvt.DropICRC))
	assert.Equal(t, [2]int{9, 8}, seen)
	require.NoError(t, p.Close())
}

// A changed bit that the ICRC does not cover is accepted; a change of any other is detected.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := rvt.Packet{Service: wire.RC, Op: wire.OpWrite, Start: true, End: true, PKey: 0xffff, N: 1, MTU: 256, VA: 1,
			RKey: 2, DMALen: 8, Len: 8, Payload: [][]byte{{1, 2, 3}, {4, 5, 6, 7, 8}}}
		q := p
		bit := rnd.Uint32()
		size := uint32(wire.PacketLen(wire.RCWriteOnly, 8))
		at := bit % (8 * size) / 8
		ok := corrupt(&q, bit)
		require.Equal(t, at == 4, ok, "byte %d", at)
		if ok {
			q.Payload, p.Payload = nil, nil
			require.Equal(t, p, q)
		}
	}
}

// TestConfig checks that New rejects what is out of range.
func TestConfig(t *testing.T) {
	in := &nullPort{}
	for want, c := range map[string]Config{
		`Config.Out: the probability of "dropped" is 1.5`: {Out: Model{Drop: 1.5}},
		`Config.In: the probability of "delayed" is NaN`:  {In: Model{Delay: math.NaN()}},
		"Config.Out: the sum of the probabilities is 1.2": {Out: Model{Drop: 0.6, Corrupt: 0.6}},
		"Config.In: MaxDelay is -1ns":                     {In: Model{MaxDelay: -1}},
	} {
		_, err := New(in, c)
		require.ErrorContains(t, err, want)
	}
	_, err := New(nil, Config{})
	require.ErrorContains(t, err, "the port is nil")
	_, err = New((*nullPort)(nil), Config{})
	require.ErrorContains(t, err, "the port is nil")
}
