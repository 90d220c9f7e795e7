package ibsim

import (
	"encoding/binary"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOtherUser sends messages as another user, which are not accepted: a connect, and a disconnect of a client. The
// descriptors that they bring are closed.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can send as another user")
	}
	_, s := serve(t, Config{})
	p := connected(t, s, "h1", false)
	evil := open(t, s)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	as := func(uid uint32) []byte {
		return unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uid, Gid: uid})
	}
	send := func(typ uint32, data []byte, uid uint32) {
		c := control{client: p.number, typ: typ, length: uint32(len(data))}
		copy(c.data[:], data)
		var b [controlLen]byte
		c.put(&b)
		from := evil
		if typ != typeConnect {
			from = p
		}
		raw, err := from.ctl.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			err = unix.Sendmsg(int(fd), b[:], append(as(uid), unix.UnixRights(int(write.Fd()))...), nil, 0)
		}))
		require.NoError(t, err)
	}
	data := make([]byte, offNode+nodeNameLen)
	binary.NativeEndian.PutUint32(data, evil.process)
	send(typeConnect, data, 65534)
	send(typeDisconnect, nil, 1)
	send(typeGetPort, nil, 0) // root may
	var b [controlLen]byte
	n, err := p.ctl.Read(b[:])
	require.NoError(t, err)
	c, ok := parseControl(b[:n])
	require.True(t, ok)
	assert.EqualValues(t, typeGetPort, c.typ, "the only response")
	assert.Equal(t, 1, s.Clients())
	require.NoError(t, write.Close())
	_, err = read.Read(b[:])
	assert.ErrorIs(t, err, io.EOF, "no descriptor remains")
}
