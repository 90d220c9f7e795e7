package kproxy

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/kproxy/schema"
)

// helpedProcess returns a process whose memory only the client copies, and the client's end of the socket.
func helpedProcess(t *testing.T, c clock.Clock) (*process, *os.File) {
	return helpedProcessOf(t, c, os.Getuid(), nil)
}

// helpedProcessOf is helpedProcess for a user, with suspensions unless they are nil.
func helpedProcessOf(t *testing.T, c clock.Clock, uid int, s *suspensions) (*process, *os.File) {
	h, theirs, err := newHelper()
	require.NoError(t, err)
	t.Cleanup(func() { theirs.Close() })
	p := newProcess(Peer{PID: os.Getpid(), UID: uid}, 64, new(atomicLocks), c)
	p.isByClient, p.isTrusted = true, s == nil
	p.suspend(uid, s)
	_, err = p.memory(place{4096, 1}, 8, 0)
	require.ErrorIs(t, err, errByClient)
	require.NoError(t, p.help(h))
	require.ErrorIs(t, p.help(h), ci.InvalidState)
	return p, theirs
}

// TestCopiesUnsent has a socket for copies that cannot be sent to the client. The client may ask for another one.
func TestCopiesUnsent(t *testing.T) {
	p := newProcess(Peer{PID: os.Getpid(), UID: os.Getuid()}, 64, new(atomicLocks), clock.Real())
	defer p.close()
	c := &Session{proc: p}
	first, err := c.serveCopies()
	require.NoError(t, err)
	_, err = c.serveCopies()
	require.ErrorIs(t, err, ci.InvalidState)
	c.Undo(first)
	second, err := c.serveCopies()
	require.NoError(t, err)
	defer second.Files[0].Close()
	_, err = first.Files[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the daemon's end is closed")
	require.NoError(t, first.Files[0].Close())
	c.Undo(first)
	_, err = c.serveCopies()
	require.ErrorIs(t, err, ci.InvalidState, "the second one remains")
}

// TestHostileHelper has clients whose replies to copies do not match. The copy fails, and later ones do, too.
func TestHostileHelper(t *testing.T) {
	ok := func(r *schema.Copy) []byte { return (&schema.CopyReply{ID: r.ID}).Append(nil) }
	for name, answer := range map[string]func(r *schema.Copy) []byte{
		"another copy": func(r *schema.Copy) []byte { return append((&schema.CopyReply{ID: r.ID - 1}).Append(nil), 1) },
		"less data":    ok,
		"more data":    func(r *schema.Copy) []byte { return append(ok(r), make([]byte, 100)...) },
		"too long":     func(r *schema.Copy) []byte { return append(ok(r), make([]byte, schema.MaxCopy)...) },
		"short":        func(*schema.Copy) []byte { return []byte{1} },
		"end":          nil,
	} {
		t.Run(name, func(t *testing.T) {
			p, theirs := helpedProcess(t, clock.Real())
			defer p.close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer theirs.Close()
				b := make([]byte, 1000)
				n, err := theirs.Read(b)
				if !assert.NoError(t, err) || answer == nil {
					return
				}
				r, _, err := schema.ParseCopy(b[:n])
				assert.NoError(t, err)
				assert.Equal(t, schema.Copy{ID: 1, Token: 77, Addr: 4096, Length: 1, Kind: schema.CopyRead}, r)
				_, err = theirs.Write(answer(&r))
				assert.NoError(t, err)
				_, _ = theirs.Read(b) // the end: the daemon closes the socket
			}()
			_, err := p.memory(place{4096, 77}, 8, 0)
			require.ErrorIs(t, err, ci.InvalidPermission)
			_, err = p.memory(place{4096, 77}, 8, 0)
			require.ErrorIs(t, err, ci.InvalidPermission)
			<-done
		})
	}
}

// TestStoppedHelper has a client that replies to some copies and then stops. The next copy fails after the limit, later
// ones at once, and a late reply changes nothing.
func TestStoppedHelper(t *testing.T) {
	limit := clock.NewVirtual(0)
	p, theirs := helpedProcess(t, limit)
	requests := make(chan schema.Copy)
	go func() {
		defer close(requests)
		b := make([]byte, 1000)
		for {
			n, err := theirs.Read(b)
			if err != nil {
				return
			}
			r, _, err := schema.ParseCopy(b[:n])
			assert.NoError(t, err)
			requests <- r
		}
	}()
	answer := func(data int) {
		r := <-requests
		b := (&schema.CopyReply{ID: r.ID}).Append(nil)
		_, err := theirs.Write(append(b, make([]byte, data)...))
		assert.NoError(t, err)
	}
	result := make(chan error)
	var m ci.Memory
	go func() {
		var err error
		m, err = p.memory(place{4096, 77}, 8, ci.LocalWrite)
		result <- err
	}()
	answer(1)
	require.NoError(t, <-result)
	go func() {
		_, err := m.WriteAt(make([]byte, 8), 0)
		result <- err
	}()
	<-requests
	limit.Advance(2 * DefaultCopyTimeout)
	require.ErrorIs(t, <-result, errHelperStuck)
	_, err := m.ReadAt(make([]byte, 8), 0)
	require.ErrorIs(t, err, errHelperStuck)
	p.close()
	for range requests {
	}
}

// TestSuspension has a client that does not reply. Then no memory of its user is copied for a time, in no session.
// Other users and trusted processes are not affected.
func TestSuspension(t *testing.T) {
	limit, users := clock.NewVirtual(0), new(suspensions)
	const uid = 1000
	serve := func(theirs *os.File) {
		b := make([]byte, 1000)
		for {
			n, err := theirs.Read(b)
			if err != nil {
				return
			}
			r, _, err := schema.ParseCopy(b[:n])
			assert.NoError(t, err)
			if _, err = theirs.Write(append((&schema.CopyReply{ID: r.ID}).Append(nil), 0)); err != nil {
				return
			}
		}
	}
	register := func(uid int, s *suspensions) error {
		p, theirs := helpedProcessOf(t, limit, uid, s)
		defer p.close()
		go serve(theirs)
		_, err := p.memory(place{4096, 1}, 1, 0)
		return err
	}
	require.NoError(t, register(uid, users))

	p, theirs := helpedProcessOf(t, limit, uid, users)
	result := make(chan error)
	go func() {
		_, err := p.memory(place{4096, 1}, 1, 0)
		result <- err
	}()
	_, err := theirs.Read(make([]byte, 1000)) // no reply
	require.NoError(t, err)
	limit.Advance(2 * DefaultCopyTimeout)
	require.ErrorIs(t, <-result, errHelperStuck)
	p.close()

	require.ErrorIs(t, register(uid, users), errSuspended)
	require.NoError(t, register(uid+1, users))
	require.NoError(t, register(uid, nil))
	limit.Advance(suspendFor)
	require.NoError(t, register(uid, users))
	users.add(uid+1, limit.Elapsed())
	require.Len(t, users.until, 1, "those that have ended are forgotten")
}
