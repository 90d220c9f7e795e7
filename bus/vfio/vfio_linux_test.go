package vfio

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const address = "0000:03:00.0"

func TestFunction(t *testing.T) {
	bustest.Run(t, func(t *testing.T, d *bustest.Device) (bus.Function, func()) {
		k := newFake(d)
		f, err := open(k, address)
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, f.Close())
			assert.Empty(t, k.isOpen, "descriptors")
			assert.Zero(t, k.allocated, "bytes of memory")
			assert.Empty(t, k.vectors)
		})
		return f, k.unplug
	})
}

func TestOpenErrors(t *testing.T) {
	for _, tt := range []struct {
		name, address, want string
		change              func(k *fake)
	}{
		{"no function", "0000:04:00.0", "no IOMMU", func(*fake) {}},
		{"version", address, "version 1 of VFIO's interface, want 0", func(k *fake) { k.version = 1 }},
		{"IOMMU", address, "no type 1 IOMMU", func(k *fake) { k.extension = 0 }},
		{"group in use", address, "bind the function", func(k *fake) { k.isOpen[fakeGroup] = true }},
		{"group", address, "has other functions", func(k *fake) { k.groupStatus = 0 }},
		{"kind", address, "not a PCI function", func(k *fake) { k.info = infoReset }},
		{"rights", address, "operation not permitted", func(k *fake) { k.fail[groupSetContain] = unix.EPERM }},
		{"set IOMMU", address, "operation not permitted", func(k *fake) { k.fail[setIOMMU] = unix.EPERM }},
		{"device", address, "no such device", func(k *fake) { k.fail[groupGetDeviceFD] = unix.ENODEV }},
		{"region", address, "region 0", func(k *fake) { k.fail[deviceGetRegion] = unix.EIO }},
		{"interrupts", address, "interrupts 2", func(k *fake) { k.fail[deviceGetIRQ] = unix.EIO }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newFake(bustest.New())
			tt.change(k)
			busy := k.isOpen[fakeGroup]
			_, err := open(k, tt.address)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, tt.address)
			delete(k.isOpen, fakeGroup)
			assert.Empty(t, k.isOpen, "busy %v", busy)
		})
	}
}

func TestErrors(t *testing.T) {
	k := newFake(bustest.New())
	k.info = infoPCI
	f, err := open(k, address)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.ErrorContains(t, f.Reset(), "cannot be reset")
	k.fail[iommuMapDMA] = unix.ENOMEM
	_, err = f.AllocDMA(1)
	require.ErrorContains(t, err, "ulimit -l")
	assert.Zero(t, k.allocated)
	k.fail[deviceSetIRQs] = unix.ENOSPC
	require.ErrorIs(t, f.EnableVectors(2, func(int) {}), unix.ENOSPC)
}

// TestMapped checks accesses to registers that the kernel allows to map: the mapping has them, in little-endian order.
func TestMapped(t *testing.T) {
	d := bustest.New()
	k := newFake(d)
	k.mmap = make([]byte, d.BARs()[0].Size)
	f, err := open(k, address)
	require.NoError(t, err)
	s, err := f.BAR(0)
	require.NoError(t, err)
	s.Write64(8, 0x1122334455667788)
	s.Write32(16, 0x99aabbcc)
	assert.Equal(t, []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xcc, 0xbb, 0xaa, 0x99}, k.mmap[8:20])
	assert.EqualValues(t, 0x1122334455667788, s.Read64(8))
	assert.EqualValues(t, 0x55667788, s.Read32(8))
	s.Write8(bustest.RegScratch, 7)
	assert.Zero(t, k.mmap[bustest.RegScratch], "small accesses are system calls")
	assert.EqualValues(t, 7, s.Read8(bustest.RegScratch))
	require.NoError(t, f.Close())
	s.Write32(16, 1)
	assert.EqualValues(t, 0xffffffff, s.Read32(16), "closed")
}

// TestMapDMA maps memory of the caller.
func TestMapDMA(t *testing.T) {
	k := newFake(bustest.New())
	f, err := open(k, address)
	require.NoError(t, err)
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	m, err := f.MapDMA(bus.Memory{Bytes: b})
	require.NoError(t, err)
	require.True(t, k.memory.Write(m.IOVA+5, []byte{1, 2}))
	assert.Equal(t, []byte{0, 1, 2}, b[4:7])
	require.NoError(t, f.Close())
	require.False(t, k.memory.Write(m.IOVA+5, []byte{1}))
	b[0] = 1 // it is still the caller's
	require.NoError(t, unix.Munmap(b))
}
