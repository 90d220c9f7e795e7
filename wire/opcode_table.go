package wire

import "strings"

const (
	flagValid uint16 = 1 << iota
	flagStart
	flagEnd
	flagRequest
	flagResponse
	flagPayload
	flagRDETH
	flagDETH
	flagRETH
	flagAtomicETH
	flagAETH
	flagAtomicAckETH
	flagImm
	flagIETH
	flagFETH

	flagOnly = flagStart | flagEnd
)

// opProps holds the properties of an opcode.
type opProps struct {
	flags uint16
	op    Op
	hdr   uint8 // BTH and extension headers, bytes
}

const (
	makeStart = 8
	makeEnd   = 4
	makeImm   = 2
	makeInv   = 1
	makeFound = 0x100
)

// The tables are computed from lowOps before main.
var (
	opTable     [256]opProps
	opNameTable [256]string
	makeTable   [(int(Congestion) + 1) << 8]uint16 // by the index that Make computes
)

const (
	onRC = 1 << RC
	onUC = 1 << UC
	onRD = 1 << RD
	onUD = 1 << UD
)

// lowOps has the operation, the properties and the services for the low five bits of an opcode (IBTA vol 1, 9.2,
// OpCode).
var lowOps = [32]struct {
	op       Op
	flags    uint16
	services uint8
}{
	0x00: {OpSend, flagStart | flagRequest | flagPayload, onRC | onUC | onRD},
	0x01: {OpSend, flagRequest | flagPayload, onRC | onUC | onRD},
	0x02: {OpSend, flagEnd | flagRequest | flagPayload, onRC | onUC | onRD},
	0x03: {OpSend, flagEnd | flagRequest | flagPayload | flagImm, onRC | onUC | onRD},
	0x04: {OpSend, flagOnly | flagRequest | flagPayload, onRC | onUC | onRD | onUD},
	0x05: {OpSend, flagOnly | flagRequest | flagPayload | flagImm, onRC | onUC | onRD | onUD},
	0x06: {OpWrite, flagStart | flagRequest | flagPayload | flagRETH, onRC | onUC | onRD},
	0x07: {OpWrite, flagRequest | flagPayload, onRC | onUC | onRD},
	0x08: {OpWrite, flagEnd | flagRequest | flagPayload, onRC | onUC | onRD},
	0x09: {OpWrite, flagEnd | flagRequest | flagPayload | flagImm, onRC | onUC | onRD},
	0x0a: {OpWrite, flagOnly | flagRequest | flagPayload | flagRETH, onRC | onUC | onRD},
	0x0b: {OpWrite, flagOnly | flagRequest | flagPayload | flagRETH | flagImm, onRC | onUC | onRD},
	0x0c: {OpReadRequest, flagOnly | flagRequest | flagRETH, onRC | onRD},
	0x0d: {OpReadResponse, flagStart | flagResponse | flagPayload | flagAETH, onRC | onRD},
	0x0e: {OpReadResponse, flagResponse | flagPayload, onRC | onRD},
	0x0f: {OpReadResponse, flagEnd | flagResponse | flagPayload | flagAETH, onRC | onRD},
	0x10: {OpReadResponse, flagOnly | flagResponse | flagPayload | flagAETH, onRC | onRD},
	0x11: {OpAcknowledge, flagOnly | flagResponse | flagAETH, onRC | onRD},
	0x12: {OpAtomicAcknowledge, flagOnly | flagResponse | flagAETH | flagAtomicAckETH, onRC | onRD},
	0x13: {OpCompareSwap, flagOnly | flagRequest | flagAtomicETH, onRC | onRD},
	0x14: {OpFetchAdd, flagOnly | flagRequest | flagAtomicETH, onRC | onRD},
	0x15: {OpResync, flagOnly | flagRequest, onRD},
	0x16: {OpSend, flagEnd | flagRequest | flagPayload | flagIETH, onRC},
	0x17: {OpSend, flagOnly | flagRequest | flagPayload | flagIETH, onRC},
	0x1c: {OpFlush, flagOnly | flagRequest | flagFETH | flagRETH, onRC},
	0x1d: {OpAtomicWrite, flagOnly | flagRequest | flagPayload | flagRETH, onRC},
}

func init() {
	for i := range opTable {
		opTable[i].hdr = BTHLen
	}
	for low, l := range lowOps {
		for s := RC; s <= UD; s++ {
			if l.services&(1<<s) == 0 {
				continue
			}
			f := l.flags
			switch s {
			case RC, UC:
				f |= flagValid
			case UD:
				f |= flagValid | flagDETH
			case RD:
				f |= flagRDETH
				if f&flagRequest != 0 {
					f |= flagDETH // responses have only the EE context, in the RDETH
				}
			}
			addOpcode(Opcode(int(s)<<5|low), l.op, f)
		}
	}
	addOpcode(CNP, OpCNP, flagValid|flagOnly|flagPayload) // the payload is 16 reserved bytes
}

// addOpcode sets the table entries of an opcode.
func addOpcode(o Opcode, op Op, f uint16) {
	n := BTHLen
	for _, h := range []struct {
		flag uint16
		len  int
	}{{flagRDETH, RDETHLen}, {flagDETH, DETHLen}, {flagRETH, RETHLen}, {flagAtomicETH, AtomicETHLen},
		{flagAETH, AETHLen},
		{flagAtomicAckETH, AtomicAckETHLen}, {flagFETH, FETHLen}, {flagImm, ImmDtLen}, {flagIETH, IETHLen}} {
		if f&h.flag != 0 {
			n += h.len
		}
	}
	opTable[o] = opProps{f, op, uint8(n)}
	opNameTable[o] = opcodeName(o.Service(), op, f)

	i := int(o.Service())<<8 | int(op)<<4
	for _, b := range []struct {
		flag uint16
		bit  int
	}{{flagStart, makeStart}, {flagEnd, makeEnd}, {flagImm, makeImm}, {flagIETH, makeInv}} {
		if f&b.flag != 0 {
			i |= b.bit
		}
	}
	makeTable[i] = makeFound | uint16(o)
}

// opcodeName returns the name of an opcode, such as RC_SEND_ONLY_IMM.
func opcodeName(s Service, op Op, f uint16) string {
	if op == OpCNP {
		return "CNP"
	}
	w := []string{s.String(), op.String()}
	if op == OpSend || op == OpWrite || op == OpReadResponse {
		w = append(w, [...]string{"MIDDLE", "FIRST", "LAST", "ONLY"}[f&flagOnly/flagStart])
	}
	if f&flagImm != 0 {
		w = append(w, "IMM")
	}
	if f&flagIETH != 0 {
		w = append(w, "INV")
	}
	return strings.Join(w, "_")
}
