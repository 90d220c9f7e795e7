package accesslayer_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/link/direct"
)

func memory(n int) ci.Memory { return ci.Bytes(make([]byte, n)) }

func TestFastRegPoolRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before := r.h.liveObjects()
	for name, cfg := range map[string]accesslayer.FastRegPoolConfig{
		"Size and MaxPages":                {MaxPages: 1},
		"Size and MaxPages must":           {Size: 1},
		"PageShift is 13, the HCA has":     {Size: 1, MaxPages: 1, PageShift: 13},
		"PageShift is 64":                  {Size: 1, MaxPages: 1, PageShift: 64},
		"Size and MaxPages must be above ": {Size: -1, MaxPages: -1},
	} {
		_, err := r.pd.NewFastRegPool(cfg)
		assert.ErrorIs(t, err, ci.InvalidParameter)
		assert.ErrorContains(t, err, name)
	}
	r.h.plan("create MR", nil, nil, &ci.Error{Status: ci.InsufficientResources})
	_, err := r.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 4, MaxPages: 2})
	assert.ErrorIs(t, err, ci.InsufficientResources)
	assert.Equal(t, before, r.h.liveObjects(), "regions made before the failure are destroyed")

	pool := must(r.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 2}))
	idle := r.h.liveObjects()
	for _, tt := range []struct {
		name   string
		mem    ci.Memory
		access ci.Access
		ranges []ci.DMARange
		want   ci.Status
		detail string
	}{
		{name: "nil", want: ci.InvalidParameter, detail: "mem is nil"},
		{name: "remote write alone", mem: memory(1), access: ci.RemoteWrite, want: ci.InvalidPermission,
			detail: "LocalWrite"},
		{name: "atomics alone", mem: memory(1), access: ci.RemoteAtomic | ci.RemoteRead, want: ci.InvalidPermission,
			detail: "LocalWrite"},
		{name: "too long", mem: memory(1), ranges: []ci.DMARange{{Addr: 4096, Size: 8193}}, want: ci.InvalidParameter,
			detail: "more than 2 pages of 4096"},
		{name: "too long by its place", mem: memory(1), ranges: []ci.DMARange{{Addr: 4097, Size: 8192}},
			want: ci.InvalidParameter, detail: "more than 2 pages"},
		{name: "a gap before", mem: memory(1), ranges: []ci.DMARange{{Addr: 4096, Size: 100},
			{Addr: 1 << 20, Size: 100}}, want: ci.InvalidParameter, detail: "whole pages"},
		{name: "a gap behind", mem: memory(1), ranges: []ci.DMARange{{Addr: 4096, Size: 4096},
			{Addr: 1<<20 + 1, Size: 100}}, want: ci.InvalidParameter, detail: "whole pages"},
		{name: "nothing", mem: memory(1), ranges: []ci.DMARange{}, want: ci.InvalidParameter, detail: "no pages"},
	} {
		r.h.ranges = tt.ranges
		_, err := pool.Map(tt.mem, tt.access)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.ErrorContains(t, err, tt.detail, tt.name)
		require.Equal(t, idle, r.h.liveObjects(), tt.name)
	}
	r.h.ranges = nil
	r.h.plan("create DMA", &ci.Error{Status: ci.InsufficientResources})
	_, err = pool.Map(memory(1), 0)
	require.ErrorIs(t, err, ci.InsufficientResources)

	m := must(pool.Map(memory(1), 0))
	_, err = pool.Map(memory(1), 0)
	require.ErrorIs(t, err, ci.InsufficientResources, "all are in use")
	require.ErrorContains(t, err, "in use")
	r.h.plan("destroy DMA", &ci.Error{Status: ci.ResourceBusy})
	require.ErrorIs(t, m.Unmap(), ci.ResourceBusy, "the keys are valid")
	require.NoError(t, m.Unmap(), "the keys are invalid now")
	require.ErrorIs(t, m.Unmap(), ci.InvalidHandle)
	require.ErrorIs(t, m.Drop(), ci.InvalidHandle)
	m = must(pool.Map(memory(1), 0))
	require.NoError(t, pool.Destroy())
	_, err = pool.Map(memory(1), 0)
	require.ErrorIs(t, err, accesslayer.ErrClosed)
	require.ErrorIs(t, m.Unmap(), accesslayer.ErrClosed)
	require.ErrorIs(t, m.Drop(), accesslayer.ErrClosed)
	require.Equal(t, before, r.h.liveObjects(), "also those in use")
	require.Empty(t, r.h.violationList())
}

