package vfiouser

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/bus/bustest"
	"ciddk/clock"
	"ciddk/internal/memfd"
	"ciddk/internal/passedfd"
)

// peer is a driver's side that sends any messages.
type peer struct {
	t    *testing.T
	c    *conn
	stop func() // ends the server's context
}

// newPeer connects to a server of a device. The server's error is sent to done.
func newPeer(t *testing.T, d *bustest.Device) (p *peer, done chan error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		ends[i] = c.(*net.UnixConn)
	}
	done = make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { done <- serveConn(ctx, ends[1], d, passedfd.NewDiscarder(clock.Real())) }()
	t.Cleanup(func() {
		stop()
		ends[0].Close()
	})
	return &peer{t, &conn{c: ends[0]}, stop}, done
}

// request sends a request and returns the reply.
func (p *peer) request(command uint16, body []byte, files ...*os.File) (unix.Errno, []byte) {
	require.NoError(p.t, p.c.send(header{ID: 9, Command: command}, append(start(0), body...), files...))
	require.NoError(p.t, p.c.c.SetReadDeadline(time.Now().Add(time.Minute)))
	m, err := p.c.receive(make([]byte, maxMessage))
	require.NoError(p.t, err)
	require.True(p.t, m.isReply())
	require.Equal(p.t, command, m.Command)
	require.EqualValues(p.t, 9, m.ID)
	return unix.Errno(m.Errno), m.body
}

func (p *peer) hello() {
	v := version{Capabilities: capabilities{MaxFiles: 8, MaxData: 1 << 20}}
	errno, body := p.request(cmdVersion, v.append(nil))
	require.Zero(p.t, errno)
	got, err := parseVersion(body)
	require.NoError(p.t, err)
	require.Equal(p.t, capabilities{MaxFiles: maxFiles, MaxData: maxData}, got.Capabilities)
}

