package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// put writes an entry as the adapter does.
func put(buf []byte, log, shift uint8, n uint32, fill func(e []byte)) {
	end := int(n&(1<<log-1)+1) << shift
	e := buf[end-prm.CQESize : end]
	clear(e)
	fill(e)
	prm.CQEOwner.Put(e, uint64(n>>log&1))
}

// TestCompletionRing checks owner bits over several rounds, the doorbell record, and the index behind the newest entry.
func TestCompletionRing(t *testing.T) {
	for _, shift := range []uint8{5, 6} {
		const log = 2
		buf, record := make([]byte, 1<<(log+shift)), make([]byte, 8)
		r, err := NewCompletionRing(buf, record, log, shift)
		require.NoError(t, err)
		require.Nil(t, r.Next(), "empty")
		for n := range uint32(30) {
			put(buf, log, shift, n, func(e []byte) { prm.CQEQPN.Put(e, uint64(n)) })
			require.Equal(t, n+1, r.Seen())
			e := r.Next()
			require.NotNil(t, e)
			require.EqualValues(t, n, prm.CQEQPN.Get(e))
			r.Advance()
			require.Nil(t, r.Next())
			r.Publish()
			require.EqualValues(t, n+1, prm.CQRecordConsumer.Get(record))
		}
		hi, lo := r.Arm(0x123, 5, prm.ArmAny, r.Seen())
		assert.Equal(t, uint32(1<<28|prm.ArmAny<<24|0x123), hi)
		assert.EqualValues(t, 30, lo)
		assert.EqualValues(t, 1<<28|prm.ArmAny<<24|30, prm.CQRecordArm.Get(record))
		next, err := r.Follow(make([]byte, 1<<(log+1+shift)), log+1)
		require.NoError(t, err)
		assert.Equal(t, r.Consumer(), next.Consumer())
		_, err = r.Follow(buf, log+1)
		require.ErrorIs(t, err, errMemory)
	}
}