// The work requests contain what was mapped, with a page list that fits the memory's offset in its page.
func TestFastRegPoolRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool := must(r.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 4, PageShift: 16}))
	r.h.ranges = []ci.DMARange{{Addr: 0x1ff00, Size: 0x10100}, {Addr: 0x90000, Size: 5}}
	m := must(pool.Map(memory(0x10105), ci.RemoteRead))
	require.Equal(t, ci.Region{Addr: 0x1ff00, Length: 0x10105, LKey: m.LKey, RKey: m.LKey}, m.Region)
	wr := m.Register()
	require.Equal(t, ci.OpFastReg, wr.Op)
	require.Equal(t, ci.FastReg{MR: wr.Ext.FastReg.MR, Pages: []uint64{0x10000, 0x20000, 0x90000}, PageShift: 16,
		Offset: 0xff00, Length: 0x10105,
		IOVA: 0x1ff00, Key: m.LKey, Access: ci.RemoteRead}, wr.Ext.FastReg)
	require.Equal(t, ci.SendWR{Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: m.LKey}, m.Invalidate())
	require.NoError(t, m.Unmap())
	m = must(pool.Map(memory(0x10105), ci.ZeroBased))
	require.Zero(t, m.Addr)
	require.Zero(t, m.Register().Ext.FastReg.IOVA)
	require.EqualValues(t, 0xff00, m.Register().Ext.FastReg.Offset)
}

// Drop destroys a region at once, before its memory, and the pool creates it again when it is needed. Failures in
// between are retried.
func TestFastRegPoolDrop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool := must(r.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 1}))
	idle := r.h.liveObjects()
	m := must(pool.Map(memory(1), 0))
	old := m.LKey
	r.h.plan("destroy MR", &ci.Error{Status: ci.ResourceBusy})
	require.ErrorIs(t, m.Drop(), ci.ResourceBusy)
	r.h.plan("destroy DMA", &ci.Error{Status: ci.Timeout})
	require.ErrorIs(t, m.Drop(), ci.Timeout)
	require.NoError(t, m.Drop(), "the region was destroyed before")
	trace := destroys(r.h.traced())
	require.Equal(t, []string{"MR", "DMA"}, trace[len(trace)-2:])
	require.Len(t, r.h.liveObjects(), len(idle)-1)

	r.h.plan("create MR", &ci.Error{Status: ci.InsufficientMemory})
	_, err := pool.Map(memory(1), 0)
	require.ErrorIs(t, err, ci.InsufficientMemory)
	m = must(pool.Map(memory(1), 0))
	require.NotEqual(t, old&^0xff, m.LKey&^0xff, "another region")

	// Memory that could not be unmapped after a failed Map is unmapped later.
	require.NoError(t, m.Unmap())
	r.h.ranges = []ci.DMARange{}
	r.h.plan("destroy DMA", &ci.Error{Status: ci.Timeout}, &ci.Error{Status: ci.Timeout})
	_, err = pool.Map(memory(1), 0)
	require.ErrorIs(t, err, ci.InvalidParameter)
	r.h.ranges = nil
	_, err = pool.Map(memory(1), 0)
	require.ErrorIs(t, err, ci.Timeout)
	m = must(pool.Map(memory(1), 0))
	require.NoError(t, m.Unmap())
	require.Len(t, r.h.liveObjects(), len(idle))
	r.h.plan("destroy MR", &ci.Error{Status: ci.Timeout})
	require.NoError(t, pool.Destroy(), "Destroy repeats it")
	require.Empty(t, r.h.violationList())
}

// duo is two queue pairs; the second one writes to the memory of the first.
type duo struct{ a, b *side }

func newDuo(t *testing.T, al *accesslayer.AL) *duo {
	link := direct.NewLink()
	d := &duo{newSide(t, al, link, ci.RC), newSide(t, al, link, ci.RC)}
	d.connect()
	return d
}

func (d *duo) connect() {
	for _, s := range []*side{d.a, d.b} {
		require.NoError(s.t, s.qp.Modify(ci.ToReset()))
	}
	d.a.connect(d.b)
	d.b.connect(d.a)
	require.NoError(d.a.t, d.a.qp.Modify(ci.QPFieldAccess, ci.QPAttr{Access: ci.RemoteWrite}))
}

// do posts requests, of which the last is signaled, and waits for a completion.
func (s *side) do(wrs ...ci.SendWR) ci.WCStatus {
	wrs[len(wrs)-1].Flags |= ci.SendSignaled
	must(s.qp.PostSend(wrs))
	wc := make([]ci.WC, 1)
	must(s.cq.Wait(s.t.Context(), wc))
	return wc[0].Status
}

// write makes b write n bytes to a.
func (d *duo) write(n int, to ci.Remote) ci.WCStatus {
	return d.b.do(ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{d.b.mr.Region().SGE(0, uint32(n))}, Remote: to})
}

