package rvt

import (
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
)

const (
	memCaps = ci.CapMW1 | ci.CapMW2 | ci.CapFMR | ci.CapFastReg | ci.CapPhysicalMR | ci.CapSharedMR | ci.CapModifyMR |
		ci.CapZeroBased | ci.CapSendInvalidate
	allRights = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.BindWindow
)

// A memRig is an HCA without ports or queues, which suffices for memory. Its QPs only name a protection domain.
type memRig struct {
	t       require.TestingT
	h       *HCA
	ca      *CA
	pd, pd2 *PD
	q, q2   *QP // of pd
	other   *QP // of pd2
}

func newMemRig(t require.TestingT, tweak func(*Config)) *memRig {
	cfg := Config{Info: ci.HCAInfo{GUID: 1}, Attr: ci.CAAttr{Caps: memCaps}}
	if tweak != nil {
		tweak(&cfg)
	}
	cfg.Rand = rand.NewChaCha8([32]byte{1})
	h := newHCA(cfg)
	ca := &CA{hca: h}
	r := &memRig{t: t, h: h, ca: ca}
	for _, p := range []**PD{&r.pd, &r.pd2} {
		d, err := ca.newPD("test", ci.PDNormal)
		require.NoError(t, err)
		*p = d
	}
	r.q, r.q2, r.other = newBareQP(h, r.pd), newBareQP(h, r.pd), newBareQP(h, r.pd2)
	return r
}

// newBareQP returns a QP without queues.
func newBareQP(h *HCA, pd *PD) *QP {
	q := &QP{}
	q.dev, q.pd = &h.device, pd
	return q
}

// close deallocates the domains and fails if anything is left.
func (r *memRig) close() {
	r.destroy(r.pd, r.pd2)
	for name, n := range r.h.Live() {
		require.Zero(r.t, n, "%s left", name)
	}
	require.Zero(r.t, r.ca.refs.Count(), "references on the CA left")
	require.Zero(r.t, r.h.keys.slots.n, "keys left")
	require.Empty(r.t, r.h.keys.dma.runs, "DMA addresses left")
}

func (r *memRig) destroy(objects ...ci.Object) {
	for _, o := range objects {
		require.NoError(r.t, o.Destroy())
	}
}

func (r *memRig) register(b []byte, a ci.Access) *MR {
	m, err := r.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: a})
	require.NoError(r.t, err)
	return m.(*MR)
}

func (r *memRig) mapDMA(m ci.Memory) *DMA {
	d, err := r.ca.MapDMA(m)
	require.NoError(r.t, err)
	return d.(*DMA)
}

func (r *memRig) window(typ ci.MWType) *MW {
	m, err := r.pd.CreateMW(ci.MWCreate{Type: typ})
	require.NoError(r.t, err)
	return m.(*MW)
}

// bind posts and executes a bind, and returns the window's key.
func (r *memRig) bind(q *QP, w *MW, mr *MR, b ci.MWBind) (ci.Key, ci.WCStatus) {
	if w.typ == ci.MWType1 {
		k, ok := w.nextKey(w.Key())
		require.True(r.t, ok)
		b.Key = k
	}
	return b.Key, r.h.bindMW(&q.endpoint, &WorkExt{MW: w, MR: mr, Bind: b})
}

// localOK and remoteOK report whether an access passes the checks.
func (r *memRig) localOK(pd *PD, key ci.Key, addr uint64, n uint32, write bool) bool {
	var h holds
	defer h.release()
	_, st := h.local(&r.h.keys, pd, ci.SGE{Addr: addr, Length: n, LKey: key}, write)
	return st == ci.WCSuccess
}

func (r *memRig) remoteOK(q *QP, key ci.Key, addr, n uint64, need ci.Access) bool {
	var h holds
	defer h.release()
	_, ok := h.remote(&r.h.keys, &q.endpoint, key, addr, n, need)
	return ok
}

// at returns a checked extent for reading and writing through the local key.
func (r *memRig) at(h *holds, pd *PD, g ci.Region, off uint64, n uint32) mem {
	m, st := h.local(&r.h.keys, pd, g.SGE(off, n), false)
	require.Equal(r.t, ci.WCSuccess, st)
	return m
}

