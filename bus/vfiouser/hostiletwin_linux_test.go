package vfiouser

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/bustest"
)

// newTwins returns a server's end of a twin socket and the client's end of it.
func newTwins(t *testing.T, maxData int) (s *twin, client *conn) {
	s, err := newTwin(maxData)
	require.NoError(t, err)
	t.Cleanup(s.close)
	c, err := unixConn(s.peer)
	require.NoError(t, err)
	s.peer = nil
	t.Cleanup(func() { c.Close() })
	return s, &conn{c: c}
}

// TestTwinReplies answers an access with what is not its reply. The access fails, and so does every later one, unless
// the client only refused it.
func TestTwinReplies(t *testing.T) {
	good := func(h header, b []byte) (header, []byte) {
		return header{ID: h.ID, Command: h.Command, Flags: flagReply}, b
	}
	for name, c := range map[string]struct {
		reply func(h header, b []byte) (header, []byte)
		ends  bool // the socket
	}{
		"a refusal": {func(h header, b []byte) (header, []byte) {
			h, _ = good(h, b)
			h.Flags, h.Errno = h.Flags|flagError, uint32(unix.EFAULT)
			return h, nil
		}, false},
		"another request's": {func(h header, b []byte) (header, []byte) {
			h, b = good(h, b)
			h.ID++
			return h, b
		}, true},
		"another command's": {func(h header, b []byte) (header, []byte) {
			h, b = good(h, b)
			h.Command = cmdDMAWrite
			return h, b
		}, true},
		"a request": {func(h header, b []byte) (header, []byte) { return h, b }, true},
		"too few bytes": {func(h header, b []byte) (header, []byte) {
			h, b = good(h, b)
			return h, b[1:]
		}, true},
		"too many bytes": {func(h header, b []byte) (header, []byte) {
			h, b = good(h, b)
			return h, append(b, 1)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newTwins(t, 16)
			done := make(chan struct{})
			go func() {
				defer close(done)
				buf := make([]byte, maxMessage)
				for i := 0; ; i++ {
					m, err := client.receive(buf)
					if err != nil {
						return
					}
					b := append(append([]byte(nil), m.body...), make([]byte, 8)...)
					h, b := good(m.header, b)
					if i == 0 {
						h, b = c.reply(m.header, b)
					}
					if client.send(h, append(start(0), b...)) != nil {
						return
					}
				}
			}()
			p := make([]byte, 8)
			require.Error(t, s.access(cmdDMARead, 4096, p))
			err := s.access(cmdDMARead, 4096, p)
			assert.Equal(t, c.ends, err != nil, "%v", err)
			s.close()
			<-done
		})
	}
}

// TestTwinPieces transfers more than a message may hold, and operates on words.
func TestTwinPieces(t *testing.T) {
	s, client := newTwins(t, 16)
	f := &Function{memory: bus.NewMap(), c: client, twin: client, twinEnded: make(chan struct{})}
	go f.serveTwin()
	b := make([]byte, 4096)
	require.NoError(t, f.memory.AddMemory(4096, bus.Memory{Bytes: b}))
	m := &farMemory{s, 4096}
	want := make([]byte, 100)
	for i := range want {
		want[i] = byte(i + 1)
	}
	n, err := m.WriteAt(want, 8)
	require.NoError(t, err)
	assert.Equal(t, 100, n)
	assert.Equal(t, want, b[8:108])
	got := make([]byte, 100)
	_, err = m.ReadAt(got, 8)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	old, err := m.FetchAdd(256, 5)
	require.NoError(t, err)
	assert.Zero(t, old)
	old, err = m.CompareSwap(256, 4, 9)
	require.NoError(t, err)
	assert.EqualValues(t, 5, old, "no swap")
	old, err = m.CompareSwap(256, 5, 9)
	require.NoError(t, err)
	assert.EqualValues(t, 5, old)
	old, err = m.FetchAdd(256, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 9, old)
	_, err = m.ReadAt(got, 4090)
	require.ErrorIs(t, err, errRefused, "beyond the end")
	_, err = m.WriteAt(got, 4090)
	require.ErrorIs(t, err, errRefused, "beyond the end")
	_, err = m.FetchAdd(8192, 1)
	require.ErrorIs(t, err, errRefused, "beyond the end")
	f.stopTwin()
	_, err = m.ReadAt(got, 8)
	require.Error(t, err)
	require.NotErrorIs(t, err, errRefused)
}