// Peers can access the memory from the registration to the invalidation, and neither before nor after.
func TestFastRegPoolReference(t *testing.T) {
	t.Parallel()
	const ok, refused = ci.WCSuccess, ci.WCRemAccessErr
	tests := map[string]func(t *testing.T, d *duo, p *accesslayer.FastRegPool, m *accesslayer.FastRegMapping){
		"before": func(t *testing.T, d *duo, _ *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.Equal(t, refused, d.write(8, m.Remote(0)))
			require.NoError(t, m.Unmap(), "nothing was registered")
		},
		"after": func(t *testing.T, d *duo, _ *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.Equal(t, ok, d.write(5000, m.Remote(0)))
			require.ErrorIs(t, m.Unmap(), ci.ResourceBusy, "the keys are valid")
			require.Equal(t, ok, d.a.do(m.Invalidate()))
			require.NoError(t, m.Unmap())
			require.Equal(t, refused, d.write(8, m.Remote(0)))
		},
		"the key of before": func(t *testing.T, d *duo, p *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.Equal(t, ok, d.a.do(m.Invalidate()))
			require.NoError(t, m.Unmap())
			next := must(p.Map(memory(5000), ci.LocalWrite|ci.RemoteWrite))
			require.Equal(t, ok, d.a.do(next.Register()))
			require.Equal(t, ok, d.write(8, next.Remote(0)))
			require.Equal(t, refused, d.write(8, ci.Remote{Addr: next.Addr, RKey: m.RKey}))
		},
		"beyond the end": func(t *testing.T, d *duo, _ *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.Equal(t, refused, d.write(2, m.Remote(m.Length-1)))
		},
		"zero based": func(t *testing.T, d *duo, p *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.NoError(t, m.Unmap())
			b := make([]byte, 5000)
			m = must(p.Map(ci.Bytes(b), ci.LocalWrite|ci.RemoteWrite|ci.ZeroBased))
			require.Equal(t, ok, d.a.do(m.Register()))
			copy(d.b.buf, "at 4990")
			require.Equal(t, ok, d.write(7, ci.Remote{Addr: 4990, RKey: m.RKey}))
			require.Equal(t, "at 4990", string(b[4990:4997]))
		},
		// Requests are executed in order, so no wait is needed between the registration, the use and the invalidation.
		"one list": func(t *testing.T, d *duo, p *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.NoError(t, m.Unmap())
			mr := must(d.b.pd.NewMR(ci.MRCreate{Memory: ci.Bytes(d.b.buf), Access: ci.LocalWrite | ci.RemoteWrite}))
			require.NoError(t, d.b.qp.Modify(ci.QPFieldAccess, ci.QPAttr{Access: ci.RemoteWrite}))
			text := bytes.Repeat([]byte("from a "), 700)
			m = must(p.Map(ci.Bytes(text), 0))
			require.Equal(t, ok, d.a.do(m.Register(), ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{m.SGE(0, 4900)},
				Remote: mr.Region().Remote(9)}, m.Invalidate()))
			require.NoError(t, m.Unmap())
			require.True(t, bytes.Equal(text, d.b.buf[9:4909]))
		},
		"the queue pair has failed": func(t *testing.T, d *duo, p *accesslayer.FastRegPool,
			m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.Equal(t, refused, d.write(8, ci.Remote{RKey: 1}))
			require.ErrorIs(t, m.Unmap(), ci.ResourceBusy)
			require.NoError(t, m.Drop())
			d.connect()
			b := make([]byte, 8)
			copy(d.b.buf, "as new!!")
			m = must(p.Map(ci.Bytes(b), ci.LocalWrite|ci.RemoteWrite))
			require.Equal(t, ok, d.a.do(m.Register()))
			require.Equal(t, ok, d.write(8, m.Remote(0)))
			require.Equal(t, ok, d.a.do(m.Invalidate()))
			require.NoError(t, m.Unmap())
			require.Equal(t, "as new!!", string(b))
		},
		"all is destroyed under it": func(t *testing.T, d *duo, p *accesslayer.FastRegPool,
			m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.NoError(t, d.a.pd.Destroy())
			require.ErrorIs(t, m.Unmap(), accesslayer.ErrClosed)
			_, err := p.Map(memory(1), 0)
			require.ErrorIs(t, err, accesslayer.ErrClosed)
			require.ErrorIs(t, p.Destroy(), accesslayer.ErrClosed)
		},
		"the HCA is removed": func(t *testing.T, d *duo, p *accesslayer.FastRegPool, m *accesslayer.FastRegMapping) {
			require.Equal(t, ok, d.a.do(m.Register()))
			require.NoError(t, d.a.al.Deregister(d.a.hca.Info().GUID))
			require.ErrorIs(t, m.Drop(), accesslayer.ErrClosed)
			require.ErrorIs(t, p.Destroy(), accesslayer.ErrClosed)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDuo(t, newAL(t))
			p := must(d.a.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 1, MaxPages: 2}))
			test(t, d, p, must(p.Map(memory(5000), ci.LocalWrite|ci.RemoteWrite)))
			if err := p.Destroy(); !errors.Is(err, accesslayer.ErrClosed) { // by the test
				require.NoError(t, err)
			}
		})
	}
}

