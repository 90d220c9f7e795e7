package bustest

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
)

// A Backend opens the function of a device. unplug removes the device from its slot.
type Backend func(t *testing.T, d *Device) (f bus.Function, unplug func())

// Run tests a back end.
func Run(t *testing.T, open Backend) {
	for name, test := range map[string]func(*testing.T, *rig){
		"Config": testConfig, "Registers": testRegisters, "DMA": testDMA, "Interrupts": testInterrupts,
		"Reset": testReset, "FLR": testFLR, "Unplug": testUnplug, "Close": testClose,
	} {
		t.Run(name, func(t *testing.T) {
			d := New()
			f, unplug := open(t, d)
			t.Cleanup(func() { assert.NoError(t, f.Close()) })
			test(t, &rig{d, f, unplug})
		})
	}
}

type rig struct {
	d      *Device
	f      bus.Function
	unplug func()
}

func (r *rig) bar(t *testing.T, n int) bus.Space {
	s, err := r.f.BAR(n)
	require.NoError(t, err)
	return s
}

func testConfig(t *testing.T, r *rig) {
	assert.Equal(t, ID, r.f.ID())
	assert.NotEmpty(t, r.f.Location())
	assert.Equal(t, Vectors, r.f.NumVectors())
	c := r.f.Config()
	assert.Equal(t, ID.Vendor, c.Read16(bus.ConfigVendorID))
	assert.Equal(t, uint32(ID.Device)<<16|uint32(ID.Vendor), c.Read32(0))
	assert.EqualValues(t, 3, c.Read8(bus.ConfigRevision))
	c.Write16(bus.ConfigVendorID, 1)
	assert.Equal(t, ID.Vendor, c.Read16(bus.ConfigVendorID), "read only")
	assert.Equal(t, []bus.Capability{{ID: bus.CapPower, At: 0x40}, {ID: bus.CapExpress, At: expressAt},
		{ID: bus.CapMSIX, At: 0x9c}}, bus.Capabilities(c))
	assert.EqualValues(t, Vectors-1, c.Read16(0x9e)&0x7ff)
	assert.EqualValues(t, 0xffffffff, c.Read32(c.Size()), "beyond the end")
}

func testRegisters(t *testing.T, r *rig) {
	for _, n := range []int{-1, 1, 3, bus.NumBARs} {
		_, err := r.f.BAR(n)
		assert.ErrorIs(t, err, bus.ErrNoBAR, "BAR %d", n)
	}
	s := r.bar(t, 0)
	require.EqualValues(t, 4096, s.Size())
	s.Write64(RegScratch, 0x1122334455667788)
	assert.EqualValues(t, 0x1122334455667788, s.Read64(RegScratch))
	assert.EqualValues(t, 0x55667788, s.Read32(RegScratch), "little endian")
	assert.EqualValues(t, 0x1122, s.Read16(RegScratch+6))
	assert.EqualValues(t, 0x88, s.Read8(RegScratch))
	s.Write32(RegScratch, 1)
	s.Write16(RegScratch+4, 2)
	s.Write8(RegScratch+6, 3)
	assert.EqualValues(t, 0x1103000200000001, s.Read64(RegScratch))

	for _, off := range []uint64{RegScratch + 2, s.Size(), 1<<64 - 4} {
		s.Write32(off, 0x77)
		assert.EqualValues(t, 0xffffffff, s.Read32(off), "offset %#x", off)
	}
	assert.EqualValues(t, 0x1103000200000001, s.Read64(RegScratch), "unaligned writes have no effect")

	m := r.bar(t, 2)
	text := []byte("0123456789abcdefghijklm")
	m.Copy(1, text)
	got := make([]byte, len(text))
	for i := range got {
		got[i] = m.Read8(uint64(1 + i))
	}
	assert.Equal(t, text, got)
	assert.Equal(t, []int{1, 2, 4, 8, 8}, r.d.WriteSizes(), "aligned accesses, as large as possible, in order")
}

// copy makes the device copy, and returns its status.
func (r *rig) copy(t *testing.T, from, to uint64, n uint32) uint32 {
	s := r.bar(t, 0)
	s.Write64(RegSource, from)
	s.Write64(RegTarget, to)
	s.Write32(RegLength, n)
	s.Write32(RegGo, 0)
	return s.Read32(RegStatus)
}

