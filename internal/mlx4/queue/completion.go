package queue

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// A CompletionRing is a completion queue. The caller serialises all methods.
type CompletionRing struct {
	buf      []byte
	record   []byte // the doorbell record
	shift    uint8  // log2 of the bytes of an entry
	log      uint8
	mask     uint32
	consumer uint32
	seen     uint32 // behind the newest entry that Seen has found
}

// NewCompletionRing returns a queue of 1<<log entries of 1<<shift bytes, 32 or 64.
func NewCompletionRing(buf, record []byte, log, shift uint8) (*CompletionRing, error) {
	if shift < 5 || shift > 6 || log > 22 || len(buf) != 1<<(log+shift) || len(record) < 8 || !isAligned(buf) ||
		!isAligned(record) {
		return nil, errMemory
	}
	r := &CompletionRing{buf: buf, record: record, shift: shift, log: log, mask: 1<<log - 1}
	for at := 0; at < len(buf); at += 1 << shift { // the adapter's, as SW2HW_CQ fills it
		fill := buf[at : at+1<<shift]
		for i := range fill {
			fill[i] = prm.CQEFill
		}
	}
	store32(record, 0)
	store32(record[4:], 0)
	return r, nil
}

// Follow returns the ring of a resized queue, which begins behind the resize entry of r.
func (r *CompletionRing) Follow(buf []byte, log uint8) (*CompletionRing, error) {
	n := &CompletionRing{buf: buf, record: r.record, shift: r.shift, log: log, mask: 1<<log - 1, consumer: r.consumer,
		seen: r.consumer}
	if len(buf) != 1<<(log+r.shift) || !isAligned(buf) {
		return nil, errMemory
	}
	return n, nil
}

// Log returns log2 of the number of entries.
func (r *CompletionRing) Log() uint8 { return r.log }

// entry returns the 32 bytes of an entry at a running index, or nil if the adapter has not written it.
func (r *CompletionRing) entry(n uint32) []byte {
	end := int(n&r.mask+1) << r.shift
	e := r.buf[end-prm.CQESize : end : end]
	if load32(e[0x1c:])>>7&1 != n>>r.log&1 {
		return nil
	}
	return e
}

// Next returns the oldest entry, or nil. Advance removes it.
func (r *CompletionRing) Next() []byte { return r.entry(r.consumer) }

// Advance removes the oldest entry.
func (r *CompletionRing) Advance() { r.consumer++ }

// Consumer returns the consumer index.
func (r *CompletionRing) Consumer() uint32 { return r.consumer }

// Publish makes the removed entries free for the adapter.
func (r *CompletionRing) Publish() { store32(r.record, r.consumer&0xffffff) }

// Seen returns the index behind the newest entry.
func (r *CompletionRing) Seen() uint32 {
	if int32(r.seen-r.consumer) < 0 {
		r.seen = r.consumer
	}
	for r.seen-r.consumer <= r.mask && r.entry(r.seen) != nil {
		r.seen++
	}
	return r.seen
}

// Arm writes the arm word of the doorbell record and returns the two dwords of the doorbell. The event is raised for
// entries from index on.
func (r *CompletionRing) Arm(cqn, sequence, command, index uint32) (hi, lo uint32) {
	word, lo := sequence&3<<28|command<<24, index&0xffffff
	store32(r.record[4:], word|lo)
	return word | cqn, lo
}

// A Completion is a decoded entry.
type Completion struct {
	QPN      uint32
	Index    uint16 // of the WQE
	IsSend   bool
	IsResize bool
	IsBad    bool // the entry has an opcode that its direction does not have
	GRH      bool
	SumsOK   bool // of a datagram: the checksums of IP and of TCP or UDP are right
	Vendor   uint8
	opcode   uint8
	Status   ci.WCStatus
	Op       ci.WCOp
	Flags    ci.WCFlags
	SL       ci.SL
	PathBits uint8
	SLID     ci.LID
	SrcQP    ci.QPN
	Length   uint32
	Imm      uint32
}

// Sizes of messages.
const (
	maxMessage = 1 << 31 // the longest message of InfiniBand
	grhArea    = 40      // in front of a datagram; it has the GRH, if there is one
)

// FitsDatagram reports whether the message of a completion can be a datagram: it has the area of the GRH.
func (c *Completion) FitsDatagram() bool { return c.Length >= grhArea }

// fits reports whether the length of a completion can be that of a receive of size bytes. An RDMA WRITE has used no
// memory of the receive.
func (c *Completion) fits(size uint64) bool {
	if c.Op == ci.WCRecvWrite {
		size = maxMessage
	}
	return c.Status != ci.WCSuccess || uint64(c.Length) <= size
}

