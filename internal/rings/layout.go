package rings

// Offsets and sizes are in bytes. Integers are in the machine's byte order, immediate data in network byte order.

// Queue header.
const (
	offLog2Elem  = 0   // u32, log2 of an element's size
	offIndexMask = 4   // u32, number of elements - 1
	offProducer  = 128 // u32
	offConsumer  = 256 // u32
	offData      = 384
)

// Send element. A union begins at 24: RDMA, atomic, datagram or bind.
const (
	sqID       = 0  // u64
	sqNumSGE   = 8  // u32, older kernels; written, not read
	sqOpcode   = 12 // u32
	sqFlags    = 16 // u32
	sqEx       = 20 // immediate data as sent, or u32 key to invalidate
	sqAddr     = 24 // u64, RDMA, FLUSH and atomics
	sqRKey     = 32 // u32, RDMA
	sqCompare  = 32 // u64, atomics: compare or addend
	sqSwap     = 40 // u64
	sqAtomRKey = 48 // u32
	sqFlushLen = 32 // u32, FLUSH; written, not read: providers leave 0, and the length is that of the dma part
	sqFlushKey = 36 // u32
	sqFlushTyp = 40 // u8, 1 global, 2 persistent
	sqFlushSel = 41 // u8, 0 range, 1 region
	sqDestQP   = 24 // u32, datagrams
	sqQKey     = 28 // u32
	sqPKeyIx   = 32 // u16
	sqAH       = 36 // u32, number of the address handle; 0: none, or the one in the side table
	sqMWAddr   = 24 // u64, binds of windows
	sqMWLength = 32 // u64; 0: unbind
	sqMWRegion = 40 // L_Key of the region
	sqMWKey    = 44 // present key of the window
	sqMWNewKey = 48
	sqMWAccess = 52 // u32, rights of ib_access_flags
	sqDMA      = 184
	sqSGE      = 208 // or inline bytes
)

// Receive element.
const (
	rqID  = 0 // u64
	rqDMA = 16
	rqSGE = 40
)

// Within the dma part, 24 bytes.
const (
	dmaLength = 0  // u32, total bytes
	dmaResid  = 4  // u32, engine state in Linux; equal to the length at post
	dmaNumSGE = 12 // u32
)

// Scatter/gather entry.
const (
	sgeAddr   = 0 // u64
	sgeLength = 8 // u32
	sgeLKey   = 12
	sgeSize   = 16
)

// Completion: ib_uverbs_wc, followed by our fields from 48 on.
const (
	wcID        = 0  // u64
	wcStatus    = 8  // u32
	wcOpcode    = 12 // u32
	wcVendorErr = 16 // u32
	wcByteLen   = 20 // u32
	wcEx        = 24 // immediate data as received, or u32 key invalidated
	wcQPNum     = 28 // u32
	wcSrcQP     = 32 // u32
	wcFlags     = 36 // u32
	wcPKeyIx    = 40 // u16
	wcSLID      = 42 // u16
	wcSL        = 44 // u8
	wcPathBits  = 45 // u8
	wcEECN      = 48 // u32
	wcEtherType = 52 // u16
	wcSize      = 64
)

// Limits of a queue. They keep its size within an int32 on every machine.
const (
	maxDepth  = 1 << 20
	maxSGE    = 256
	maxInline = 4096
)
