package wire

import "fmt"

// Opcode is byte 0 of the BTH: the service in the top three bits, the operation in the low five (IBTA vol 1, 9.2, OpCode).
type Opcode uint8

// Reliable connected.
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAcknowledge        Opcode = 0x11
	RCAtomicAcknowledge  Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
)

// Unreliable connected.
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// Reliable datagram. Named so that a trace or an error can say what came; Valid is false for them, since the kit declares the
// service unsupported.
const (
	RDSendFirst          Opcode = 0x40
	RDSendMiddle         Opcode = 0x41
	RDSendLast           Opcode = 0x42
	RDSendLastImm        Opcode = 0x43
	RDSendOnly           Opcode = 0x44
	RDSendOnlyImm        Opcode = 0x45
	RDWriteFirst         Opcode = 0x46
	RDWriteMiddle        Opcode = 0x47
	RDWriteLast          Opcode = 0x48
	RDWriteLastImm       Opcode = 0x49
	RDWriteOnly          Opcode = 0x4a
	RDWriteOnlyImm       Opcode = 0x4b
	RDReadRequest        Opcode = 0x4c
	RDReadResponseFirst  Opcode = 0x4d
	RDReadResponseMiddle Opcode = 0x4e
	RDReadResponseLast   Opcode = 0x4f
	RDReadResponseOnly   Opcode = 0x50
	RDAcknowledge        Opcode = 0x51
	RDAtomicAcknowledge  Opcode = 0x52
	RDCompareSwap        Opcode = 0x53
	RDFetchAdd           Opcode = 0x54
	RDResync             Opcode = 0x55
)

// Unreliable datagram, and the congestion notification packet of RoCEv2 (annex A17), which belongs to no service.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81
)

// Service is the top three bits of an opcode.
type Service uint8

// The services, with their values on the wire.
const (
	RC         Service = 0 // reliable connected
	UC         Service = 1 // unreliable connected
	RD         Service = 2 // reliable datagram
	UD         Service = 3 // unreliable datagram
	Congestion Service = 4 // CNP only
)

var serviceNames = [...]string{RC: "RC", UC: "UC", RD: "RD", UD: "UD", Congestion: "CNP"}

func (s Service) String() string {
	if int(s) < len(serviceNames) {
		return serviceNames[s]
	}
	return fmt.Sprintf("Service(%d)", uint8(s))
}

// Op is what a packet does, apart from its service, its place in the message, and immediate data or invalidation.
type Op uint8

// The operations. OpNone is the Op of an opcode that nothing defines.
const (
	OpNone Op = iota
	OpSend
	OpWrite
	OpReadRequest
	OpReadResponse
	OpAcknowledge
	OpAtomicAcknowledge
	OpCompareSwap
	OpFetchAdd
	OpResync
	OpCNP
)

var opNames = [...]string{OpNone: "none", OpSend: "SEND", OpWrite: "RDMA_WRITE", OpReadRequest: "RDMA_READ_REQUEST",
	OpReadResponse: "RDMA_READ_RESPONSE", OpAcknowledge: "ACKNOWLEDGE", OpAtomicAcknowledge: "ATOMIC_ACKNOWLEDGE",
	OpCompareSwap: "COMPARE_SWAP", OpFetchAdd: "FETCH_ADD", OpResync: "RESYNC", OpCNP: "CNP"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Valid reports whether o is an opcode of RC, UC or UD, or CNP. It is false for reserved values and for RD.
func (o Opcode) Valid() bool { return opTable[o].flags&flagValid != 0 }

// Known reports whether o is defined: the Valid ones and those of RD.
func (o Opcode) Known() bool { return opTable[o].op != OpNone }

// Service gives the top three bits, whether or not o is Known.
func (o Opcode) Service() Service { return Service(o >> 5) }

// Op gives the operation, OpNone when o is not Known.
func (o Opcode) Op() Op { return opTable[o].op }

// Start reports whether the packet begins a message (FIRST, ONLY, and all that come alone: requests, acknowledges).
func (o Opcode) Start() bool { return opTable[o].flags&flagStart != 0 }

// End reports whether the packet ends a message (LAST, ONLY, and all that come alone).
func (o Opcode) End() bool { return opTable[o].flags&flagEnd != 0 }

// Request reports whether the packet goes from requester to responder.
func (o Opcode) Request() bool { return opTable[o].flags&flagRequest != 0 }

// Response reports whether the packet goes from responder to requester: read responses and both acknowledges.
func (o Opcode) Response() bool { return opTable[o].flags&flagResponse != 0 }

// HasPayload reports whether the opcode may carry data behind its headers.
func (o Opcode) HasPayload() bool { return opTable[o].flags&flagPayload != 0 }

// HasRDETH reports a reliable datagram extended header, the first one behind the BTH. RD only.
func (o Opcode) HasRDETH() bool { return opTable[o].flags&flagRDETH != 0 }

// HasDETH reports a datagram extended header.
func (o Opcode) HasDETH() bool { return opTable[o].flags&flagDETH != 0 }

// HasRETH reports an RDMA extended header.
func (o Opcode) HasRETH() bool { return opTable[o].flags&flagRETH != 0 }

// HasAtomicETH reports an atomic extended header.
func (o Opcode) HasAtomicETH() bool { return opTable[o].flags&flagAtomicETH != 0 }

// HasAETH reports an ACK extended header.
func (o Opcode) HasAETH() bool { return opTable[o].flags&flagAETH != 0 }

// HasAtomicAckETH reports an atomic ACK extended header.
func (o Opcode) HasAtomicAckETH() bool { return opTable[o].flags&flagAtomicAckETH != 0 }

// HasImm reports immediate data.
func (o Opcode) HasImm() bool { return opTable[o].flags&flagImm != 0 }

// HasIETH reports an invalidate extended header.
func (o Opcode) HasIETH() bool { return opTable[o].flags&flagIETH != 0 }

// HeaderLen is the length in bytes of the BTH and the extension headers; BTHLen when o is not Known.
func (o Opcode) HeaderLen() int { return int(opTable[o].hdr) }

func (o Opcode) String() string {
	if s := opNameTable[o]; s != "" {
		return s
	}
	return fmt.Sprintf("Opcode(%#02x)", uint8(o))
}

// Make is the inverse of the properties: the opcode for an operation of a service at a place in a message, and false if there is
// none. start and end are both set for what comes alone. imm and inv ask for immediate data (the ending packets of SEND and RDMA
// WRITE) and for invalidation (the ending packets of an RC SEND). The RD opcodes are made too; see Valid.
func Make(s Service, op Op, start, end, imm, inv bool) (Opcode, bool) {
	if s > Congestion || op > OpCNP {
		return 0, false
	}
	i := int(s)<<8 | int(op)<<4
	if start {
		i |= makeStart
	}
	if end {
		i |= makeEnd
	}
	if imm {
		i |= makeImm
	}
	if inv {
		i |= makeInv
	}
	v := makeTable[i]
	return Opcode(v), v&makeFound != 0
}
