package fw

import (
	"context"
	"errors"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/hca/mlx4/prm"
)

// errNotYet is returned by what is not finished.
var errNotYet = errors.New("fw: not implemented yet")

// Errors of devices.
var (
	// ErrFailed is the error of a device that has failed, or whose function has gone. Device.Err has the cause.
	ErrFailed = errors.New("fw: the device has failed")
	// ErrClosed is the error after Close.
	ErrClosed = errors.New("fw: the device is closed")
	// ErrOwned is the error of Open if another driver owns the adapter.
	ErrOwned = errors.New("fw: another driver owns the adapter")
	// ErrExhausted is the error if all numbers of a kind, or all memory, are in use.
	ErrExhausted = errors.New("fw: exhausted")
)

// A CommandError is a command that the firmware rejected.
type CommandError struct {
	Op     prm.Opcode
	Status prm.Status
}

// A Device is an adapter that Open has initialized.
type Device struct{}

// Open initializes the adapter of a function. The function remains the caller's: Close does not close it. No other
// user of the function may enable its interrupt vectors. Errors: ErrOwned, *CommandError, bus.ErrGone, and those of
// the function.
func Open(ctx context.Context, f bus.Function, cfg Config) (*Device, error) { return nil, errNotYet }

// Close ends the operation of the adapter, resets it and releases all memory. Objects of the device must not be used
// afterwards. It waits until no function of a handler runs, so that a handler must not call it. It is idempotent.
func (d *Device) Close() error { return errNotYet }

// Failed is closed when the device has failed: a catastrophic error, a command without a completion, or a function that
// has gone. Err returns the cause.
func (d *Device) Failed() <-chan struct{} { return nil }

// Err returns why the device has failed, or nil. It wraps ErrFailed.
func (d *Device) Err() error { return errNotYet }

// Fail declares that the device has failed, for a driver that has found an inconsistency.
func (d *Device) Fail(cause error) {}

// Caps returns the capabilities of the adapter.
func (d *Device) Caps() *Caps { return nil }

// Firmware returns the identity of firmware and board.
func (d *Device) Firmware() Firmware { return Firmware{} }

// Firmware identifies the firmware and the board.
type Firmware struct {
	Major, Minor, SubMinor uint16
	BoardID                string
	MaxCommands            int
}

// Caps are the capabilities of an adapter, within the limits of the Profile.
type Caps struct {
	Flags, BMMEFlags            uint64 // bit numbers: prm.FlagRC and so on, prm.BMMEWindow2B and so on
	NumPorts                    uint8
	Pro                         bool // ConnectX-3 Pro
	NumQPs, NumSRQs, NumCQs     uint32
	NumMPTs, NumMTTs, NumPDs    uint32
	NumMCGs, MaxMcastQPs        uint32
	MaxQPSize, MaxSRQSize       uint32 // entries
	MaxCQSize                   uint32 // entries
	MaxSendSGE, MaxRecvSGE      uint32
	MaxSendDesc, MaxRecvDesc    uint32 // bytes
	MaxInitDepth, MaxRespDepth  uint32 // RDMA READs and atomics per QP
	MaxMessage                  uint64 // bytes
	AckDelay                    uint8
	ReservedLKey                uint32
	CQESize                     int // 32 or 64
	NumUARs                     uint32
	HasBlueFlame                bool
	BlueFlameSize               uint32 // of a register, of which each half is a buffer
	LogMCGEntry                 uint8  // bytes
	SpecialQPs                  uint32 // QP0 of port 1 and 2, then QP1 of port 1 and 2
	ReservedQPs                 uint32
	MinPage                     uint32 // bytes
	HasSteering                 bool   // unicast and multicast steering by MCG entries ("B0")
	CanResizeSRQ, HasTimestamps bool
}

// Has reports whether a bit of Flags is set.
func (c *Caps) Has(flag uint) bool { return c.Flags>>flag&1 != 0 }

// HasBMME reports whether a bit of BMMEFlags is set.
func (c *Caps) HasBMME(flag uint) bool { return c.BMMEFlags>>flag&1 != 0 }

