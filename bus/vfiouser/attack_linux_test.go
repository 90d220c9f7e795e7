package vfiouser

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/bus/bustest"
)

// share maps a file of 2 pages for the device, at address 0.
func (p *peer) share(f *os.File) {
	size := 2 * uint64(os.Getpagesize())
	errno, _ := p.request(cmdDMAMap, (&dmaMap{dmaRead | dmaWrite, 0, 0, size}).append(nil), f)
	require.Zero(p.t, errno)
}

// post writes to a register of the device, without a reply.
func (p *peer) post(off uint64, value []byte) {
	b := append((&access{off, 0, uint32(len(value))}).append(start(0)), value...)
	require.NoError(p.t, p.c.send(header{Command: cmdRegionWrite, Flags: flagNoReply}, b))
}

// copy has the device copy 8 bytes between two addresses, and raise vector 0.
func (p *peer) copy(from, to uint64) {
	p.post(bustest.RegSource, binary.LittleEndian.AppendUint64(nil, from))
	p.post(bustest.RegTarget, binary.LittleEndian.AppendUint64(nil, to))
	p.post(bustest.RegLength, binary.LittleEndian.AppendUint32(nil, 8))
	p.post(bustest.RegGo, make([]byte, 4))
}

// status returns the result of a copy.
func (p *peer) status() uint32 {
	errno, b := p.request(cmdRegionRead, (&access{bustest.RegStatus, 0, 4}).append(nil))
	require.Zero(p.t, errno)
	return binary.LittleEndian.Uint32(b[accessSize:])
}

// TestTruncated truncates memory that the device accesses. The connection ends with the reason, and the process lives;
// memory that is sealed cannot be truncated.
func TestTruncated(t *testing.T) {
	page := int64(os.Getpagesize())
	onDisk, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	require.NoError(t, err)
	defer onDisk.Close()
	require.NoError(t, onDisk.Truncate(2*page))
	for name, f := range map[string]*os.File{"memfd": unsealed(t, 2*page), "file": onDisk} {
		for way, addrs := range map[string][2]uint64{"read": {uint64(page), 0}, "write": {0, uint64(page)}} {
			require.NoError(t, f.Truncate(2*page))
			p, done := newPeer(t, bustest.New())
			p.hello()
			p.share(f)
			p.copy(addrs[0], addrs[1])
			require.EqualValues(t, bustest.CopyOK, p.status(), name)
			require.NoError(t, f.Truncate(page))
			p.copy(addrs[0], addrs[1])
			require.ErrorContains(t, <-done, "is missing at 0x1000", "%s: %s", name, way)
		}
	}

	sealed := file(t, 2)
	p, done := newPeer(t, bustest.New())
	p.hello()
	p.share(sealed)
	require.ErrorIs(t, sealed.Truncate(0), unix.EPERM)
	p.copy(uint64(page), 0)
	require.EqualValues(t, bustest.CopyOK, p.status())
	p.stop()
	require.Error(t, <-done)
}

// TestFullCounter has the device raise an interrupt whose eventfd blocks, since the client has filled its counter and
// changed the mode that both share. The session ends with its context nevertheless.
func TestFullCounter(t *testing.T) {
	p, done := newPeer(t, bustest.New())
	p.hello()
	memory := file(t, 2)
	p.share(memory)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	event := os.NewFile(uintptr(fd), "event")
	defer event.Close()
	errno, _ := p.request(cmdSetIRQs, (&setIRQs{irqDataEvent | irqTrigger, irqMSIX, 0, 1}).append(nil), event)
	require.Zero(t, errno)
	_, err = unix.Write(fd, binary.NativeEndian.AppendUint64(nil, math.MaxUint64-1))
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, false))
	_, err = memory.WriteAt([]byte("new data"), 0)
	require.NoError(t, err)
	p.copy(0, 4096)
	b := make([]byte, 8)
	require.Eventually(t, func() bool { // the interrupt follows
		_, err := memory.ReadAt(b, 4096)
		return err == nil && string(b) == "new data"
	}, time.Minute, time.Millisecond)
	p.stop()
	require.Error(t, <-done)
}

// TestSilentTwin ends the context while the device waits for a client that does not answer.
func TestSilentTwin(t *testing.T) {
	p, done := newPeer(t, bustest.New())
	v := version{Capabilities: capabilities{MaxFiles: 8, MaxData: minData, Twin: &twinSocket{Supported: true}}}
	require.NoError(t, p.c.send(header{ID: 1, Command: cmdVersion}, v.append(start(256))))
	m, err := p.c.receive(make([]byte, maxMessage))
	require.NoError(t, err)
	require.Len(t, m.files, 1)
	c, err := unixConn(m.files[0])
	require.NoError(t, err)
	defer c.Close()
	errno, _ := p.request(cmdDMAMap, (&dmaMap{dmaRead | dmaWrite, 0, 0, 1 << 20}).append(nil))
	require.Zero(t, errno)
	p.copy(0, 4096)
	_, err = (&conn{c: c}).receive(make([]byte, maxMessage))
	require.NoError(t, err, "the device's request")
	p.stop()
	require.Error(t, <-done)
}

// TestSmallTwin offers a twin socket with transfers so small that an access takes forever.
func TestSmallTwin(t *testing.T) {
	p, done := newPeer(t, bustest.New())
	v := version{Capabilities: capabilities{MaxFiles: 8, MaxData: minData - 1, Twin: &twinSocket{Supported: true}}}
	errno, _ := p.request(cmdVersion, v.append(nil))
	assert.Equal(t, unix.EINVAL, errno)
	p.c.c.Close()
	require.Error(t, <-done)
}

// TestForeignFile sends a file of a file system that could be a process. It ends the connection before any system call
// on the file.
func TestForeignFile(t *testing.T) {
	f, err := os.Open("/proc/self/status")
	require.NoError(t, err)
	defer f.Close()
	p, done := newPeer(t, bustest.New())
	p.hello()
	require.NoError(t, p.c.send(header{Command: cmdDMAMap}, (&dmaMap{dmaRead, 0, 0, 4096}).append(start(0)), f))
	require.ErrorIs(t, <-done, errForeign)
}

// TestBudget maps the most that a process may, and more.
func TestBudget(t *testing.T) {
	var b budget
	for range maxMappings {
		require.True(t, b.reserve(1))
	}
	assert.False(t, b.reserve(1))
	b.release(1)
	assert.True(t, b.reserve(1))
	assert.False(t, new(budget).reserve(maxMapped+1))
	assert.False(t, new(budget).reserve(math.MaxUint64))
}