func testDMA(t *testing.T, r *rig) {
	page := os.Getpagesize()
	for _, size := range []int{0, -1} {
		_, err := r.f.AllocDMA(size)
		require.Error(t, err, "%d bytes", size)
	}
	a, err := r.f.AllocDMA(page + 1)
	require.NoError(t, err)
	require.Len(t, a.Bytes, 2*page)
	b, err := r.f.AllocDMA(page)
	require.NoError(t, err)
	assert.Zero(t, a.IOVA%uint64(page))
	assert.Equal(t, make([]byte, 2*page), a.Bytes, "zeroed")
	for i := range a.Bytes {
		a.Bytes[i] = byte(i * 13)
	}
	require.EqualValues(t, CopyOK, r.copy(t, a.IOVA+100, b.IOVA, uint32(page)))
	assert.True(t, bytes.Equal(a.Bytes[100:100+page], b.Bytes))
	assert.EqualValues(t, CopyFailed, r.copy(t, a.IOVA, b.IOVA, uint32(page+1)), "beyond the end of the target")
	assert.EqualValues(t, CopyFailed, r.copy(t, a.IOVA+uint64(2*page)-1, b.IOVA, 2), "beyond the end of the source")
	assert.EqualValues(t, CopyFailed, r.copy(t, 0, b.IOVA, 8), "address 0")
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "idempotent")
	assert.EqualValues(t, CopyFailed, r.copy(t, b.IOVA, b.IOVA-1<<20, 8))
	require.NoError(t, b.Close())
	assert.EqualValues(t, CopyFailed, r.copy(t, b.IOVA, b.IOVA, 8), "closed")

	_, err = r.f.MapDMA(bus.Memory{})
	require.ErrorIs(t, err, bus.ErrNotMappable, "no memory")
	testPartialPage(t, r)
	testRemote(t, r)
}

// copied is memory that is reached by copies. It has no atomic operations, which the device of the tests does not use.
type copied struct {
	bus.Remote
	b []byte
}

func (c *copied) ReadAt(b []byte, off int64) (int, error)  { return copy(b, c.b[off:]), nil }
func (c *copied) WriteAt(b []byte, off int64) (int, error) { return copy(c.b[off:], b), nil }

// testRemote maps memory that the process reaches by copies. Most back ends cannot.
func testRemote(t *testing.T, r *rig) {
	const offset, n = 100, 5000
	c := &copied{b: make([]byte, n)}
	for _, m := range []bus.Memory{{Remote: c, PageOffset: offset}, {Remote: c, Length: n, PageOffset: 1 << 20}} {
		_, err := r.f.MapDMA(m)
		require.ErrorIs(t, err, bus.ErrNotMappable)
	}
	d, err := r.f.MapDMA(bus.Memory{Remote: c, Length: n, PageOffset: offset})
	if errors.Is(err, bus.ErrNotMappable) {
		return
	}
	require.NoError(t, err)
	assert.EqualValues(t, n, d.Len())
	assert.EqualValues(t, offset, d.IOVA%uint64(os.Getpagesize()))
	for i := range c.b[:n/2] {
		c.b[i] = byte(i * 3)
	}
	require.EqualValues(t, CopyOK, r.copy(t, d.IOVA, d.IOVA+n/2, n/2))
	assert.Equal(t, c.b[:n/2], c.b[n/2:])
	assert.EqualValues(t, CopyFailed, r.copy(t, d.IOVA, d.IOVA+n, 1), "beyond the end")
	require.NoError(t, d.Close())
	assert.EqualValues(t, CopyFailed, r.copy(t, d.IOVA, d.IOVA+n/2, 8), "closed")
}

// testPartialPage maps memory that is not whole pages. A back end that needs a descriptor cannot.
func testPartialPage(t *testing.T, r *rig) {
	page := make([]byte, 2*os.Getpagesize())
	b := page[100:5100]
	d, err := r.f.MapDMA(bus.Memory{Bytes: b})
	if errors.Is(err, bus.ErrNotMappable) {
		return
	}
	require.NoError(t, err)
	offset, _, err := bus.Pages(b)
	require.NoError(t, err)
	assert.Equal(t, offset, d.IOVA%uint64(os.Getpagesize()), "offset in the page")
	for i := range b[:2500] {
		b[i] = byte(i * 7)
	}
	require.EqualValues(t, CopyOK, r.copy(t, d.IOVA, d.IOVA+2500, 2500))
	assert.Equal(t, b[:2500], b[2500:])
	require.NoError(t, d.Close())
	assert.EqualValues(t, CopyFailed, r.copy(t, d.IOVA, d.IOVA+2500, 8), "closed")
}

