package mlx4_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

const writable = ci.LocalWrite | ci.RemoteWrite

// newRegion registers a page of its own.
func (o *single) newRegion(t *testing.T) (ci.MR, []byte) {
	b := make([]byte, 4096)
	m, err := o.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: writable})
	require.NoError(t, err)
	return m, b
}

// writeByte writes one byte with the key of a region.
func (o *single) writeByte(t *testing.T, m ci.MR, value byte) {
	t.Helper()
	o.b[0] = value
	r := o.mr.Region()
	_, err := o.qp.PostSend([]ci.SendWR{{Op: ci.OpWrite, Flags: ci.SendSignaled, Remote: m.Region().Remote(0),
		SGL: []ci.SGE{{Addr: r.Addr, Length: 1, LKey: r.LKey}}}})
	require.NoError(t, err)
	o.complete(t, 1)
}

// TestSharedStorage checks that shared regions keep the memory that they were registered with: the addresses of memory
// that was released are those of other memory later.
func TestSharedStorage(t *testing.T) {
	o := newSingle(t, true)
	source, old := o.newRegion(t)
	first, err := o.pd.RegisterSMR(source, 0, writable)
	require.NoError(t, err)
	second, err := o.pd.RegisterSMR(first, 0x10000, writable)
	require.NoError(t, err)
	changed := make([]byte, 4096)
	require.NoError(t, source.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(changed)}))
	other, elsewhere := o.newRegion(t)
	for i, m := range []ci.MR{first, second} {
		o.writeByte(t, m, byte('a'+i))
		assert.Equal(t, byte('a'+i), old[0])
	}
	o.writeByte(t, source, 'x')
	assert.EqualValues(t, 'x', changed[0])
	assert.Equal(t, make([]byte, 4096), elsewhere)

	require.ErrorIs(t, source.Destroy(), ci.ResourceBusy)
	require.ErrorIs(t, first.Destroy(), ci.ResourceBusy)
	require.NoError(t, first.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096))}))
	require.NoError(t, source.Destroy(), "the first one has memory of its own")
	o.writeByte(t, second, 'c')
	assert.EqualValues(t, 'c', old[0])
	o.close(t, second, first, other)
}

// pinning is memory that calls a function when it is pinned.
type pinning struct {
	ci.Memory
	f func()
}

func (p pinning) Pin() (func(), error) {
	p.f()
	return p.Memory.Pin()
}

// TestModifyDestroy destroys a region while it changes. Destroy waits for the end of the change, since the adapter must
// not get a second command for an entry that has ended.
func TestModifyDestroy(t *testing.T) {
	o := newSingle(t, true)
	for range 20 {
		m, _ := o.newRegion(t)
		end := make(chan error, 1)
		changed := pinning{ci.Bytes(make([]byte, 4096)), func() {
			go func() { end <- m.Destroy() }()
			for range 1000 { // gives a Destroy that does not wait the time to end
				runtime.Gosched()
			}
		}}
		require.NoError(t, m.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: changed}))
		require.NoError(t, <-end)
	}
	o.close(t)
}
