package uverbs

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/kproxy/schema"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
)

// carrier copies memory for a daemon that does not reach it. The first bytes of memory are asked for when it is
// registered.
type carrier struct {
	mu     sync.Mutex
	tokens []uint64
	addrs  []uint64
	wait   sync.WaitGroup
}

var errUnknown = errors.New("not registered")

// serve serves a socket until it is closed. It has memory with the tokens 1 to 99.
func (c *carrier) serve(f *os.File) {
	c.wait.Go(func() {
		defer f.Close()
		native.ServeCopies(f, func(q *schema.Copy, _ []byte) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.tokens, c.addrs = append(c.tokens, q.Token), append(c.addrs, q.Addr)
			if q.Token == 0 || q.Token > 99 {
				return errUnknown
			}
			return nil
		})
	})
}

// TestCopiedRegistration registers memory that the daemon does not reach. The carrier gets one socket for copies, and
// repeats the call with its number of the memory.
func TestCopiedRegistration(t *testing.T) {
	r := newRigOf(t, kproxy.Config{ClientCopies: true, CopyTimeout: 2 * time.Minute})
	var c carrier
	t.Cleanup(c.wait.Wait) // after the file was closed
	p := r.context()
	var pd allocPDResp
	p.must(cmdAllocPD, allocPD{replyAddr}, &pd)
	reg := func(addr, token uint64) *devices.Reply {
		return p.f.Call(&devices.Request{Data: encode(cmdRegMR, regMR{Response: replyAddr, Start: addr, Length: 64,
			HCAVA: addr, PDHandle: pd.PDHandle, AccessFlags: accessLocalWrite}, nil, 76), Token: token})
	}
	status := func() kproxy.ClientStatus { return r.core.Status().Clients[0] }
	unsent := reg(0x1000, 0)
	require.NotNil(t, unsent.Copies)
	require.NoError(t, unsent.Copies.Close())
	unsent.Unsent() // the carrier did not get the socket
	first := reg(0x1000, 0)
	require.NotNil(t, first.Copies)
	assert.Equal(t, syscall.EFAULT, first.Errno, "the result, if the carrier does not copy")
	assert.Empty(t, first.Stores)
	assert.Zero(t, status().Objects[schema.KindMR.String()])
	c.serve(first.Copies)

	again := reg(0x1000, 0)
	assert.Nil(t, again.Copies, "the carrier has the socket")
	assert.Equal(t, syscall.EFAULT, again.Errno)
	unknown := reg(0x1000, 100)
	assert.Nil(t, unknown.Copies)
	assert.Equal(t, syscall.EFAULT, unknown.Errno, "the carrier does not copy the memory")

	done := reg(0x2000, 7)
	require.Zero(t, done.Errno)
	require.Len(t, done.Stores, 1)
	handle := ne.Uint32(done.Stores[0].Data)
	change := reregMR{Response: replyAddr, MRHandle: handle, Flags: reregTranslation, Start: 0x3000, Length: 64,
		HCAVA: 0x3000}
	rereg := func(token uint64) syscall.Errno {
		return p.f.Call(&devices.Request{Data: encode(cmdReregMR, change, nil, 72), Token: token}).Errno
	}
	assert.Equal(t, syscall.EFAULT, rereg(100))
	assert.Zero(t, rereg(8))
	change.Flags, change.AccessFlags = reregAccess, accessLocalWrite
	assert.Zero(t, rereg(0), "no memory")
	assert.Equal(t, 1, status().Objects[schema.KindMR.String()])
	p.must(cmdDeregMR, byHandle{handle}, nil)
	assert.Zero(t, status().Objects[schema.KindMR.String()])

	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(t, []uint64{0, 100, 7, 100, 8}, c.tokens)
	assert.Equal(t, []uint64{0x1000, 0x1000, 0x2000, 0x3000, 0x3000}, c.addrs)
}
