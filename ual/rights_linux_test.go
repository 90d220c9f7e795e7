package ual_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/ual"
)

// TestRightsAfterRegistration adds the right to write to a region that was registered for reading only. The daemon must
// not fault on memory that it mapped for reading.
func TestRightsAfterRegistration(t *testing.T) {
	const write = ci.LocalWrite | ci.RemoteWrite
	for name, widen := range map[string]func(t *testing.T, p *pair, mr ci.MR) ci.MR{
		"Modify": func(t *testing.T, _ *pair, mr ci.MR) ci.MR {
			require.NoError(t, mr.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: write}))
			return mr
		},
		"RegisterSMR": func(t *testing.T, p *pair, mr ci.MR) ci.MR {
			again, err := p.pd.RegisterSMR(mr, 0, write)
			require.NoError(t, err)
			return again
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kproxy.Config{})
			p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
			m, err := ual.NewMemory(4096)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, m.Close()) })
			mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: m})
			require.NoError(t, err)
			target := widen(t, p, mr)
			_, err = p.a.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled,
				Inline: []byte("written"), Remote: target.Region().Remote(0)}})
			require.NoError(t, err)
			assert.Equal(t, ci.WCSuccess, p.wait(1)[0].Status)
			assert.Equal(t, "written", string(m.Bytes()[:7]))
		})
	}
}

// TestSharedRegion replaces the memory of a region while another region shares the pages that it had. They stay mapped.
func TestSharedRegion(t *testing.T) {
	const write = ci.LocalWrite | ci.RemoteWrite
	r := newRig(t, kproxy.Config{})
	p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	var memories [2]*ual.Memory
	for i := range memories {
		m, err := ual.NewMemory(4096)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		memories[i] = m
	}
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: memories[0], Access: write})
	require.NoError(t, err)
	shared, err := p.pd.RegisterSMR(mr, 0, write)
	require.NoError(t, err)
	store := func(text string) {
		source, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes([]byte(text))})
		require.NoError(t, err)
		_, err = p.a.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled,
			SGL: []ci.SGE{source.Region().SGE(0, uint32(len(text)))}, Remote: shared.Region().Remote(0)}})
		require.NoError(t, err)
		assert.Equal(t, ci.WCSuccess, p.wait(1)[0].Status)
		assert.Equal(t, text, string(memories[0].Bytes()[:len(text)]))
		require.NoError(t, source.Destroy())
	}
	require.NoError(t, mr.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: memories[1]}))
	store("replaced")
	require.NoError(t, shared.Destroy())
	require.NoError(t, mr.Destroy())
	st := r.core.Status().Clients[0]
	assert.Zero(t, st.MemoryBytes)
	assert.Equal(t, 1, st.Mappings, "that of the open adapter")
}

// TestMappingQuota maps as much memory as a client may.
func TestMappingQuota(t *testing.T) {
	r := newRig(t, kproxy.Config{Quota: kproxy.Quota{Mappings: 3}})
	pd, err := r.open(r.dial(), nil).AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	m, err := ual.NewMemory(4096)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	var mrs [3]ci.MR
	for i := range mrs {
		mrs[i], err = pd.RegisterMR(ci.MRCreate{Memory: m})
		if i < 2 {
			require.NoError(t, err)
		}
	}
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.ErrorContains(t, err, "quota 3")
	require.EqualValues(t, 1, r.core.Load().Refusals["mappings"])
	require.NoError(t, mrs[0].Destroy())
	_, err = pd.RegisterMR(ci.MRCreate{Memory: m})
	require.NoError(t, err)
}

// TestChargesOfRaces resizes queues while they are destroyed. The client's usage ends at zero.
func TestChargesOfRaces(t *testing.T) {
	r := newRig(t, kproxy.Config{})
	pd, err := r.open(r.dial(), nil).AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	for range 200 {
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 1000})
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = cq.Resize(ci.CQResize{Size: 10}) }) // it fails if Destroy is first
		wg.Go(func() { assert.NoError(t, cq.Destroy()) })
		wg.Wait()
	}
	assert.Zero(t, r.core.Status().Clients[0].QueueBytes)
}
