package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// A work ID is the index of a WQE in bits 15:0, and for sends the opcode in bits 23:16.
func sendID(index uint16, opcode uint8) uint64 { return uint64(opcode)<<16 | uint64(index) }

// encodeCQE makes the entry for a completion of the QP, of zeros.
func (q *qp) encodeCQE(b []byte, wc *ci.WC) {
	isSend := !wc.Op.IsRecv()
	if wc.Status != ci.WCSuccess {
		putCompletion(b, q.num, uint16(wc.ID), prm.CQEOpcodeError, isSend)
		prm.CQESyndrome.Put(b, uint64(syndromeOf(wc.Status)))
		prm.CQEVendorErr.Put(b, uint64(vendorErrs[syndromeOf(wc.Status)]))
		return
	}
	putByteCount(b, wc.Length)
	if isSend {
		putCompletion(b, q.num, uint16(wc.ID), uint8(wc.ID>>16), isSend)
		return
	}
	opcode := uint8(prm.CQERecvSend)
	switch {
	case wc.Op == ci.WCRecvWrite:
		opcode = prm.CQERecvWriteImm
	case wc.Flags&ci.WCInvalidated != 0:
		opcode = prm.CQERecvSendInv
	case wc.Flags&ci.WCImmediate != 0:
		opcode = prm.CQERecvSendImm
	}
	putCompletion(b, q.num, uint16(wc.ID), opcode, isSend)
	if wc.Flags&(ci.WCImmediate|ci.WCInvalidated) != 0 {
		prm.CQEImmediate.Put(b, uint64(wc.Imm))
	} else {
		putPKeyIndex(b, wc.PKeyIndex)
	}
	if !q.isDatagram() {
		return
	}
	prm.CQERemoteQPN.Put(b, uint64(wc.SrcQP))
	prm.CQEPathBits.Put(b, uint64(wc.PathBits))
	prm.CQESL.Put(b, uint64(wc.SL))
	prm.CQERemoteLID.Put(b, uint64(wc.SLID))
	if wc.Flags&ci.WCGRH != 0 {
		prm.CQEGRH.Put(b, 1)
	}
	if wc.EtherType != 0 { // see Model.received
		prm.CQEFlags.Put(b, uint64(wc.EtherType))
		prm.CQEChecksum.Put(b, uint64(wc.VendorErr))
	}
}

// syndromeOf returns the syndrome of a status.
func syndromeOf(s ci.WCStatus) prm.Syndrome {
	if v, ok := syndromes[s]; ok {
		return v
	}
	return prm.SynLocalQPOp
}

var syndromes = map[ci.WCStatus]prm.Syndrome{
	ci.WCLocalLenErr: prm.SynLocalLength, ci.WCLocalOpErr: prm.SynLocalQPOp, ci.WCLocalProtErr: prm.SynLocalProtection,
	ci.WCFlushErr: prm.SynFlushed, ci.WCBindErr: prm.SynWindowBind, ci.WCRemAccessErr: prm.SynRemoteAccess,
	ci.WCRemOpErr: prm.SynRemoteOp, ci.WCRNRRetryErr: prm.SynRNRExceeded, ci.WCTimeoutRetryErr: prm.SynRetryExceeded,
	ci.WCRemInvalidReqErr: prm.SynRemoteInvalid, ci.WCBadRespErr: prm.SynBadResponse,
	ci.WCLocalAccessErr: prm.SynLocalAccess,
}

// vendorErrs are the vendor syndromes that logs of real cards have beside the syndromes.
var vendorErrs = map[prm.Syndrome]uint8{prm.SynFlushed: 0xf9, prm.SynRetryExceeded: 0x81, prm.SynRNRExceeded: 0x87,
	prm.SynRemoteAccess: 0x88, prm.SynRemoteInvalid: 0x8a, prm.SynRemoteOp: 0x8b, prm.SynLocalProtection: 0x33,
	prm.SynLocalLength: 0x8d}
