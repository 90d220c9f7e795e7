package ual_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
	"ciddk/kproxy"
)

// patience is the time that copies may take when the machine is busy.
const patience = 2 * time.Minute

// TestClientCopies registers memory that the daemon must not reach. The client copies it: requests, data in both
// directions over several messages, atomics.
func TestClientCopies(t *testing.T) {
	const write = ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead | ci.RemoteAtomic
	r := newRig(t, kproxy.Config{ClientCopies: true, CopyTimeout: patience})
	p := newPair(t, r.open(r.dial(), nil), ci.CQCreate{})
	const size = 200_000 // more than three messages
	source, target := make([]byte, size+3), make([]byte, size+3)
	for i := range source {
		source[i] = byte(i * 7)
	}
	from, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(source), Offset: 3, Length: size, Access: write})
	require.NoError(t, err)
	to, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(target), Access: write})
	require.NoError(t, err)
	run := func(wr ci.SendWR) {
		wr.ID, wr.Flags = 1, ci.SendSignaled
		_, err := p.a.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
		require.Equal(t, ci.WCSuccess, p.wait(1)[0].Status)
	}
	run(ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{from.Region().SGE(0, size)}, Remote: to.Region().Remote(0)})
	assert.Equal(t, source[3:], target[:size])
	assert.Equal(t, []byte{0, 0, 0}, target[size:])

	add := ci.SendWR{Op: ci.OpFetchAdd, Atomic: ci.Atomic{Compare: 5}, SGL: []ci.SGE{to.Region().SGE(8, 8)},
		Remote: to.Region().Remote(0)}
	clear(target[:16])
	target[0] = 7
	run(add)
	assert.Equal(t, []byte{12, 7}, []byte{target[0], target[8]})

	clear(target)
	run(ci.SendWR{Op: ci.OpRead, SGL: []ci.SGE{to.Region().SGE(1, 1000)}, Remote: from.Region().Remote(5)})
	assert.Equal(t, source[8:1008], target[1:1001])

	again, err := p.pd.RegisterSMR(to, 0, write)
	require.NoError(t, err)
	replaced := make([]byte, 100)
	require.NoError(t, to.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(replaced)}))
	clear(target)
	run(ci.SendWR{Op: ci.OpWrite, Inline: []byte("shared"), Remote: again.Region().Remote(0)})
	assert.Equal(t, "shared", string(target[:6]))

	run(ci.SendWR{Op: ci.OpWrite, Inline: []byte("replaced"), Remote: to.Region().Remote(0)})
	assert.Equal(t, "replaced", string(replaced[:8]))
	assert.Equal(t, "shared", string(target[:6]))
}

// TestClientCopiesUnmapped unmaps memory that the client copies. The request fails, and the client and its other
// requests are not affected.
func TestClientCopiesUnmapped(t *testing.T) {
	const write = ci.LocalWrite | ci.RemoteWrite
	r := newRig(t, kproxy.Config{ClientCopies: true, CopyTimeout: patience})
	ca := r.open(r.dial(), nil)
	p := newPair(t, ca, ci.CQCreate{})
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	mr, err := p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: write})
	require.NoError(t, err)
	require.NoError(t, unix.Mprotect(b, unix.PROT_NONE)) // another mapping may take the place of one that is unmapped
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	_, err = p.a.PostSend([]ci.SendWR{{ID: 1, Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: []byte("lost"),
		Remote: mr.Region().Remote(0)}})
	require.NoError(t, err)
	assert.NotEqual(t, ci.WCSuccess, p.wait(1)[0].Status)

	own := make([]byte, 100)
	mr, err = p.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(own), Access: write})
	require.NoError(t, err)
	other := newPair(t, ca, ci.CQCreate{})
	mr2, err := other.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(own), Access: write})
	require.NoError(t, err)
	_, err = other.a.PostSend([]ci.SendWR{{ID: 2, Op: ci.OpWrite, Flags: ci.SendSignaled, Inline: []byte("works"),
		Remote: mr2.Region().Remote(0)}})
	require.NoError(t, err)
	assert.Equal(t, ci.WCSuccess, other.wait(1)[0].Status)
	assert.Equal(t, "works", string(own[:5]))
	require.NoError(t, mr.Destroy())
}
