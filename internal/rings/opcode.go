package rings

import "ciddk/ci"

// Request opcodes: those of ib_uverbs_wr_opcode, and our own from 0x80 on.
const (
	opWrite     = 0
	opWriteImm  = 1
	opSend      = 2
	opSendImm   = 3
	opRead      = 4
	opCompSwap  = 5
	opFetchAdd  = 6
	opLocalInv  = 7
	opBindByKey = 8
	opSendInv   = 9
	opFlush     = 14
	opAtomWrite = 15
	opFastReg   = 0x80 // region and page list in the side table
	opBindMW    = 0x81 // window and region in the side table
	opNop       = 0x82
	opLSO       = 0x83 // header and MSS in the side table
	opRaw       = 0x84 // a send on a raw QP; address in the side table
	flagInline  = 8
	flagLocal   = 1 << 8 // our own, as is flagL4Check
	flagL4Check = 1 << 9
	flagVendor  = 0xffff0000
)

// packFlags returns the ABI's send flags: 1 fence, 2 signaled, 4 solicited, 8 inline, 16 IP checksum. Those from 1<<8
// on are our own.
func packFlags(f ci.SendFlags) uint32 {
	return uint32(f)>>1&7 | uint32(f)>>2&0x10 | uint32(f)<<3&flagLocal | uint32(f)<<2&flagL4Check | uint32(f)&flagVendor
}

// unpackFlags is the inverse of packFlags. It does not set flags that follow from the opcode (immediate data,
// invalidation), nor inline.
func unpackFlags(u uint32) ci.SendFlags {
	return ci.SendFlags(u&7<<1 | u&0x10<<2 | u&flagLocal>>3 | u&flagL4Check>>2 | u&flagVendor)
}

// packStatus holds the ABI's completion status (ib_uverbs_wc.status) for each ci.WCStatus.
var packStatus = [...]uint8{
	ci.WCSuccess: 0, ci.WCLocalLenErr: 1, ci.WCLocalOpErr: 2, ci.WCLocalProtErr: 4, ci.WCFlushErr: 5, ci.WCBindErr: 6,
	ci.WCRemAccessErr: 10, ci.WCRemOpErr: 11, ci.WCRNRRetryErr: 13, ci.WCTimeoutRetryErr: 12, ci.WCRemInvalidReqErr: 9,
	ci.WCBadRespErr: 7, ci.WCLocalAccessErr: 8, ci.WCGeneralErr: 21, ci.WCUnmatchedResponse: 32, ci.WCCanceled: 33,
	ci.WCRemAbortErr: 16,
}

// unpackStatus is the inverse of packStatus. Numbers without a ci.WCStatus become WCGeneralErr.
var unpackStatus = func() (t [64]ci.WCStatus) {
	for i := range t {
		t[i] = ci.WCGeneralErr
	}
	for s, u := range packStatus {
		t[u] = ci.WCStatus(s)
	}
	return t
}()

// packWCOp holds the ABI's completion opcode (ib_uverbs_wc.opcode) for each ci.WCOp. Those from 0x40 on are our own,
// except for the receives at 0x80 and 0x81.
var packWCOp = [256]uint8{
	ci.WCSend: 0, ci.WCWrite: 1, ci.WCRead: 2, ci.WCCompareSwap: 3, ci.WCFetchAdd: 4, ci.WCBindMW: 5,
	ci.WCLocalInv: 6, ci.WCLSO: 7, ci.WCFlush: 8, ci.WCAtomicWrite: 9,
	ci.WCNop: 0x40, ci.WCFastReg: 0x41, ci.WCRecv: 0x80, ci.WCRecvWrite: 0x81,
}

// unpackWCOp is the inverse of packWCOp. Numbers without a ci.WCOp become WCSend.
var unpackWCOp = func() (t [256]ci.WCOp) {
	for _, op := range []ci.WCOp{ci.WCSend, ci.WCWrite, ci.WCRead, ci.WCCompareSwap, ci.WCFetchAdd,
		ci.WCBindMW, ci.WCLocalInv,
		ci.WCLSO, ci.WCFlush, ci.WCAtomicWrite, ci.WCNop, ci.WCFastReg, ci.WCRecv, ci.WCRecvWrite} {
		t[packWCOp[op]] = op
	}
	return t
}()

// packWCFlags returns the ABI's completion flags (ib_uverbs_wc.wc_flags): 1 GRH, 2 immediate, 4 checksums verified, 8
// invalidated. 1<<15, forward, is our own.
func packWCFlags(f ci.WCFlags) uint32 {
	return uint32(f&ci.WCGRH)>>2 | uint32(f&ci.WCImmediate)<<1 | uint32(f&ci.WCChecksumOK)>>2 |
		uint32(f&ci.WCInvalidated) |
		uint32(f&ci.WCForward)<<14
}

// packFlush returns the type and the level of a FLUSH in the ABI (ib_placement_type, ib_selectivity_level).
func packFlush(f *ci.Flush) (types, level uint8) {
	if f.Region {
		level = 1
	}
	return uint8(f.Types / ci.FlushGlobal), level
}

// unpackFlush is the inverse of packFlush. Numbers without a meaning become a FLUSH that is not valid.
func unpackFlush(types, level uint8, n uint32) ci.Flush {
	if types > 3 || level > 1 {
		return ci.Flush{}
	}
	return ci.Flush{Types: ci.Access(types) * ci.FlushGlobal, Region: level == 1, Length: n}
}

func unpackWCFlags(u uint32) ci.WCFlags {
	return ci.WCFlags(u&1<<2 | u&2>>1 | u&4<<2 | u&8 | u>>14&2)
}

// packAccess returns the ABI's rights (ib_access_flags): 1 local write, 2 remote write, 4 remote read, 8 remote atomic,
// 16 bind windows, 32 zero based.
func packAccess(a ci.Access) uint32 {
	return uint32(a&ci.LocalWrite)>>3 | uint32(a&ci.RemoteWrite) | uint32(a&ci.RemoteRead)<<2 |
		uint32(a&ci.RemoteAtomic)<<1 | uint32(a&(ci.BindWindow|ci.ZeroBased))
}

// unpackAccess is the inverse of packAccess. It reports false if u has a right without a ci.Access.
func unpackAccess(u uint32) (ci.Access, bool) {
	a := ci.Access(u&1<<3 | u&2 | u&4>>2 | u&8>>1 | u&0x30)
	return a, u&^0x3f == 0
}