// TestDecode checks completions against the layouts.
func TestDecode(t *testing.T) {
	decode := func(fill func(e []byte)) (c Completion) {
		var e [prm.CQESize]byte
		prm.CQEQPN.Put(e[:], 0x4567)
		prm.CQEWQEIndex.Put(e[:], 0x89ab)
		fill(e[:])
		DecodeCompletion(e[:], &c)
		assert.EqualValues(t, 0x4567, c.QPN)
		assert.EqualValues(t, 0x89ab, c.Index)
		return c
	}
	for opcode, op := range map[uint64]ci.WCOp{prm.WQELSO: ci.WCLSO, prm.WQESend: ci.WCSend, prm.WQESendImm: ci.WCSend,
		prm.WQESendInv: ci.WCSend,
		prm.WQEWrite:   ci.WCWrite, prm.WQEWriteImm: ci.WCWrite, prm.WQERead: ci.WCRead,
		prm.WQECompareSwap: ci.WCCompareSwap,
		prm.WQEFetchAdd:    ci.WCFetchAdd, prm.WQEBind: ci.WCBindMW, prm.WQENop: ci.WCNop,
		prm.WQELocalInv:     ci.WCLocalInv,
		prm.WQEFastRegister: ci.WCFastReg} {
		c := decode(func(e []byte) {
			prm.CQESend.Put(e, 1)
			prm.CQEOpcode.Put(e, opcode)
			prm.CQEByteCount.Put(e, 77)
		})
		assert.True(t, c.IsSend && !c.IsBad)
		assert.Equal(t, op, c.Op)
		assert.EqualValues(t, 77, c.Length)
		assert.Equal(t, ci.WCSuccess, c.Status)
	}
	for opcode, want := range map[uint64]struct {
		op    ci.WCOp
		flags ci.WCFlags
	}{prm.CQERecvSend: {ci.WCRecv, 0}, prm.CQERecvSendImm: {ci.WCRecv, ci.WCImmediate},
		prm.CQERecvSendInv: {ci.WCRecv, ci.WCInvalidated}, prm.CQERecvWriteImm: {ci.WCRecvWrite, ci.WCImmediate}} {
		c := decode(func(e []byte) {
			prm.CQEOpcode.Put(e, opcode)
			prm.CQEImmediate.Put(e, 0x01020304)
			prm.CQERemoteQPN.Put(e, 0x123456)
			prm.CQEPathBits.Put(e, 3)
			prm.CQEGRH.Put(e, 1)
			prm.CQESL.Put(e, 9)
			prm.CQERemoteLID.Put(e, 0xabcd)
			prm.CQEByteCount.Put(e, 140)
		})
		assert.Equal(t, Completion{QPN: 0x4567, Index: 0x89ab, Op: want.op, Flags: want.flags, Imm: 0x01020304,
			SrcQP: 0x123456, PathBits: 3, GRH: true, SL: 9, SLID: 0xabcd, Length: 140, opcode: uint8(opcode)}, c)
	}
	const right = prm.CQEIPv4 | prm.CQEIPChecksumOK | prm.CQETCP
	for name, x := range map[string]struct {
		flags, checksum uint64
		want            bool
	}{"TCP": {right, 0xffff, true}, "UDP": {right ^ prm.CQETCP | prm.CQEUDP, 0xffff, true},
		"sum": {right, 0xfffe, false},
		"IP":  {right &^ prm.CQEIPChecksumOK, 0xffff, false}, "neither": {right &^ prm.CQETCP, 0xffff, false},
		"fragment": {right | prm.CQEIPv4Fragment, 0xffff, false}, "none": {0, 0xffff, false},
		"options": {right | prm.CQEIPv4Options, 0xffff, false},
		"IPv6":    {right ^ prm.CQEIPv4 | prm.CQEIPv6, 0xffff, false},
	} {
		c := decode(func(e []byte) {
			prm.CQEOpcode.Put(e, prm.CQERecvSend)
			prm.CQEFlags.Put(e, x.flags)
			prm.CQEChecksum.Put(e, x.checksum)
		})
		assert.Equal(t, x.want, c.SumsOK, name)
	}
	c := decode(func(e []byte) { prm.CQEOpcode.Put(e, prm.CQEOpcodeResize) })
	assert.True(t, c.IsResize)
	c = decode(func(e []byte) { prm.CQESend.Put(e, 1); prm.CQEOpcode.Put(e, 0x1a) })
	assert.True(t, c.IsBad, "no such opcode")
	c = decode(func(e []byte) { prm.CQEOpcode.Put(e, 9) })
	assert.True(t, c.IsBad, "no such opcode of a receive")
	for syndrome, want := range map[prm.Syndrome]ci.WCStatus{prm.SynLocalLength: ci.WCLocalLenErr,
		prm.SynLocalQPOp: ci.WCLocalOpErr, prm.SynLocalProtection: ci.WCLocalProtErr, prm.SynFlushed: ci.WCFlushErr,
		prm.SynWindowBind: ci.WCBindErr, prm.SynBadResponse: ci.WCBadRespErr, prm.SynLocalAccess: ci.WCLocalAccessErr,
		prm.SynRemoteInvalid: ci.WCRemInvalidReqErr, prm.SynRemoteAccess: ci.WCRemAccessErr,
		prm.SynRemoteOp: ci.WCRemOpErr, prm.SynRetryExceeded: ci.WCTimeoutRetryErr,
		prm.SynRNRExceeded:   ci.WCRNRRetryErr,
		prm.SynRemoteAborted: ci.WCRemAbortErr, 0: ci.WCGeneralErr, 0x7f: ci.WCGeneralErr, 0xff: ci.WCGeneralErr} {
		c := decode(func(e []byte) {
			prm.CQEOpcode.Put(e, prm.CQEOpcodeError)
			prm.CQESyndrome.Put(e, uint64(syndrome))
			prm.CQEVendorErr.Put(e, 0x33)
		})
		assert.Equal(t, want, c.Status, "syndrome %#x", syndrome)
		assert.EqualValues(t, 0x33, c.Vendor)
	}
}

// FuzzDecode checks that no entry makes the decoder panic, and that a completion is either a success or has a status.
func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, prm.CQESize))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := make([]byte, prm.CQESize)
		copy(e, b)
		var c Completion
		DecodeCompletion(e, &c)
		require.LessOrEqual(t, c.QPN, uint32(1<<24-1))
		require.Equal(t, prm.CQESend.Has(e), c.IsSend)
		if prm.CQEOpcode.Get(e) == prm.CQEOpcodeError {
			require.NotEqual(t, ci.WCSuccess, c.Status)
		}
	})
}

// TestNoAllocation checks that the data path does not allocate.
func TestNoAllocation(t *testing.T) {
	r, err := NewSendRing(make([]byte, 64<<7), 6, 7, 32)
	require.NoError(t, err)
	wr := &ci.SendWR{Op: ci.OpWrite, SGL: sges(2)}
	x := &Extra{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		opcode, units := EncodeSend(r.Next(), wr, x)
		n := r.Commit(wr, opcode, units)
		if _, ok := r.Complete(uint16(n)); !ok {
			t.Error("not complete")
		}
	}))
}