func testInterrupts(t *testing.T, r *rig) {
	require.ErrorIs(t, r.f.EnableVectors(Vectors+1, func(int) {}), bus.ErrNoVectors)
	require.ErrorIs(t, r.f.EnableVectors(-1, func(int) {}), bus.ErrNoVectors)
	require.Error(t, r.f.EnableVectors(1, nil))
	s := r.bar(t, 0)
	s.Write32(RegGo, 1) // lost: no vector is enabled

	var mu sync.Mutex
	counts := map[int]int{}
	require.NoError(t, r.f.EnableVectors(Vectors, func(v int) {
		mu.Lock()
		defer mu.Unlock()
		counts[v]++
	}))
	count := func(v int) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[v]
	}
	for v := range Vectors {
		s.Write32(RegGo, uint32(v))
		require.Eventually(t, func() bool { return count(v) == 1 }, time.Minute, 100*time.Microsecond, "vector %d", v)
	}
	s.Write32(RegGo, Vectors) // no such vector

	var late atomic.Int32
	require.NoError(t, r.f.EnableVectors(2, func(int) { late.Add(1) }), "replaces the others")
	s.Write32(RegGo, 3)
	s.Write32(RegGo, 1)
	require.Eventually(t, func() bool { return late.Load() == 1 }, time.Minute, 100*time.Microsecond)
	assert.Equal(t, 1, count(3), "the vectors before are disabled")
	require.NoError(t, r.f.EnableVectors(0, nil))
	s.Write32(RegGo, 1)
	s.Read32(RegStatus)
	assert.EqualValues(t, 1, late.Load())
}

func testReset(t *testing.T, r *rig) {
	var n atomic.Int32
	require.NoError(t, r.f.EnableVectors(1, func(int) { n.Add(1) }))
	s := r.bar(t, 0)
	s.Write32(RegScratch, 5)
	r.f.Config().Write16(bus.ConfigCommand, 6)
	assert.EqualValues(t, 6, r.f.Config().Read16(bus.ConfigCommand))
	before := r.d.Resets.Load()
	require.NoError(t, r.f.Reset())
	assert.Equal(t, before+1, r.d.Resets.Load())
	assert.Zero(t, s.Read32(RegScratch))
	assert.Zero(t, r.f.Config().Read16(bus.ConfigCommand))
	s.Write32(RegGo, 0)
	s.Read32(RegStatus)
	assert.Zero(t, n.Load(), "vectors are disabled")
}

// testFLR initiates a function level reset in the configuration space.
func testFLR(t *testing.T, r *rig) {
	s := r.bar(t, 0)
	s.Write32(RegScratch, 5)
	c := r.f.Config()
	before := r.d.Resets.Load()
	c.Write16(expressAt+bus.ExpressDeviceControl, 0x0810)
	assert.EqualValues(t, 0x0810, c.Read16(expressAt+bus.ExpressDeviceControl))
	assert.Equal(t, before, r.d.Resets.Load())
	c.Write16(expressAt+bus.ExpressDeviceControl, bus.ExpressInitiateFLR|0x0810)
	assert.Zero(t, c.Read16(expressAt+bus.ExpressDeviceControl), "initial value")
	assert.Equal(t, before+1, r.d.Resets.Load())
	assert.Zero(t, s.Read32(RegScratch))
	c.Write8(expressAt+bus.ExpressDeviceControl+1, 0x80)
	assert.Zero(t, c.Read8(expressAt+bus.ExpressDeviceControl+1))
	assert.Equal(t, before+2, r.d.Resets.Load(), "one byte")
}

func testUnplug(t *testing.T, r *rig) {
	m, err := r.f.AllocDMA(100)
	require.NoError(t, err)
	require.NoError(t, r.f.EnableVectors(2, func(int) {}))
	s := r.bar(t, 0)
	s.Write32(RegScratch, 5)
	require.EqualValues(t, 5, s.Read32(RegScratch))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // traffic
		for {
			select {
			case <-stop:
				return
			default:
				s.Write32(RegGo, 1)
				s.Read32(RegStatus)
			}
		}
	})
	r.unplug()
	select {
	case <-r.f.Gone():
	case <-time.After(time.Minute):
		require.Fail(t, "Gone is not closed")
	}
	close(stop)
	wg.Wait()
	assert.EqualValues(t, 0xffffffff, s.Read32(RegScratch))
	assert.EqualValues(t, 0xffff, r.f.Config().Read16(bus.ConfigVendorID))
	m.Bytes[0] = 1 // the memory remains
	require.NoError(t, m.Close())
	assert.Error(t, r.f.Reset())
	requireDetached(t, r.d)
}

func testClose(t *testing.T, r *rig) {
	m, err := r.f.AllocDMA(100)
	require.NoError(t, err)
	require.NoError(t, r.f.EnableVectors(2, func(int) {}))
	require.NoError(t, r.f.Close())
	require.NoError(t, r.f.Close(), "idempotent")
	require.NoError(t, m.Close(), "after the function")
	_, err = r.f.AllocDMA(100)
	require.Error(t, err)
	require.Error(t, r.f.EnableVectors(1, func(int) {}))
	require.Error(t, r.f.Reset())
	requireDetached(t, r.d)
	assert.NotZero(t, r.d.Resets.Load(), "the device is reset")
}

// requireDetached waits until the device has no host.
func requireDetached(t *testing.T, d *Device) {
	t.Helper()
	require.Eventually(t, func() bool { return d.Detached.Load() == d.Attached.Load() }, time.Minute, time.Millisecond)
}
