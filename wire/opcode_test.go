package wire_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/wire"
)

// opcodeRows is the table of the specification: low five bits, name, position in the message (first, middle, last,
// only) and bytes of extension headers for RC.
var opcodeRows = []struct {
	low   uint8
	name  string
	op    wire.Op
	place byte
	ext   int
}{
	{0x00, "SEND_FIRST", wire.OpSend, 'f', 0},
	{0x01, "SEND_MIDDLE", wire.OpSend, 'm', 0},
	{0x02, "SEND_LAST", wire.OpSend, 'l', 0},
	{0x03, "SEND_LAST_IMM", wire.OpSend, 'l', 4},
	{0x04, "SEND_ONLY", wire.OpSend, 'o', 0},
	{0x05, "SEND_ONLY_IMM", wire.OpSend, 'o', 4},
	{0x06, "RDMA_WRITE_FIRST", wire.OpWrite, 'f', 16},
	{0x07, "RDMA_WRITE_MIDDLE", wire.OpWrite, 'm', 0},
	{0x08, "RDMA_WRITE_LAST", wire.OpWrite, 'l', 0},
	{0x09, "RDMA_WRITE_LAST_IMM", wire.OpWrite, 'l', 4},
	{0x0a, "RDMA_WRITE_ONLY", wire.OpWrite, 'o', 16},
	{0x0b, "RDMA_WRITE_ONLY_IMM", wire.OpWrite, 'o', 20},
	{0x0c, "RDMA_READ_REQUEST", wire.OpReadRequest, 'o', 16},
	{0x0d, "RDMA_READ_RESPONSE_FIRST", wire.OpReadResponse, 'f', 4},
	{0x0e, "RDMA_READ_RESPONSE_MIDDLE", wire.OpReadResponse, 'm', 0},
	{0x0f, "RDMA_READ_RESPONSE_LAST", wire.OpReadResponse, 'l', 4},
	{0x10, "RDMA_READ_RESPONSE_ONLY", wire.OpReadResponse, 'o', 4},
	{0x11, "ACKNOWLEDGE", wire.OpAcknowledge, 'o', 4},
	{0x12, "ATOMIC_ACKNOWLEDGE", wire.OpAtomicAcknowledge, 'o', 12},
	{0x13, "COMPARE_SWAP", wire.OpCompareSwap, 'o', 28},
	{0x14, "FETCH_ADD", wire.OpFetchAdd, 'o', 28},
	{0x15, "RESYNC", wire.OpResync, 'o', 0},
	{0x16, "SEND_LAST_INV", wire.OpSend, 'l', 4},
	{0x17, "SEND_ONLY_INV", wire.OpSend, 'o', 4},
	{0x1c, "FLUSH", wire.OpFlush, 'o', 20},
	{0x1d, "ATOMIC_WRITE", wire.OpAtomicWrite, 'o', 16},
}

func TestOpcodeTable(t *testing.T) {
	seen := map[wire.Opcode]bool{wire.CNP: true}
	for _, r := range opcodeRows {
		for s := wire.RC; s <= wire.UD; s++ {
			request := r.op != wire.OpReadResponse && r.op != wire.OpAcknowledge && r.op != wire.OpAtomicAcknowledge
			inv := r.low == 0x16 || r.low == 0x17
			ext := r.ext
			switch s {
			case wire.RC:
				if r.op == wire.OpResync {
					continue
				}
			case wire.UC:
				if r.low > 0x0b {
					continue
				}
			case wire.RD:
				if r.low >= 0x16 {
					continue
				}
				ext += 4
				if request {
					ext += 8
				}
			case wire.UD:
				if r.low != 0x04 && r.low != 0x05 {
					continue
				}
				ext += 8
			}
			o := wire.Opcode(uint8(s)<<5 | r.low)
			seen[o] = true
			t.Run(o.String(), func(t *testing.T) {
				imm := r.name[len(r.name)-3:] == "IMM"
				write := r.op == wire.OpWrite
				atomic := r.op == wire.OpCompareSwap || r.op == wire.OpFetchAdd
				start, end := r.place == 'f' || r.place == 'o', r.place == 'l' || r.place == 'o'
				ack := r.op == wire.OpAcknowledge || r.op == wire.OpAtomicAcknowledge

				assert.Equal(t, s.String()+"_"+r.name, o.String())
				assert.Equal(t, s != wire.RD, o.Valid())
				assert.True(t, o.Known())
				assert.Equal(t, s, o.Service())
				assert.Equal(t, r.op, o.Op())
				assert.Equal(t, start, o.Start())
				assert.Equal(t, end, o.End())
				assert.Equal(t, request, o.Request())
				assert.Equal(t, !request, o.Response())
				assert.Equal(t, r.op == wire.OpSend || write || r.op == wire.OpReadResponse ||
					r.op == wire.OpAtomicWrite, o.HasPayload())
				assert.Equal(t, s == wire.RD, o.HasRDETH())
				assert.Equal(t, s == wire.UD || s == wire.RD && request, o.HasDETH())
				assert.Equal(t, write && start || r.op == wire.OpReadRequest || r.low >= 0x1c, o.HasRETH())
				assert.Equal(t, r.op == wire.OpFlush, o.HasFETH())
				assert.Equal(t, atomic, o.HasAtomicETH())
				assert.Equal(t, ack || r.op == wire.OpReadResponse && r.place != 'm', o.HasAETH())
				assert.Equal(t, r.op == wire.OpAtomicAcknowledge, o.HasAtomicAckETH())
				assert.Equal(t, imm, o.HasImm())
				assert.Equal(t, inv, o.HasIETH())
				assert.Equal(t, wire.BTHLen+ext, o.HeaderLen())

				got, ok := wire.Make(s, r.op, start, end, imm, inv)
				assert.True(t, ok)
				assert.Equal(t, o, got)
			})
		}
	}
	for i := range 256 {
		o := wire.Opcode(i)
		if !seen[o] {
			assert.False(t, o.Known() || o.Valid() || o.Start() || o.End() || o.Request() ||
				o.Response() || o.HasPayload(),
				"%v", o)
			assert.Equal(t, wire.OpNone, o.Op())
			assert.Equal(t, wire.BTHLen, o.HeaderLen())
			assert.Contains(t, o.String(), "Opcode(0x")
		}
	}
}