// PortCaps are the capabilities of a port.
type PortCaps struct {
	Link              ci.Link // by its type in use: InfiniBand if the port can be both
	IsLinkUp          bool
	IBMTU             ci.MTU
	EthMTU            uint16
	Speed             uint8 // prm.Speed40G and so on
	Widths            uint8 // bits: 1 1X, 2 4X
	NumGIDs, NumPKeys int
	NumVLANs, NumMACs int
	MaxVLs            uint8
	MAC               [6]byte
}

// Args are the arguments of a command.
type Args struct {
	In         []byte // content of the input mailbox, at most prm.MailboxSize; the rest is zero
	Out        []byte // receives the begin of the output mailbox, at most prm.MailboxSize
	Imm        uint64 // input parameter of a command without an input mailbox
	Modifier   uint32 // input modifier
	OpModifier uint8
}

// Cmd executes a command. It ends at the latest when the context does, or after Config.CommandTimeout. A command that
// the context ended may still be executed by the adapter. Errors: *CommandError, ErrFailed, ErrClosed, those of the
// context.
func (d *Device) Cmd(ctx context.Context, op prm.Opcode, a Args) error { return errNotYet }

// CmdImm executes a command whose result is the output parameter.
func (d *Device) CmdImm(ctx context.Context, op prm.Opcode, a Args) (uint64, error) {
	return 0, errNotYet
}

// Port returns the capabilities of a port, counted from 1, as they were at Open.
func (d *Device) Port(n uint8) (PortCaps, error) { return PortCaps{}, errNotYet }

// QueryPort returns the capabilities and the state of a port.
func (d *Device) QueryPort(ctx context.Context, n uint8) (PortCaps, error) {
	return PortCaps{}, errNotYet
}

// InitPort starts the link of a port.
func (d *Device) InitPort(ctx context.Context, n uint8) error { return errNotYet }

// ClosePort ends the link of a port.
func (d *Device) ClosePort(ctx context.Context, n uint8) error { return errNotYet }

// IBPort are the settings of an InfiniBand port.
type IBPort struct {
	Capabilities uint32 // CapabilityMask of PortInfo
	MTU          ci.MTU // 0: unchanged
	VLs          uint8  // 0: unchanged
}

// SetIBPort sets an InfiniBand port.
func (d *Device) SetIBPort(ctx context.Context, n uint8, p IBPort) error { return errNotYet }

// EthPort are the general settings of an Ethernet port.
type EthPort struct {
	MTU              uint16
	PauseTX, PauseRX bool
}

// SetEthPort sets an Ethernet port.
func (d *Device) SetEthPort(ctx context.Context, n uint8, p EthPort) error { return errNotYet }

// SetGIDs replaces the GID table of an Ethernet port. Without RoCEv2 entries, versions are ignored.
func (d *Device) SetGIDs(ctx context.Context, n uint8, gids []GIDEntry) error { return errNotYet }

// GIDEntry is an entry of the GID table of an Ethernet port.
type GIDEntry struct {
	GID  ci.GID
	IsV2 bool // RoCEv2
}

// SetMACs replaces the MAC table of an Ethernet port. An all-zero address is an unused entry.
func (d *Device) SetMACs(ctx context.Context, n uint8, macs [][6]byte) error { return errNotYet }

// SetVLANs replaces the VLAN table of an Ethernet port. 0 is an unused entry.
func (d *Device) SetVLANs(ctx context.Context, n uint8, vlans []uint16) error { return errNotYet }

// MadIfc has the subnet management agent in the firmware process a datagram. in has 256 bytes, out receives 256.
// flags are prm.MADIgnoreMKey and so on. slid is the LID of the sender, for a datagram that was received.
func (d *Device) MadIfc(ctx context.Context, port uint8, flags uint8, slid uint16, in, out []byte) error {
	return errNotYet
}

// ReadMCG returns a multicast group entry: 1<<Caps.LogMCGEntry bytes.
func (d *Device) ReadMCG(ctx context.Context, index uint32) ([]byte, error) { return nil, errNotYet }

// WriteMCG writes a multicast group entry.
func (d *Device) WriteMCG(ctx context.Context, index uint32, entry []byte) error { return errNotYet }