// TestTwinRequests sends requests to a driver's side that are not valid. Each is refused, and the socket remains.
func TestTwinRequests(t *testing.T) {
	s, client := newTwins(t, maxData)
	f := &Function{memory: bus.NewMap(), c: client, twin: client, twinEnded: make(chan struct{})}
	go f.serveTwin()
	defer f.stopTwin()
	require.NoError(t, f.memory.AddMemory(4096, bus.Memory{Bytes: make([]byte, 4096)}))
	buf := make([]byte, maxMessage)
	for _, c := range []struct {
		name    string
		command uint16
		a       dmaAccess
		data    int
		want    unix.Errno
	}{
		{"a command of the client", cmdRegionRead, dmaAccess{4096, 8}, 0, unix.ENOTSUP},
		{"no bytes", cmdDMARead, dmaAccess{4096, 0}, 0, unix.EINVAL},
		{"more bytes than a message holds", cmdDMARead, dmaAccess{4096, maxData + 1}, 0, unix.EINVAL},
		{"a size that wraps around", cmdDMARead, dmaAccess{4096, 1<<64 - 1}, 0, unix.EINVAL},
		{"a read with data", cmdDMARead, dmaAccess{4096, 8}, 8, unix.EINVAL},
		{"a write with fewer data", cmdDMAWrite, dmaAccess{4096, 8}, 7, unix.EINVAL},
		{"a write with more data", cmdDMAWrite, dmaAccess{4096, 8}, 9, unix.EINVAL},
		{"below the memory", cmdDMARead, dmaAccess{4095, 8}, 0, unix.EFAULT},
		{"beyond the memory", cmdDMAWrite, dmaAccess{8190, 8}, 8, unix.EFAULT},
		{"a read", cmdDMARead, dmaAccess{4096, 8}, 0, 0},
		{"a write", cmdDMAWrite, dmaAccess{8184, 8}, 8, 0},
	} {
		b := append(c.a.append(start(0)), make([]byte, c.data)...)
		require.NoError(t, s.c.send(header{ID: 3, Command: c.command}, b), c.name)
		require.NoError(t, s.c.c.SetReadDeadline(time.Now().Add(time.Minute)))
		m, err := s.c.receive(buf)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, unix.Errno(m.Errno), c.name)
		assert.Equal(t, c.want != 0, m.Flags&flagError != 0, c.name)
	}
	require.NoError(t, s.c.send(header{ID: 4, Command: cmdDMARead}, start(0)))
	m, err := s.c.receive(buf)
	require.NoError(t, err)
	assert.Equal(t, unix.EINVAL, unix.Errno(m.Errno), "a short request")
}

// TestTwinAbsent connects to a server without a twin socket, and to one whose reply lacks the descriptor.
func TestTwinAbsent(t *testing.T) {
	f := new(Function)
	_, err := f.MapDMA(bus.Memory{Bytes: make([]byte, os.Getpagesize())})
	require.ErrorIs(t, err, bus.ErrNotMappable)
	require.ErrorContains(t, f.startTwin(&message{}, 0), "descriptor 0 of 0")
	require.ErrorContains(t, f.startTwin(&message{}, -1), "descriptor -1 of 0")

	p, done := newPeer(t, bustest.New()) // a peer that does not offer it gets none
	p.hello()
	p.c.c.Close()
	require.Error(t, <-done)
}

// TestTwinEnds ends a client while the device waits for its memory. The access fails.
func TestTwinEnds(t *testing.T) {
	s, client := newTwins(t, maxData)
	failed := make(chan error, 1)
	go func() { failed <- s.access(cmdDMARead, 4096, make([]byte, 8)) }()
	_, err := client.receive(make([]byte, maxMessage))
	require.NoError(t, err)
	require.NoError(t, client.c.Close())
	err = <-failed
	require.Error(t, err)
	require.NotErrorIs(t, err, errRefused)
}