// The keys of a region repeat after 256 mappings. Regions are used in turn, so keys in use are different.
func TestFastRegPoolKeys(t *testing.T) {
	t.Parallel()
	d := newDuo(t, newAL(t))
	pool := must(d.a.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: 2, MaxPages: 2}))
	mem := ci.Bytes(make([]byte, 100))
	keys := map[ci.Key]int{}
	for range 3 * 512 {
		m := must(pool.Map(mem, ci.LocalWrite|ci.RemoteWrite))
		require.Equal(t, ci.WCSuccess, d.a.do(m.Register(), m.Invalidate()))
		require.NoError(t, m.Unmap())
		keys[m.RKey]++
	}
	require.Len(t, keys, 512)
	for k, n := range keys {
		require.Equal(t, 3, n, "key %#x", k)
	}
}

// Under any sequence of calls, a write with a key reaches the memory that was mapped with it and no other, no more
// regions are in use than exist, and no region uses the same key twice in a row.
func TestFastRegPoolModel(t *testing.T) {
	t.Parallel()
	d := newDuo(t, newAL(t))
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 4).Draw(rt, "size")
		pool := must(d.a.pd.NewFastRegPool(accesslayer.FastRegPoolConfig{Size: size, MaxPages: 9}))
		type mapping struct {
			m          *accesslayer.FastRegMapping
			mem, want  []byte
			registered bool
		}
		var out []*mapping
		last := map[ci.Key]ci.Key{} // by region
		pick := func(rt *rapid.T) (int, *mapping) {
			if len(out) == 0 {
				rt.Skip("none")
			}
			i := rapid.IntRange(0, len(out)-1).Draw(rt, "which")
			return i, out[i]
		}
		back := func(i int) { out = append(out[:i:i], out[i+1:]...) }
		register := func(rt *rapid.T, l *mapping) {
			if !l.registered {
				require.Equal(rt, ci.WCSuccess, d.a.do(l.m.Register()))
				l.registered = true
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				for _, l := range out {
					require.True(rt, bytes.Equal(l.want, l.mem))
				}
			},
			"map": func(rt *rapid.T) {
				n := rapid.IntRange(1, 9*4096).Draw(rt, "bytes")
				l := &mapping{mem: make([]byte, n), want: make([]byte, n)}
				var err error
				l.m, err = pool.Map(ci.Bytes(l.mem), ci.LocalWrite|ci.RemoteWrite)
				if len(out) == size {
					require.ErrorIs(rt, err, ci.InsufficientResources)
					return
				}
				require.NoError(rt, err)
				region := l.m.LKey &^ 0xff
				require.NotEqual(rt, last[region], l.m.LKey)
				last[region] = l.m.LKey
				out = append(out, l)
			},
			"write": func(rt *rapid.T) {
				_, l := pick(rt)
				register(rt, l)
				at := rapid.IntRange(0, len(l.mem)-1).Draw(rt, "at")
				n := rapid.IntRange(1, len(l.mem)-at).Draw(rt, "n")
				fill := fmt.Appendf(nil, "%08x", rapid.Uint32().Draw(rt, "fill"))
				for i := range n {
					d.b.buf[i] = fill[i%len(fill)]
				}
				copy(l.want[at:], d.b.buf[:n])
				require.Equal(rt, ci.WCSuccess, d.write(n, l.m.Remote(uint64(at))))
			},
			"unmap": func(rt *rapid.T) {
				i, l := pick(rt)
				if l.registered {
					require.ErrorIs(rt, l.m.Unmap(), ci.ResourceBusy)
					require.Equal(rt, ci.WCSuccess, d.a.do(l.m.Invalidate()))
				}
				require.NoError(rt, l.m.Unmap())
				require.ErrorIs(rt, l.m.Unmap(), ci.InvalidHandle)
				back(i)
			},
			"drop": func(rt *rapid.T) {
				i, l := pick(rt)
				require.NoError(rt, l.m.Drop())
				back(i)
			},
		})
		require.NoError(rt, pool.Destroy())
	})
}