// HashMGID returns the index of the first entry of a group's chain.
func (d *Device) HashMGID(ctx context.Context, gid ci.GID, isEthernet bool) (uint32, error) {
	return 0, errNotYet
}

// AllocMCG returns the index of an unused entry for the overflow chains; FreeMCG releases it.
func (d *Device) AllocMCG() (uint32, error) { return 0, errNotYet }

// FreeMCG releases an entry of AllocMCG.
func (d *Device) FreeMCG(index uint32) {}

// AllocQPs allocates n consecutive QP numbers, of which the first is a multiple of align, a power of two. Their ICM is
// mapped. Errors: ErrExhausted.
func (d *Device) AllocQPs(ctx context.Context, n, align uint32) (uint32, error) { return 0, errNotYet }

// FreeQPs releases numbers of AllocQPs.
func (d *Device) FreeQPs(first, n uint32) {}

// AllocCQ allocates a CQ number whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocCQ(ctx context.Context) (uint32, error) { return 0, errNotYet }

// FreeCQ releases a number of AllocCQ.
func (d *Device) FreeCQ(cqn uint32) {}

// AllocSRQ allocates an SRQ number whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocSRQ(ctx context.Context) (uint32, error) { return 0, errNotYet }

// FreeSRQ releases a number of AllocSRQ.
func (d *Device) FreeSRQ(srqn uint32) {}

// AllocMPT allocates an index of the table of memory regions and windows, whose ICM is mapped. Errors: ErrExhausted.
func (d *Device) AllocMPT(ctx context.Context) (uint32, error) { return 0, errNotYet }

// FreeMPT releases an index of AllocMPT.
func (d *Device) FreeMPT(index uint32) {}

// MPTEntry returns the entry in the ICM of an index of AllocMPT: prm.MPTStride bytes that the adapter reads, too.
func (d *Device) MPTEntry(index uint32) ([]byte, error) { return nil, errNotYet }

// AllocPD allocates the number of a protection domain. Errors: ErrExhausted.
func (d *Device) AllocPD() (uint32, error) { return 0, errNotYet }

// FreePD releases a number of AllocPD.
func (d *Device) FreePD(pd uint32) {}

// An MTT is a range of the table of address translations.
type MTT struct{}

// AllocMTT allocates translations of n pages. Errors: ErrExhausted.
func (d *Device) AllocMTT(ctx context.Context, n int) (*MTT, error) { return nil, errNotYet }

// Len returns the number of pages of the range. It is at least that of AllocMTT.
func (m *MTT) Len() int { return 0 }

// Offset returns the address for contexts and MPTs: the offset in bytes in the table.
func (m *MTT) Offset() uint64 { return 0 }

// Write sets the translations of pages from first on. pages are device addresses, and multiples of 4 KiB.
func (m *MTT) Write(first int, pages []uint64) error { return errNotYet }

// Free releases the range. No region or queue of the adapter may use it. It is idempotent.
func (m *MTT) Free() {}

// A Queue is memory for a queue of the adapter, with its translations.
type Queue struct {
	*bus.DMA
	MTT *MTT
}

// AllocBuffer allocates zeroed memory that the adapter reaches at DMA.IOVA. It counts as memory of the device until
// FreeBuffer. Errors: ErrExhausted.
func (d *Device) AllocBuffer(size int) (*bus.DMA, error) { return nil, errNotYet }

// FreeBuffer releases memory of AllocBuffer.
func (d *Device) FreeBuffer(m *bus.DMA) error { return errNotYet }

// AllocQueue allocates memory of at least size bytes and writes its translations. Pages are of 4 KiB.
func (d *Device) AllocQueue(ctx context.Context, size int) (*Queue, error) { return nil, errNotYet }

// FreeQueue releases the memory and the translations of a queue, which the adapter does not use any more.
func (d *Device) FreeQueue(q *Queue) error { return errNotYet }

// A Record is a doorbell record: 8 bytes that the adapter reaches at IOVA.
type Record struct {
	Bytes []byte
	IOVA  uint64
}

// AllocRecord allocates a doorbell record in a cache line of its own.
func (d *Device) AllocRecord() (*Record, error) { return nil, errNotYet }