func TestOpcodeConstants(t *testing.T) {
	// The first and the last constant of each block. TestOpcodeTable covers those between them.
	for o, name := range map[wire.Opcode]string{
		wire.RCSendFirst: "RC_SEND_FIRST", wire.RCWriteOnlyImm: "RC_RDMA_WRITE_ONLY_IMM",
		wire.RCReadRequest:        "RC_RDMA_READ_REQUEST",
		wire.RCReadResponseMiddle: "RC_RDMA_READ_RESPONSE_MIDDLE", wire.RCAcknowledge: "RC_ACKNOWLEDGE",
		wire.RCAtomicAcknowledge: "RC_ATOMIC_ACKNOWLEDGE", wire.RCCompareSwap: "RC_COMPARE_SWAP",
		wire.RCFetchAdd:    "RC_FETCH_ADD",
		wire.RCSendLastInv: "RC_SEND_LAST_INV", wire.RCSendOnlyInv: "RC_SEND_ONLY_INV",
		wire.RCFlush: "RC_FLUSH", wire.RCAtomicWrite: "RC_ATOMIC_WRITE",
		wire.UCSendFirst:    "UC_SEND_FIRST",
		wire.UCWriteOnlyImm: "UC_RDMA_WRITE_ONLY_IMM", wire.RDSendFirst: "RD_SEND_FIRST", wire.RDResync: "RD_RESYNC",
		wire.UDSendOnly: "UD_SEND_ONLY", wire.UDSendOnlyImm: "UD_SEND_ONLY_IMM", wire.CNP: "CNP", 0x15: "Opcode(0x15)",
	} {
		assert.Equal(t, name, o.String())
	}
	assert.True(t, wire.CNP.Valid() && wire.CNP.Start() && wire.CNP.End())
	assert.Equal(t, wire.BTHLen, wire.CNP.HeaderLen())
	assert.Equal(t, wire.OpCNP, wire.CNP.Op())
	assert.Equal(t, "Service(7)", wire.Service(7).String())
	assert.Equal(t, "Op(200)", wire.Op(200).String())
}

// TestMakeInverse calls Make with all combinations of arguments. Every result must have the properties of the
// arguments, and every opcode must be a result.
func TestMakeInverse(t *testing.T) {
	made := map[wire.Opcode]bool{}
	for s := range wire.Service(12) {
		for op := range wire.Op(20) {
			for bits := range 16 {
				start, end := bits&8 != 0, bits&4 != 0
				imm, inv := bits&2 != 0, bits&1 != 0
				o, ok := wire.Make(s, op, start, end, imm, inv)
				if !ok {
					continue
				}
				require.False(t, made[o], "%v made twice", o)
				made[o] = true
				assert.Equal(t, []any{s, op, start, end, imm, inv},
					[]any{o.Service(), o.Op(), o.Start(), o.End(), o.HasImm(), o.HasIETH()}, "%v", o)
			}
		}
	}
	for i := range 256 {
		assert.Equal(t, wire.Opcode(i).Known(), made[wire.Opcode(i)], "%v", wire.Opcode(i))
	}
	_, ok := wire.Make(wire.UC, wire.OpReadRequest, true, true, false, false)
	assert.False(t, ok)
	_, ok = wire.Make(wire.UC, wire.OpSend, true, true, false, true)
	assert.False(t, ok)
}
