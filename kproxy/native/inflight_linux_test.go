package native

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/clock"
	"ciddk/internal/passedfd"
)

// outbox is an outlet and the other end of its socket.
type outbox struct {
	*outlet
	f      *flights
	socket *os.File
	theirs int
}

// newOutbox returns an outlet of a process.
func newOutbox(t *testing.T, f *flights, p *passer) *outbox {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fds[1]) })
	b := &outbox{f: f, socket: os.NewFile(uintptr(fds[0]), "outlet"), theirs: fds[1]}
	t.Cleanup(func() { b.socket.Close() })
	raw, err := b.socket.SyscallConn()
	require.NoError(t, err)
	b.outlet = &outlet{p: p, raw: raw}
	return b
}

// send sends a message that counts as n descriptors.
func (b *outbox) send(n int) error {
	err := b.f.take(b.outlet, n, true)
	if err == nil {
		_, err = b.socket.Write([]byte{1})
		b.f.sent(b.outlet, n, err)
	}
	return err
}

// recv receives a message.
func (b *outbox) recv(t *testing.T) {
	_, _, err := unix.Recvfrom(b.theirs, make([]byte, 1), unix.MSG_DONTWAIT)
	require.NoError(t, err)
}

func newPasser(uid int) *passer {
	return &passer{uid: uid, discard: passedfd.NewDiscarder(clock.Real()), ended: make(chan struct{})}
}

// TestFlights uses up each limit, which an error names. What is received, or in a socket whose other end is closed, can
// be passed again, and nothing remains at the end.
func TestFlights(t *testing.T) {
	f := newFlights(256)
	require.Equal(t, []int{32, 16, 8}, []int{f.most, f.mostOfUser, f.mostOfClient})
	f.mostOfClient = 10
	a := newPasser(1)
	first, second, same := newOutbox(t, f, a), newOutbox(t, f, a), newOutbox(t, f, newPasser(1))
	require.NoError(t, first.send(2))
	require.NoError(t, second.send(8))
	require.ErrorIs(t, second.send(1), ErrInFlight)
	require.ErrorContains(t, second.send(1), "10 of this client")
	require.NoError(t, same.send(6))
	require.ErrorContains(t, same.send(1), "16 of user 1")
	require.EqualValues(t, 3, f.refused)

	other, third := newOutbox(t, f, newPasser(2)), newOutbox(t, f, newPasser(3))
	require.NoError(t, other.send(8))
	require.NoError(t, third.send(8))
	require.ErrorContains(t, third.send(1), "32 of all clients")
	first4, second4 := newOutbox(t, f, newPasser(4)), newOutbox(t, f, newPasser(4))
	require.NoError(t, first4.send(8), "the first message of a user")
	require.ErrorContains(t, second4.send(1), "40 of all clients")
	first4.recv(t)
	f.reserve = 33
	require.ErrorContains(t, first4.send(2), "32 of all clients")
	require.NoError(t, first4.send(1))
	first4.recv(t)
	first.recv(t)
	require.NoError(t, third.send(2), "two were received")
	require.Error(t, third.send(1))
	require.NoError(t, unix.Shutdown(other.theirs, unix.SHUT_RDWR))
	require.Error(t, third.send(1), "the queue of the other end still has the message")
	require.NoError(t, unix.Close(other.theirs))
	other.theirs = -1
	require.NoError(t, same.send(2))
	second.recv(t)
	same.recv(t)
	require.False(t, f.settle(same.outlet), "of two messages, one was received")
	same.recv(t)
	third.recv(t)
	third.recv(t)
	f.mu.Lock()
	f.sweep(f.outlets)
	f.mu.Unlock()
	assert.Zero(t, f.count)
	assert.Empty(t, f.users)
	assert.Empty(t, f.outlets)
	assert.Zero(t, a.count)
}

// TestFlightThatFails ends messages that were not sent.
func TestFlightThatFails(t *testing.T) {
	f := newFlights(256)
	b := newOutbox(t, f, newPasser(1))
	require.NoError(t, f.take(b.outlet, 3, true))
	f.sweep(f.outlets)
	require.Equal(t, 3, f.count, "the message has not been sent yet, and the socket is empty")
	f.sent(b.outlet, 3, syscall.EPIPE)
	assert.Zero(t, f.count)
	assert.Empty(t, f.outlets)
	f.end(b.outlet)
	require.Error(t, f.take(b.outlet, 1, true), "the connection has ended")
}

// TestHeldBack sends more descriptors than the other end receives. The message beyond the limit waits until it has
// received the earlier ones.
func TestHeldBack(t *testing.T) {
	peer, c := guarded(t)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	most := inFlight().mostOfClient
	one := []*os.File{null}
	for range most {
		require.NoError(t, c.Send([]byte{1}, one))
	}
	require.NoError(t, c.Send([]byte{2}, nil), "without descriptors")
	require.NoError(t, c.c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
	require.ErrorIs(t, c.Send([]byte{3}, one), os.ErrDeadlineExceeded)
	require.NoError(t, c.c.SetWriteDeadline(time.Time{}))
	done := make(chan error)
	go func() { done <- c.Send([]byte{4}, one) }()
	recv := func() (byte, int) {
		b := make([]byte, 1)
		_, files, err := peer.Recv(b)
		require.NoError(t, err)
		CloseFiles(files)
		return b[0], len(files)
	}
	for range most {
		kind, n := recv()
		require.Equal(t, []int{1, 1}, []int{int(kind), n})
	}
	kind, n := recv()
	require.Equal(t, []int{2, 0}, []int{int(kind), n})
	kind, n = recv()
	require.Equal(t, []int{4, 1}, []int{int(kind), n})
	require.NoError(t, <-done)
}

// TestCloseWithDescriptorsInFlight closes a connection whose other end has not received the descriptors. They count
// until it has. The other end receives them and io.EOF, and cannot send.
func TestCloseWithDescriptorsInFlight(t *testing.T) {
	for name, messages := range map[string]int{"received": 3, "closed": 0, "received and closed": 1} {
		peer, c := guarded(t)
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		for range 3 {
			require.NoError(t, c.Send([]byte{1}, []*os.File{null, null}))
		}
		require.NoError(t, peer.Send([]byte{1}, nil))
		require.NoError(t, c.Close(), name)
		count, _ := InFlight()
		require.Equal(t, 6, count)
		require.NoError(t, c.Close(), "again")
		_, _, err = c.Recv(make([]byte, 1))
		require.Error(t, err, "no message is received after Close")
		require.Error(t, c.Send([]byte{1}, []*os.File{null}))
		require.Error(t, c.Send([]byte{1}, nil))
		require.ErrorIs(t, peer.Send([]byte{1}, nil), syscall.EPIPE)
		for range messages {
			_, files, err := peer.Recv(make([]byte, 1))
			require.NoError(t, err)
			require.Len(t, files, 2)
			CloseFiles(files)
		}
		if messages == 3 {
			_, _, err = peer.Recv(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.NoError(t, peer.Close())
		}
		count, _ = InFlight()
		require.Zero(t, count, name)
		require.Empty(t, inFlight().left)
	}
}