func requireStatus(t require.TestingT, want ci.Status, err error) {
	require.Error(t, err)
	var e *ci.Error
	require.ErrorAs(t, err, &e, "every failed verb returns an *Error")
	require.NotEmpty(t, e.Verb)
	require.Equal(t, want, ci.StatusOf(err), "%v", err)
}

// eventually yields until ok returns true, for actions of other goroutines.
func eventually(t require.TestingT, ok func() bool) {
	for deadline := time.Now().Add(testenv.Patience); !ok(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "waited in vain")
	}
}

// patchMemory is storage in extents. An extent whose direct is false can only be copied.
type patchMemory struct {
	addr   uint64
	pieces []patch
}

type patch struct {
	b      []byte
	direct bool
}

// newPatches returns extents of the given sizes; a negative size is an extent without a view.
func newPatches(addr uint64, sizes ...int) *patchMemory {
	m := &patchMemory{addr: addr}
	for _, n := range sizes {
		m.pieces = append(m.pieces, patch{make([]byte, max(n, -n)), n > 0})
	}
	return m
}

func (m *patchMemory) Addr() uint64         { return m.addr }
func (m *patchMemory) Pin() (func(), error) { return func() {}, nil }

func (m *patchMemory) Len() (n uint64) {
	for _, p := range m.pieces {
		n += uint64(len(p.b))
	}
	return n
}

func (m *patchMemory) find(off uint64) (patch, uint64) {
	for _, p := range m.pieces {
		if off < uint64(len(p.b)) {
			return p, off
		}
		off -= uint64(len(p.b))
	}
	return patch{}, 0
}

func (m *patchMemory) Slice(off, n uint64) []byte {
	p, d := m.find(off)
	if !p.direct {
		return nil
	}
	return p.b[d:min(d+n, uint64(len(p.b)))]
}

func (m *patchMemory) ReadAt(b []byte, off int64) (int, error) {
	for i := range b {
		p, d := m.find(uint64(off) + uint64(i))
		if p.b == nil {
			return i, io.EOF
		}
		b[i] = p.b[d]
	}
	return len(b), nil
}

func (m *patchMemory) WriteAt(b []byte, off int64) (int, error) {
	for i := range b {
		p, d := m.find(uint64(off) + uint64(i))
		if p.b == nil {
			return i, ci.InvalidParameter
		}
		p.b[d] = b[i]
	}
	return len(b), nil
}

// all returns the whole content.
func (m *patchMemory) all() []byte {
	var b []byte
	for _, p := range m.pieces {
		b = append(b, p.b...)
	}
	return b
}

// farMemory is memory of another process. It supports only copies, which fail after the process has exited. It records
// the writes.
type farMemory struct {
	mu     sync.Mutex
	addr   uint64
	b      []byte
	exited bool
	writes [][2]int // offset, length
}

var errExited = errors.New("the process has exited")

func (m *farMemory) Addr() uint64                { return m.addr }
func (m *farMemory) Len() uint64                 { return uint64(len(m.b)) }
func (m *farMemory) Slice(uint64, uint64) []byte { return nil }
func (m *farMemory) Pin() (func(), error)        { return func() {}, nil }

func (m *farMemory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exited {
		return 0, errExited
	}
	n := copy(p, m.b[off:])
	if off+int64(n) == int64(len(m.b)) {
		return n, io.EOF // permitted by io.ReaderAt
	}
	return n, nil
}

func (m *farMemory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exited {
		return 0, errExited
	}
	m.writes = append(m.writes, [2]int{int(off), len(p)})
	return copy(m.b[off:], p), nil
}

// Objects as seen by a consumer behind a wrapper.
type (
	wrappedMR  struct{ ci.MR }
	wrappedPD  struct{ ci.PD }
	wrappedFMR struct{ ci.FMR }
)

func (w wrappedMR) Unwrap() any  { return w.MR }
func (w wrappedPD) Unwrap() any  { return w.PD }
func (w wrappedFMR) Unwrap() any { return w.FMR }

func memPattern(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = seed + byte(i*7)
	}
	return b
}

func TestMemRig(t *testing.T) {
	r := newMemRig(t, nil)
	r.close()
}