// DecodeCompletion decodes an entry of 32 bytes.
func DecodeCompletion(e []byte, c *Completion) {
	_ = e[prm.CQESize-1]
	be := binary.BigEndian
	code := e[0x1f]
	*c = Completion{QPN: be.Uint32(e) & 0xffffff, Index: be.Uint16(e[0x18:]), IsSend: code&0x40 != 0}
	op := code & 0x1f
	c.opcode = op
	switch {
	case op == prm.CQEOpcodeError:
		c.Vendor = e[0x1a]
		c.Status = statusOf(prm.Syndrome(e[0x1b]))
		c.Op = ci.WCRecv
		if c.IsSend {
			c.Op = ci.WCSend
		}
	case op == prm.CQEOpcodeResize:
		c.IsResize = true
	case c.IsSend:
		c.Op, c.IsBad = sendOps[op].op, !sendOps[op].ok
		c.Length = be.Uint32(e[0x14:])
	default:
		c.decodeRecv(e, op)
	}
}

func (c *Completion) decodeRecv(e []byte, op uint8) {
	be := binary.BigEndian
	c.Length = be.Uint32(e[0x14:])
	c.Imm = be.Uint32(e[4:])
	c.Op = ci.WCRecv
	switch op {
	case prm.CQERecvWriteImm:
		c.Op, c.Flags = ci.WCRecvWrite, ci.WCImmediate
	case prm.CQERecvSend:
	case prm.CQERecvSendImm:
		c.Flags = ci.WCImmediate
	case prm.CQERecvSendInv:
		c.Flags = ci.WCInvalidated
	default:
		c.IsBad = true
		return
	}
	status, sum := be.Uint16(e[0x10:]), be.Uint16(e[0x1a:])
	c.SumsOK = status&sumsMask == sumsOK && status&sumsOf != 0 && sum == 0xffff
	remote := be.Uint32(e[8:])
	c.SrcQP = ci.QPN(remote & 0xffffff)
	c.PathBits = uint8(remote >> 24 & 0x7f)
	c.GRH = remote>>31 != 0
	c.SL = ci.SL(e[0x0c] >> 4)
	c.SLID = ci.LID(be.Uint16(e[0x0e:]))
}

// Bits of the status of a received datagram. Checksums count for IPv4 without options that is no fragment (linux ib
// cq.c, mlx4_ib_ipoib_csum_ok).
const (
	sumsOK   = uint16(prm.CQEIPv4 | prm.CQEIPChecksumOK)
	sumsMask = sumsOK | uint16(prm.CQEIPv4Fragment|prm.CQEIPv4Options|prm.CQEIPv6)
	sumsOf   = uint16(prm.CQETCP | prm.CQEUDP)
)

var sendOps = [32]struct {
	op ci.WCOp
	ok bool
}{
	prm.WQENop: {ci.WCNop, true}, prm.WQELSO: {ci.WCLSO, true}, prm.WQESendInv: {ci.WCSend, true},
	prm.WQEWrite:    {ci.WCWrite, true},
	prm.WQEWriteImm: {ci.WCWrite, true}, prm.WQESend: {ci.WCSend, true}, prm.WQESendImm: {ci.WCSend, true},
	prm.WQERead: {ci.WCRead, true}, prm.WQECompareSwap: {ci.WCCompareSwap, true},
	prm.WQEFetchAdd: {ci.WCFetchAdd, true}, prm.WQEBind: {ci.WCBindMW, true},
	prm.WQEFastRegister: {ci.WCFastReg, true}, prm.WQELocalInv: {ci.WCLocalInv, true},
}

// statusOf returns the status of a syndrome. An unknown one is a general error.
func statusOf(s prm.Syndrome) ci.WCStatus {
	if int(s) < len(statuses) && statuses[s] != ci.WCSuccess {
		return statuses[s]
	}
	return ci.WCGeneralErr
}

var statuses = [...]ci.WCStatus{
	prm.SynLocalLength: ci.WCLocalLenErr, prm.SynLocalQPOp: ci.WCLocalOpErr,
	prm.SynLocalProtection: ci.WCLocalProtErr, prm.SynFlushed: ci.WCFlushErr, prm.SynWindowBind: ci.WCBindErr,
	prm.SynBadResponse: ci.WCBadRespErr, prm.SynLocalAccess: ci.WCLocalAccessErr,
	prm.SynRemoteInvalid: ci.WCRemInvalidReqErr, prm.SynRemoteAccess: ci.WCRemAccessErr,
	prm.SynRemoteOp: ci.WCRemOpErr, prm.SynRetryExceeded: ci.WCTimeoutRetryErr,
	prm.SynRNRExceeded: ci.WCRNRRetryErr, prm.SynRemoteAborted: ci.WCRemAbortErr,
}
