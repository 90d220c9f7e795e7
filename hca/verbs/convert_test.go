//go:build linux && (amd64 || arm64)

package verbs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
	"ciddk/hca/verbs/internal/ibv"
)

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err     error
		invalid ci.Status
		want    ci.Status
	}{
		{syscall.EINVAL, ci.Success, ci.InvalidParameter},
		{syscall.EINVAL, ci.InvalidCQSize, ci.InvalidCQSize},
		{syscall.ENOMEM, ci.InvalidCQSize, ci.InsufficientResources},
		{syscall.EBUSY, ci.Success, ci.ResourceBusy},
		{syscall.EOPNOTSUPP, ci.Success, ci.Unsupported},
		{syscall.EXDEV, ci.Success, ci.UnknownError},
		{nil, ci.Success, ci.UnknownError},
	} {
		require.Equal(t, c.want, statusOf(c.err, c.invalid), "%v", c.err)
	}
	err := reject("PD.CreateCQ", syscall.ENOMEM, ci.Success)
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.ErrorIs(t, err, syscall.ENOMEM)
	require.EqualError(t, err,
		"PD.CreateCQ: insufficient resources: the provider returned an error: cannot allocate memory")
}

// TestAddresses converts addresses there and back.
func TestAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := ci.AVAttr{Port: rapid.Uint8().Draw(t, "port"), SL: ci.SL(rapid.Uint8Max(15).Draw(t, "sl")),
			PathBits: rapid.Uint8Max(127).Draw(t, "bits"), StaticRate: ci.Rate(rapid.Uint8Max(18).Draw(t, "rate")),
			DLID: ci.LID(rapid.Uint16().Draw(t, "lid"))}
		if a.Global = rapid.Bool().Draw(t, "global"); a.Global {
			a.GRH = ci.GRH{SGIDIndex: uint16(rapid.Uint8().Draw(t, "index")),
				FlowLabel: rapid.Uint32Max(1<<20-1).Draw(t, "flow"),
				HopLimit:  rapid.Uint8().Draw(t, "hops"), TrafficClass: rapid.Uint8().Draw(t, "class")}
			copy(a.GRH.DGID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid"))
		}
		to := addressOf(&a)
		require.Equal(t, a, fromAddress(&to))
	})
}

// TestAccess converts rights there and back.
func TestAccess(t *testing.T) {
	for a := range rights + 1 {
		require.Equal(t, a, fromAccess(accessOf(a)))
	}
}

// TestStates converts states there and back.
func TestStates(t *testing.T) {
	for i, s := range states {
		v, ok := fromState(s)
		require.True(t, ok)
		require.EqualValues(t, i, v)
		require.Equal(t, s, stateOf(v, false))
	}
	require.Equal(t, ci.QPSQDraining, stateOf(4, true))
	require.Equal(t, ci.QPError, stateOf(7, false), "IBV_QPS_UNKNOWN")
	_, ok := fromState(ci.QPSQDraining)
	require.False(t, ok, "no argument of Modify")
}

// TestMasks requires that each field of QP.Modify has a bit of ibv_modify_qp.
func TestMasks(t *testing.T) {
	var all ci.QPField
	for _, m := range masks {
		require.Zero(t, all&m.field, "%#x twice", m.field)
		require.NotZero(t, m.mask)
		all |= m.field
	}
	require.Equal(t, ci.QPFieldRecvDepth<<1-1, all)
}

func TestConvert(t *testing.T) {
	x := &qp{num: 17, context: "mine", create: ci.QPCreate{Type: ci.UD}}
	q := &cq{qps: map[uint32]*qp{17: x}, gone: map[uint32]any{18: "gone"}}
	for _, c := range []struct {
		from ibv.WC
		want ci.WC
	}{
		{ibv.WC{ID: 1, Opcode: 2, ByteLen: 9, QPNum: 17},
			ci.WC{ID: 1, Op: ci.WCRead, Length: 9, QPN: 17, Context: "mine"}},
		{ibv.WC{ID: 2, Opcode: opRecvWrite, QPNum: 17, Flags: ibv.WCWithImm | ibv.WCGRH, Imm: [4]byte{1, 2, 3, 4}},
			ci.WC{ID: 2, Op: ci.WCRecvWrite, QPN: 17, Context: "mine", Imm: 0x01020304,
				Flags: ci.WCImmediate | ci.WCGRH}},
		{ibv.WC{ID: 3, Opcode: opRecv, QPNum: 18, SrcQP: 5, SL: 3, DLIDPathBits: 1, SLID: 7, PKeyIndex: 2},
			ci.WC{ID: 3, Op: ci.WCRecv, QPN: 18, Context: "gone", SrcQP: 5, SL: 3, PathBits: 1, SLID: 7, PKeyIndex: 2}},
		{ibv.WC{ID: 4, Status: 5, Opcode: 99, ByteLen: 3, VendorErr: 8, QPNum: 17, Flags: ibv.WCWithImm},
			ci.WC{ID: 4, Status: ci.WCFlushErr, QPN: 17, Context: "mine", VendorErr: 8}},
		{ibv.WC{ID: 5, Status: 99, QPNum: 17}, ci.WC{ID: 5, Status: ci.WCGeneralErr, QPN: 17, Context: "mine"}},
		{ibv.WC{ID: 6, Status: -1, QPNum: 17}, ci.WC{ID: 6, Status: ci.WCGeneralErr, QPN: 17, Context: "mine"}},
	} {
		var got ci.WC
		q.convert(&got, &c.from)
		require.Equal(t, c.want, got)
	}
	x.create.Type = ci.RC
	recv := ibv.WC{Opcode: opRecv, QPNum: 17, Flags: ibv.WCGRH}
	var plain ci.WC
	q.convert(&plain, &recv)
	require.Zero(t, plain.Flags, "the receive of a connection has no GRH")
	inv := ibv.WC{Opcode: opRecv, QPNum: 17, Flags: ibv.WCWithInv, Imm: [4]byte{1, 0, 0, 0}}
	var got ci.WC
	q.convert(&got, &inv)
	require.Equal(t, ci.WCInvalidated, got.Flags)
	require.EqualValues(t, 1, got.Imm, "a key is in host order")
}

func TestFirmware(t *testing.T) {
	for s, want := range map[string]uint64{"": 0, "2.42.5000": 2<<32 | 42<<16 | 5000,
		"16.35": 16<<32 | 35<<16, "x.1": 0, "70000.1.1": 0} {
		require.Equal(t, want, firmware(s), "%q", s)
	}
}
