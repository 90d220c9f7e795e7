package ual_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
)

// TestNoAllocation checks that the verbs of the data path allocate nothing, in the client or in the daemon, when they
// are messages. Both are in this process.
func TestNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, kproxy.Config{})
	ca := r.open(r.dial(), nil)
	p := newPair(t, ca, ci.CQCreate{OnCompletion: func(any) {}})
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)),
		Access: ci.LocalWrite | ci.RemoteWrite | ci.BindWindow})
	require.NoError(t, err)
	mw, err := p.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	require.NoError(t, err)
	sgl := []ci.SGE{mr.Region().SGE(0, 64)}
	sends := make([]ci.SendWR, 8)
	for i := range sends {
		sends[i] = ci.SendWR{ID: uint64(i), Op: ci.OpNop, Flags: ci.SendSignaled, SGL: sgl}
	}
	wc := make([]ci.WC, 16)
	drain := func(n int) {
		for n > 0 {
			k, err := p.cq.Poll(wc)
			if err != nil {
				t.Error(err)
			}
			n -= k
		}
	}
	key := mw.Key()
	for name, fn := range map[string]func(){
		"post and poll a batch": func() {
			if n, err := p.a.PostSend(sends); n != len(sends) {
				t.Error(n, err)
			}
			drain(len(sends))
		},
		"notify": func() {
			if err := p.cq.Notify(ci.NotifyNext); err != nil {
				t.Error(err)
			}
		},
		"peek": func() {
			if _, err := p.cq.Peek(); err != nil {
				t.Error(err)
			}
		},
		"bind": func() {
			next, err := p.a.BindMW(1, ci.SendSignaled, ci.MWBind{MW: mw, MR: mr, Key: key, Addr: sgl[0].Addr,
				Length: 64, Access: ci.RemoteWrite})
			if err != nil {
				t.Error(err)
			}
			key = next
			drain(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fn()
			limit := 1.0
			if name == "bind" {
				limit = 2 // the adapter makes what the new key grants when it executes the bind
			}
			require.Less(t, testing.AllocsPerRun(200, fn), limit)
		})
	}
}
