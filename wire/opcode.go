package wire

import "fmt"

// Opcode is byte 0 of the BTH (IBTA vol 1, 9.2, OpCode). Bits 7-5 are the service, and bits 4-0 are the operation.
type Opcode uint8

// Opcodes of the reliable connected service.
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
	RCFlush              Opcode = 0x1c
	RCAtomicWrite        Opcode = 0x1d
)

// Opcodes of the unreliable connected service.
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

// Opcodes of the reliable datagram service. They have names for traces and errors. Valid returns false for them,
// because the engine does not support the service.
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

// Opcodes of the unreliable datagram service, and that of the RoCEv2 congestion notification packet (annex A17), which
// belongs to no service.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81
)

// Service is the transport service of an opcode: its bits 7-5.
type Service uint8

// Services.
const (
	RC         Service = 0 // reliable connected
	UC         Service = 1 // unreliable connected
	RD         Service = 2 // reliable datagram
	UD         Service = 3 // unreliable datagram
	Congestion Service = 4 // only CNP
)

var serviceNames = [...]string{RC: "RC", UC: "UC", RD: "RD", UD: "UD", Congestion: "CNP"}

func (s Service) String() string {
	if int(s) < len(serviceNames) {
		return serviceNames[s]
	}
	return fmt.Sprintf("Service(%d)", uint8(s))
}

// Op is the operation of a packet, independent of its service, its position in the message, immediate data and
// invalidation.
type Op uint8

// Operations. OpNone is the operation of undefined opcodes.
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
	OpFlush
	OpAtomicWrite
	OpCNP
)

var opNames = [...]string{OpNone: "none", OpSend: "SEND", OpWrite: "RDMA_WRITE", OpReadRequest: "RDMA_READ_REQUEST",
	OpReadResponse: "RDMA_READ_RESPONSE", OpAcknowledge: "ACKNOWLEDGE", OpAtomicAcknowledge: "ATOMIC_ACKNOWLEDGE",
	OpCompareSwap: "COMPARE_SWAP", OpFetchAdd: "FETCH_ADD", OpResync: "RESYNC",
	OpFlush: "FLUSH", OpAtomicWrite: "ATOMIC_WRITE", OpCNP: "CNP"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Valid reports whether o is CNP or an opcode of RC, UC or UD. It returns false for reserved values and for RD.
func (o Opcode) Valid() bool { return opTable[o].flags&flagValid != 0 }

// Known reports whether o is defined. Opcodes of RD are known, but not valid.
func (o Opcode) Known() bool { return opTable[o].op != OpNone }

// Service returns the service, also if o is not known.
func (o Opcode) Service() Service { return Service(o >> 5) }

// Op returns the operation, or OpNone if o is not known.
func (o Opcode) Op() Op { return opTable[o].op }

// Start reports whether the packet begins a message: FIRST, ONLY, and packets that are a message by themselves, such as
// READ requests and ACKs.
func (o Opcode) Start() bool { return opTable[o].flags&flagStart != 0 }

// End reports whether the packet ends a message: LAST, ONLY, and packets that are a message by themselves.
func (o Opcode) End() bool { return opTable[o].flags&flagEnd != 0 }

// Request reports whether requesters send the packet to responders.
func (o Opcode) Request() bool { return opTable[o].flags&flagRequest != 0 }

// Response reports whether responders send the packet to requesters: READ responses, ACKs and atomic ACKs.
func (o Opcode) Response() bool { return opTable[o].flags&flagResponse != 0 }

// HasPayload reports whether data may follow the headers.
func (o Opcode) HasPayload() bool { return opTable[o].flags&flagPayload != 0 }

// HasRDETH reports whether the packet has a reliable datagram extended transport header. It is the first header after
// the BTH, in RD only.
func (o Opcode) HasRDETH() bool { return opTable[o].flags&flagRDETH != 0 }

// HasDETH reports whether the packet has a DETH.
func (o Opcode) HasDETH() bool { return opTable[o].flags&flagDETH != 0 }

// HasRETH reports whether the packet has a RETH.
func (o Opcode) HasRETH() bool { return opTable[o].flags&flagRETH != 0 }

// HasAtomicETH reports whether the packet has an AtomicETH.
func (o Opcode) HasAtomicETH() bool { return opTable[o].flags&flagAtomicETH != 0 }

// HasAETH reports whether the packet has an AETH.
func (o Opcode) HasAETH() bool { return opTable[o].flags&flagAETH != 0 }

// HasAtomicAckETH reports whether the packet has an AtomicAckETH.
func (o Opcode) HasAtomicAckETH() bool { return opTable[o].flags&flagAtomicAckETH != 0 }

// HasFETH reports whether the packet has a FETH. It is the first header after the BTH.
func (o Opcode) HasFETH() bool { return opTable[o].flags&flagFETH != 0 }

// HasImm reports whether the packet has immediate data.
func (o Opcode) HasImm() bool { return opTable[o].flags&flagImm != 0 }

// HasIETH reports whether the packet has an IETH.
func (o Opcode) HasIETH() bool { return opTable[o].flags&flagIETH != 0 }

// HeaderLen returns the length of the BTH and the extension headers in bytes, or BTHLen if o is not known.
func (o Opcode) HeaderLen() int { return int(opTable[o].hdr) }

func (o Opcode) String() string {
	if s := opNameTable[o]; s != "" {
		return s
	}
	return fmt.Sprintf("Opcode(%#02x)", uint8(o))
}

// Make returns the opcode with the given properties. It returns false if there is none. start and end are the results
// of Opcode.Start and Opcode.End. imm selects immediate data (last packet of a SEND or RDMA WRITE), and inv selects
// invalidation (last packet of an RC SEND). Make returns the opcodes of RD, too.
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