// file returns a memfd of n pages.
func file(t *testing.T, n int) *os.File {
	f, err := memfd.Create("test", n*os.Getpagesize())
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// unsealed returns a memfd that can be truncated.
func unsealed(t *testing.T, size int64) *os.File {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	require.NoError(t, f.Truncate(size))
	return f
}

// sparse returns a memfd that is larger than what a server maps.
func sparse(t *testing.T) *os.File { return unsealed(t, 1<<45) }

// TestErrors sends requests that are not valid. Each has the error number stated, and the connection remains.
func TestErrors(t *testing.T) {
	p, done := newPeer(t, bustest.New())
	p.hello()
	page := uint64(os.Getpagesize())
	mapping := func(flags uint32, off, iova, size uint64) []byte {
		return (&dmaMap{flags, off, iova, size}).append(nil)
	}
	irqs := func(flags, index, first, count uint32) []byte {
		return (&setIRQs{flags, index, first, count}).append(nil)
	}
	read := func(off uint64, region, count uint32) []byte { return (&access{off, region, count}).append(nil) }
	one, two := file(t, 1), file(t, 2)
	pipe, _, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	for _, c := range []struct {
		name    string
		command uint16
		body    []byte
		files   []*os.File
		want    unix.Errno
	}{
		{"an unknown command", 99, nil, nil, unix.ENOTSUP},
		{"dirty pages", 16, nil, nil, unix.ENOTSUP},
		{"a second VERSION", cmdVersion, (&version{}).append(nil), nil, unix.EINVAL},
		{"an empty DMA_MAP", cmdDMAMap, nil, nil, unix.EINVAL},
		{"an unaligned address", cmdDMAMap, mapping(3, 0, 1, page), []*os.File{one}, unix.EINVAL},
		{"an unaligned size", cmdDMAMap, mapping(3, 0, 0, page+1), []*os.File{one}, unix.EINVAL},
		{"size 0", cmdDMAMap, mapping(3, 0, 0, 0), []*os.File{one}, unix.EINVAL},
		{"no rights", cmdDMAMap, mapping(0, 0, 0, page), []*os.File{one}, unix.EINVAL},
		{"beyond the end of the file", cmdDMAMap, mapping(3, 0, 0, 2*page), []*os.File{one}, unix.EINVAL},
		{"an offset beyond the end", cmdDMAMap, mapping(3, 1<<60, 0, page), []*os.File{one}, unix.EINVAL},
		{"beyond the address space", cmdDMAMap, mapping(3, 0, -page, 2*page), []*os.File{two}, unix.EINVAL},
		{"two files", cmdDMAMap, mapping(3, 0, 0, page), []*os.File{one, two}, unix.EINVAL},
		{"a pipe", cmdDMAMap, mapping(3, 0, 0, page), []*os.File{pipe}, unix.EINVAL},
		{"more than the process may map", cmdDMAMap, mapping(3, 0, 0, 1<<45), []*os.File{sparse(t)}, unix.ENOSPC},
		{"memory", cmdDMAMap, mapping(3, 0, page, page), []*os.File{one}, 0},
		{"an overlap", cmdDMAMap, mapping(3, 0, 0, 2*page), []*os.File{two}, unix.EEXIST},
		{"a ROM", cmdDMAMap, mapping(1, 0, 4*page, page), nil, 0},
		{"not mapped", cmdDMAUnmap, (&dmaUnmap{0, 8 * page, page}).append(nil), nil, unix.ENOENT},
		{"part of the memory", cmdDMAUnmap, (&dmaUnmap{0, page, 1}).append(nil), nil, unix.ENOENT},
		{"unknown flags", cmdDMAUnmap, (&dmaUnmap{4, page, page}).append(nil), nil, unix.EINVAL},
		{"a short DMA_UNMAP", cmdDMAUnmap, make([]byte, 8), nil, unix.EINVAL},
		{"unmap all", cmdDMAUnmap, (&dmaUnmap{dmaUnmapAll, 0, 0}).append(nil), nil, 0},
		{"region 9", cmdGetRegionInfo, words(nil, 32, 0, 9, 0, 0, 0, 0, 0), nil, unix.EINVAL},
		{"a short GET_REGION_INFO", cmdGetRegionInfo, words(nil, 32, 0, 0), nil, unix.EINVAL},
		{"interrupt 5", cmdGetIRQInfo, words(nil, 16, 0, 5, 0), nil, unix.EINVAL},
		{"interrupt index 5", cmdSetIRQs, irqs(0x24, 5, 0, 1), nil, unix.EINVAL},
		{"too many vectors", cmdSetIRQs, irqs(0x24, irqMSIX, 0, bustest.Vectors+1), nil, unix.EINVAL},
		{"vectors that wrap around", cmdSetIRQs, irqs(0x24, irqMSIX, 1<<32-1, 2), nil, unix.EINVAL},
		{"INTx, which the device does not have", cmdSetIRQs, irqs(0x24, irqINTx, 0, 1), nil, unix.EINVAL},
		{"masking", cmdSetIRQs, irqs(0x09, irqMSIX, 0, 1), nil, unix.ENOTSUP},
		{"more eventfds than vectors", cmdSetIRQs, irqs(0x24, irqMSIX, 0, 1), []*os.File{one, two}, unix.EINVAL},
		{"short data", cmdSetIRQs, irqs(0x22, irqMSIX, 0, 2), nil, unix.EINVAL},
		{"a file that is no eventfd", cmdSetIRQs, irqs(0x24, irqMSIX, 1, 1), []*os.File{pipe}, unix.EINVAL},
		{"memory as an eventfd", cmdSetIRQs, irqs(0x24, irqMSIX, 1, 1), []*os.File{one}, unix.EINVAL},
		{"no eventfd", cmdSetIRQs, irqs(0x24, irqMSIX, 0, 1), nil, 0},
		{"a trigger", cmdSetIRQs, irqs(0x21, irqMSIX, 0, 3), nil, 0},
		{"beyond the BAR", cmdRegionRead, read(4096, 0, 1), nil, unix.EINVAL},
		{"across the end of the BAR", cmdRegionRead, read(4092, 0, 8), nil, unix.EINVAL},
		{"an offset that wraps around", cmdRegionRead, read(1<<64-4, 0, 8), nil, unix.EINVAL},
		{"an absent BAR", cmdRegionRead, read(0, 1, 4), nil, unix.EINVAL},
		{"region 12", cmdRegionRead, read(0, 12, 4), nil, unix.EINVAL},
		{"no bytes", cmdRegionRead, read(0, 0, 0), nil, unix.EINVAL},
		{"more bytes than a message holds", cmdRegionRead, read(0, 0, 1<<31), nil, unix.EINVAL},
		{"fewer bytes than stated", cmdRegionWrite, append(read(0, 0, 8), 1, 2), nil, unix.EINVAL},
		{"more bytes than stated", cmdRegionWrite, append(read(0, 0, 1), 1, 2), nil, unix.EINVAL},
		{"a long write", cmdRegionWrite, append(read(0, 2, 1<<16), make([]byte, 1<<16)...), nil, 0},
		{"all of the configuration space", cmdRegionRead, read(0, regionConfig, 4096), nil, 0},
	} {
		errno, _ := p.request(c.command, c.body, c.files...)
		assert.Equal(t, c.want, errno, c.name)
	}
	p.c.c.Close()
	require.ErrorIs(t, <-done, io.EOF)
}

// TestEnd sends what ends the connection.
func TestEnd(t *testing.T) {
	raw := func(h header) []byte {
		b := make([]byte, headerSize)
		h.put(b)
		return b
	}
	for name, c := range map[string]struct {
		hello bool
		send  []byte
		want  string
	}{
		"a size below the header's": {true, raw(header{Command: cmdReset, Size: 15}), "not valid"},
		"a size beyond the limit":   {true, raw(header{Command: cmdReset, Size: maxMessage + 1}), "not valid"},
		"an unknown type":           {true, raw(header{Command: cmdReset, Size: 16, Flags: 2}), "not valid"},
		"a reply":                   {true, raw(header{Command: cmdReset, Size: 16, Flags: 1}), "without a request"},
		"no VERSION":                {false, raw(header{Command: cmdReset, Size: 16}), "versions do not match"},
		"another version": {false, append(raw(header{Command: cmdVersion, Size: 20}), 1, 0, 0, 0),
			"versions do not match"},
		"half a header":  {true, raw(header{})[:7], "unexpected EOF"},
		"half a message": {true, raw(header{Command: cmdReset, Size: 100}), "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			d := bustest.New()
			p, done := newPeer(t, d)
			if c.hello {
				p.hello()
			}
			_, err := p.c.c.Write(c.send)
			require.NoError(t, err)
			require.NoError(t, p.c.c.CloseWrite())
			require.ErrorContains(t, <-done, c.want)
			assert.EqualValues(t, 1, d.Detached.Load())
			assert.EqualValues(t, 1, d.Resets.Load())
		})
	}
}

