package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// The control and data segments of each request, and the entry of each completion, are on the path of every message.
// Here they are coded with constant offsets, which takes a third of the time of fields. TestSegments compares them with
// the fields of package prm.

// ctrlOwner is prm.CtrlOwner.
func ctrlOwner(b []byte) uint32 { return uint32(b[0] >> 7) }

// ctrlOpcode is prm.CtrlOpcode.
func ctrlOpcode(b []byte) uint8 { return b[3] & 0x1f }

// ctrlBytes is prm.CtrlSize in bytes.
func ctrlBytes(b []byte) uint64 { return uint64(b[7]&0x3f) * prm.CtrlSegment }

// ctrlFlags returns the flags of a request, from prm.CtrlFence, CtrlCompletion and CtrlSolicited.
func ctrlFlags(b []byte) (f ci.SendFlags) {
	if b[0xb]>>2&3 == prm.CompletionAlways {
		f |= ci.SendSignaled
	}
	if b[7]&(1<<6) != 0 {
		f |= ci.SendFence
	}
	if b[0xb]&(1<<1) != 0 {
		f |= ci.SendSolicited
	}
	return f
}

// isInline reports whether a segment is an inline one with data, from prm.InlineFlag and InlineCount.
func isInline(b []byte) bool { return bigEndian.Uint32(b) > prm.ZeroLengthCount }

// dataKey is prm.DataKey.
func dataKey(b []byte) uint32 { return bigEndian.Uint32(b[4:]) }

// dataSegment decodes a data segment: prm.DataCount, DataKey and DataAddress. The reserved L_Key is replaced by an
// invalid one where it is not allowed.
func dataSegment(b []byte, hasReservedKey bool) ci.SGE {
	_ = b[prm.DataSegment-1]
	s := ci.SGE{Addr: bigEndian.Uint64(b[8:]), LKey: ci.Key(dataKey(b))}
	switch n := bigEndian.Uint32(b); n {
	case prm.ZeroLengthCount:
	case 0:
		s.Length = 1 << 31
	default:
		s.Length = n
	}
	if uint32(s.LKey) == prm.MPTReservedLKey && !hasReservedKey {
		s.LKey = 0
	}
	return s
}

// putCompletion writes what all completions have to an entry of zeros: prm.CQEQPN, CQEWQEIndex, CQESend and CQEOpcode.
func putCompletion(e []byte, qpn uint32, index uint16, opcode uint8, isSend bool) {
	_ = e[prm.CQESize-1]
	bigEndian.PutUint32(e, qpn&indexMask)
	e[0x18], e[0x19] = byte(index>>8), byte(index)
	e[0x1f] = opcode & 0x1f
	if isSend {
		e[0x1f] |= 1 << 6
	}
}

// putByteCount is prm.CQEByteCount.
func putByteCount(e []byte, n uint32) { bigEndian.PutUint32(e[0x14:], n) }

// putPKeyIndex is prm.CQEPKeyIndex.
func putPKeyIndex(e []byte, i uint16) { e[7] = byte(i & 0x7f) }

// putOwner is prm.CQEOwner, of an entry that has none yet.
func putOwner(e []byte, round uint32) { e[0x1f] = e[0x1f]&0x7f | byte(round<<7) }

// entryOpcode is prm.CQEOpcode.
func entryOpcode(e []byte) uint8 { return e[0x1f] & 0x1f }
