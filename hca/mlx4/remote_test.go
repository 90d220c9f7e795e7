package mlx4_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// copied is memory that the process reaches by copies, such as that of a client process.
type copied struct{ plain }

var _ ci.AtomicMemory = copied{}

// CompareSwap implements ci.AtomicMemory. The test has one operation at a time.
func (c copied) CompareSwap(off, compare, swap uint64) (uint64, error) {
	b := c.Memory.Slice(off, 8)
	old := binary.NativeEndian.Uint64(b)
	if old == compare {
		binary.NativeEndian.PutUint64(b, swap)
	}
	return old, nil
}

// FetchAdd implements ci.AtomicMemory.
func (c copied) FetchAdd(off, n uint64) (uint64, error) {
	b := c.Memory.Slice(off, 8)
	old := binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, old+n)
	return old, nil
}

// plain is copied memory without atomic operations.
type plain struct{ ci.Memory }

func (plain) Slice(uint64, uint64) []byte { return nil }

// Addr is not at the beginning of a page.
func (plain) Addr() uint64 { return 0x7_0000_0ff8 }

// TestRemoteMemory registers memory that is reached by copies, and uses it as target and source of RDMA and atomics.
func TestRemoteMemory(t *testing.T) {
	const size = 3 * 4096
	o := newSingle(t, true)
	b := make([]byte, size)
	const rights = ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead | ci.RemoteAtomic
	far, err := o.pd.RegisterMR(ci.MRCreate{Memory: copied{plain{ci.Bytes(b)}}, Access: rights})
	require.NoError(t, err)
	r := far.Region()
	assert.EqualValues(t, 0x7_0000_0ff8, r.Addr)
	noAtomics, err := o.pd.RegisterMR(ci.MRCreate{Memory: plain{ci.Bytes(make([]byte, 8))}, Access: rights})
	require.NoError(t, err)

	require.NoError(t, o.qp.Destroy())
	o.qp, err = o.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: o.send, RecvCQ: o.recv,
		QPCaps: ci.QPCaps{SendDepth: 8, SendSGE: 1, RecvDepth: 8, RecvSGE: 1}})
	require.NoError(t, err)
	require.NoError(t, o.qp.Modify(ci.ToInit{Port: 1, Access: rights}.For(ci.RC)))
	a, err := o.c.Query()
	require.NoError(t, err)
	peer := ci.ToRTR{AV: ci.AVAttr{Port: 1, DLID: a.Ports[0].LID}, MTU: ci.MTU1024, DestNum: o.qp.Num(), RespRes: 1}
	require.NoError(t, o.qp.Modify(peer.For(ci.RC)))
	require.NoError(t, o.qp.Modify(ci.ToRTS{RetryCount: 7, RNRRetry: 7, InitDepth: 1}.For(ci.RC)))

	do := func(wr ci.SendWR, want ci.WCStatus) {
		t.Helper()
		wr.Flags |= ci.SendSignaled
		_, err := o.qp.PostSend([]ci.SendWR{wr})
		require.NoError(t, err)
		var wc [1]ci.WC
		for n := 0; n == 0; {
			n, err = o.send.Poll(wc[:])
			require.NoError(t, err)
		}
		require.Equal(t, want, wc[0].Status)
	}
	for i := range b {
		b[i] = byte(i * 5)
	}
	do(ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{{Addr: r.Addr, Length: size / 2, LKey: r.LKey}},
		Remote: ci.Remote{Addr: r.Addr + size/2, RKey: r.RKey}}, ci.WCSuccess)
	assert.Equal(t, b[:size/2], b[size/2:])
	word := []ci.SGE{{Addr: r.Addr + 8, Length: 8, LKey: r.LKey}}
	clear(b[:16])
	at := ci.Remote{Addr: r.Addr, RKey: r.RKey}
	do(ci.SendWR{Op: ci.OpFetchAdd, SGL: word, Remote: at, Atomic: ci.Atomic{Compare: 3}}, ci.WCSuccess)
	do(ci.SendWR{Op: ci.OpCompareSwap, SGL: word, Remote: at, Atomic: ci.Atomic{Compare: 3, Swap: 7}}, ci.WCSuccess)
	assert.Equal(t, byte(7), b[0]|b[7], "the new value, in the byte order of the processor")
	assert.Equal(t, byte(3), b[8]|b[15], "the value before")
	at = ci.Remote{Addr: noAtomics.Region().Addr, RKey: noAtomics.Region().RKey}
	do(ci.SendWR{Op: ci.OpFetchAdd, SGL: word, Remote: at}, ci.WCFlushErr) // the responder is the same QP
	o.close(t, far, noAtomics)
}