// FreeRecord releases a doorbell record.
func (d *Device) FreeRecord(r *Record) {}

// A UAR is a page of doorbells.
type UAR struct{}

// AllocUAR allocates a page of doorbells. Errors: ErrExhausted.
func (d *Device) AllocUAR() (*UAR, error) { return nil, errNotYet }

// Index returns the page's number for contexts.
func (u *UAR) Index() uint32 { return 0 }

// Send rings the doorbell of a send queue. The memory that was written before is visible to the adapter.
func (u *UAR) Send(qpn uint32) {}

// ArmCQ writes a CQ doorbell: two dwords, see prm.CQDoorbellCommand.
func (u *UAR) ArmCQ(hi, lo uint32) {}

// BlueFlame writes a work queue entry to BlueFlame register reg of the page, at off within it. The entry is a multiple
// of 64 bytes, and no longer than half of Caps.BlueFlameSize.
func (u *UAR) BlueFlame(reg int, off uint32, wqe []byte) {}

// Free releases the page.
func (u *UAR) Free() {}

// Space returns the BAR of the doorbells, and the offsets in it of the page and of its BlueFlame page, for back ends
// that map them into other processes (bus.Mappable).
func (u *UAR) Space() (s bus.Space, page, blueFlame uint64) { return nil, 0, 0 }

// An EventType is that of an event queue entry: prm.EventCompletion and so on.
type EventType uint8

// An Event is an entry of an event queue. Fields that the type does not have are 0.
type Event struct {
	Type     EventType
	Subtype  uint8
	Num      uint32 // QP, SRQ or CQ
	Syndrome uint8  // of a CQ error
	Port     uint8  // of a port change
	// Of prm.EventPortMgmtChange.
	Attr        uint32 // bits prm.MgmtSMLIDChanged and so on
	LID, SMLID  uint16
	SMSL        uint8
	GIDPrefix   uint64
	Block, Mask uint32
}

// OnEvent sets the function that handles events of the given types, except completions. Port events, catastrophic
// errors, and events of QPs, SRQs and CQs without a handler go there. An event of type prm.EventEQOverflow reports that
// events were lost: the handler reads the state of ports and objects again. nil removes a function.
func (d *Device) OnEvent(f func(Event), types ...EventType) {}

// HandleCQ registers the functions of a CQ: completion for completion events, event for errors. It replaces earlier
// functions.
func (d *Device) HandleCQ(cqn uint32, completion func(), event func(Event)) error { return errNotYet }

// HandleQP registers the function for the events of a QP.
func (d *Device) HandleQP(qpn uint32, event func(Event)) error { return errNotYet }

// HandleSRQ registers the function for the events of an SRQ.
func (d *Device) HandleSRQ(srqn uint32, event func(Event)) error { return errNotYet }

// ReleaseCQ removes the functions of a CQ, and waits until they do not run. They must not call it.
func (d *Device) ReleaseCQ(cqn uint32) {}

// ReleaseQP removes the function of a QP, and waits until it does not run. It must not call it.
func (d *Device) ReleaseQP(qpn uint32) {}

// ReleaseSRQ removes the function of an SRQ, and waits until it does not run. It must not call it.
func (d *Device) ReleaseSRQ(srqn uint32) {}

// NumCompletionEQs returns the number of event queues for completions.
func (d *Device) NumCompletionEQs() int { return 0 }

// CompletionEQ returns the number of an event queue for CQ contexts. i counts from 0.
func (d *Device) CompletionEQ(i int) uint8 { return 0 }

// Stats counts what a device has seen.
type Stats struct {
	Commands, Events         uint64
	BadEvents                uint64 // invalid, or for unknown objects
	LateCompletions          uint64 // of commands that had been given up
	LostInterrupts, Overruns uint64
}

// Stats returns the counters.
func (d *Device) Stats() Stats { return Stats{} }

// Load32 reads an aligned big-endian dword that the adapter writes concurrently. Later reads see what the adapter wrote
// before.
func Load32(b []byte) uint32 { return 0 }

// Store32 writes an aligned big-endian dword that the adapter polls, such as a doorbell record or the owner bit of a
// work queue entry. The adapter sees what was written before.
func Store32(b []byte, v uint32) {}