// TestListen replaces a socket file that is left over, and no other.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	require.NoError(t, err)
	_, err = Listen(path)
	require.ErrorContains(t, err, "another process listens")
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	l, err = Listen(path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Listen(path)
	require.Error(t, err)
}

// FuzzServer sends any messages, with descriptors of memory, eventfds and others. The server neither panics nor hangs.
func FuzzServer(f *testing.F) {
	add := func(command uint16, body []byte) []byte {
		b := append(start(0), body...)
		(&header{Command: command, Size: uint32(len(b))}).put(b)
		return b
	}
	hello := add(cmdVersion, (&version{}).append(nil))
	for _, c := range [][]byte{
		add(cmdDMAMap, (&dmaMap{3, 0, 4096, 4096}).append(nil)),
		add(cmdDMAUnmap, (&dmaUnmap{0, 4096, 4096}).append(nil)),
		add(cmdSetIRQs, (&setIRQs{0x24, irqMSIX, 0, 2}).append(nil)),
		add(cmdRegionWrite, append((&access{0x14, 0, 4}).append(nil), 0, 0, 0, 0)),
		add(cmdRegionRead, (&access{0, 7, 64}).append(nil)),
		add(cmdReset, nil),
	} {
		f.Add(append(append([]byte(nil), hello...), c...), uint8(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, files uint8) {
		d := bustest.New()
		p, done := newPeer(t, d)
		go func() { // replies
			_, _ = io.Copy(io.Discard, p.c.c)
		}()
		var list []int
		for i := range int(files % 4) {
			fd, err := unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC)
			require.NoError(t, err)
			defer unix.Close(fd)
			require.NoError(t, unix.Ftruncate(fd, int64(i)*4096))
			list = append(list, fd)
		}
		for len(b) > 0 { // each message with the descriptors
			n := len(b)
			if len(b) >= 8 {
				n = min(n, max(1, int(binary.LittleEndian.Uint32(b[4:])%4096)))
			}
			if _, _, err := p.c.c.WriteMsgUnix(b[:n], unix.UnixRights(list...), nil); err != nil {
				break
			}
			b = b[n:]
		}
		_ = p.c.c.CloseWrite() // fails if the server has closed the connection
		require.Error(t, <-done)
		require.Equal(t, d.Attached.Load(), d.Detached.Load())
	})
}
