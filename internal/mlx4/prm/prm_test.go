package prm_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/internal/mlx4/prm"
)

func TestLayouts(t *testing.T) {
	for _, l := range prm.Layouts() {
		require.NotEmpty(t, l.Source, l.Name)
		require.NotEmpty(t, l.Fields, l.Name)
		names := map[string]bool{}
		for i := range l.Fields {
			f := &l.Fields[i]
			require.False(t, names[f.Name], "%s: two fields %q", l.Name, f.Name)
			names[f.Name] = true
			require.Same(t, l, f.Layout)
		}
	}
}

// Each field keeps the largest value, and changes no bit of any other field. Fields of unions may overlap.
func TestFields(t *testing.T) {
	for _, l := range prm.Layouts() {
		for i := range l.Fields {
			f := &l.Fields[i]
			b := make([]byte, l.Size)
			f.Put(b, 1<<63|f.Max())
			require.Equal(t, f.Max(), f.Get(b), "%s.%s", l.Name, f.Name)
			if !prm.IsUnion(l) {
				for k := range l.Fields {
					if o := &l.Fields[k]; k != i {
						require.Zero(t, o.Get(b), "%s: %s and %s overlap", l.Name, f.Name, o.Name)
					}
				}
			}
			for k := range b {
				b[k] = ^b[k]
			}
			require.Zero(t, f.Get(b), "%s.%s", l.Name, f.Name)
			f.Put(b, 0)
			f.Put(b, f.Max())
			for _, v := range b {
				require.EqualValues(t, 0xff, v, "%s.%s", l.Name, f.Name)
			}
		}
	}
}

// The bytes are those that the drivers of Linux read and write.
func TestGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		put  func(b []byte)
		want string
	}{
		{"HCR of a NOP with an event", 28, func(b []byte) {
			prm.HCRInModifier.Put(b, 0x1f)
			prm.HCRToken.Put(b, 0x1234)
			prm.HCRGo.Put(b, 1)
			prm.HCREvent.Put(b, 1)
			prm.HCRToggle.Put(b, 1)
			prm.HCROpcode.Put(b, uint64(prm.CmdNOP))
		}, "0000000000000000 0000001f 0000000000000000 12340000 00e00031"},
		{"send doorbell", 8, func(b []byte) { prm.CtrlBFQPN.Put(append(b, make([]byte, 8)...)[:16], 0x240) },
			"00000000 00024000"},
		{"CQ doorbell", 8, func(b []byte) {
			prm.CQDoorbellSequence.Put(b, 3)
			prm.CQDoorbellCommand.Put(b, prm.ArmAny)
			prm.CQDoorbellCQN.Put(b, 0x81)
			prm.CQDoorbellConsumer.Put(b, 0x10203)
		}, "32000081 00010203"},
		{"EQE of a command", 32, func(b []byte) {
			prm.EQEType.Put(b, prm.EventCommand)
			prm.EQEToken.Put(b, 0xabcd)
			prm.EQEStatus.Put(b, uint64(prm.BadParam))
			prm.EQEOutHigh.Put(b, 1)
			prm.EQEOutLow.Put(b, 2)
			prm.EQEOwner.Put(b, 1)
		}, "000a0000 0000abcd 00000000 00000003 00000001 00000002 00000000 00000080"},
		{"EQE of a port", 32, func(b []byte) {
			prm.EQEType.Put(b, prm.EventPortChange)
			prm.EQESubtype.Put(b, prm.PortChangeActive)
			prm.EQEPort.Put(b, 2)
		}, "00090004 00000000 00000000 20000000 00000000 00000000 00000000 00000000"},
		{"CQE of a receive with immediate data", 32, func(b []byte) {
			prm.CQEQPN.Put(b, 0x240)
			prm.CQEImmediate.Put(b, 0x01020304)
			prm.CQERemoteQPN.Put(b, 0x111)
			prm.CQEGRH.Put(b, 1)
			prm.CQESL.Put(b, 5)
			prm.CQERemoteLID.Put(b, 7)
			prm.CQEByteCount.Put(b, 1024)
			prm.CQEWQEIndex.Put(b, 9)
			prm.CQEOwner.Put(b, 1)
			prm.CQEOpcode.Put(b, prm.CQERecvSendImm)
		}, "00000240 01020304 80000111 50000007 00000000 00000400 00090000 00000082"},
		{"CQE of an error", 32, func(b []byte) {
			prm.CQEQPN.Put(b, 1)
			prm.CQEWQEIndex.Put(b, 0x102)
			prm.CQEVendorErr.Put(b, 0xf9)
			prm.CQESyndrome.Put(b, uint64(prm.SynFlushed))
			prm.CQESend.Put(b, 1)
			prm.CQEOpcode.Put(b, prm.CQEOpcodeError)
		}, "00000001 00000000 00000000 00000000 00000000 00000000 0102f905 0000005e"},
		{"RDMA write", 48, func(b []byte) {
			prm.CtrlOwner.Put(b, 1)
			prm.CtrlOpcode.Put(b, prm.WQEWriteImm)
			prm.CtrlFence.Put(b, 1)
			prm.CtrlSize.Put(b, 3)
			prm.CtrlCompletion.Put(b, prm.CompletionAlways)
			prm.CtrlSolicited.Put(b, 1)
			prm.CtrlImmediate.Put(b, 0xdeadbeef)
			prm.RemoteAddress.Put(b[16:], 0x7f0011223344)
			prm.RemoteKey.Put(b[16:], 0x8001)
			prm.DataCount.Put(b[32:], 4096)
			prm.DataKey.Put(b[32:], 0x500)
			prm.DataAddress.Put(b[32:], 0x1000)
		}, "80000009 00000043 0000000e deadbeef 00007f0011223344 00008001 00000000 00001000 00000500 0000000000001000"},
		{"path", prm.PathSize, func(b []byte) {
			prm.PathPKeyIndex.Put(b, 1)
			prm.PathGRH.Put(b, 1)
			prm.PathRemoteLID.Put(b, 0x22)
			prm.PathAckTimeout.Put(b, 14)
			prm.PathGIDIndex.Put(b, 3)
			prm.PathHopLimit.Put(b, 64)
			prm.PathClass.Put(b, 0xab)
			prm.PathFlowLabel.Put(b, 0x12345)
			prm.PathSchedule.Put(b, 0x83)
			prm.PathPort.Put(b, 1)
			prm.PathMAC.Put(b, 0x020000000001)
		}, "00000001 00800022 70030040 0ab12345 00000000000000000000000000000000 c3000000 00000200 00000001"},
		{"QP context", prm.QPContextSize, func(b []byte) {
			prm.QPCState.Put(b, prm.QPRTS)
			prm.QPCService.Put(b, prm.ServiceUD)
			prm.QPCMigration.Put(b, prm.MigrationMigrated)
			prm.QPCPD.Put(b, 5)
			prm.QPCMTU.Put(b, 5)
			prm.QPCLogMessage.Put(b, 31)
			prm.QPCLogRecvSize.Put(b, 7)
			prm.QPCLogRecvStride.Put(b, 1)
			prm.QPCLogSendSize.Put(b, 6)
			prm.QPCLogSendStride.Put(b, 3)
			prm.QPCReservedLKey.Put(b, 1)
			prm.QPCUAR.Put(b, 0x80)
			prm.QPCNumber.Put(b, 0x240)
			prm.QPCRemote.Put(b, 0x241)
		}, "30031800 00000005 bf393310 00000080 00000240 00000241" + strings.Repeat("00", prm.QPContextSize-24)},
	} {
		b := make([]byte, c.size, c.size+16)
		c.put(b)
		if c.name == "send doorbell" {
			b = b[:8]
		}
		require.Equal(t, strings.ReplaceAll(c.want, " ", ""), hex.EncodeToString(b), c.name)
	}
}

func TestKeys(t *testing.T) {
	require.EqualValues(t, 0x00012345, prm.KeyOf(0x45000123))
	for _, v := range []uint32{0, 1, 0x12345678, 0xffffffff} {
		require.Equal(t, v, prm.IndexOf(prm.KeyOf(v)))
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, "QUERY_FW", prm.CmdQueryFW.String())
	require.Equal(t, "command 0xabc", prm.Opcode(0xabc).String())
	require.Equal(t, "BAD_OP", prm.BadOp.String())
	require.Equal(t, "status 0x99", prm.Status(0x99).String())

	o, err := prm.ParseOpcode("SW2HW_MPT")
	require.NoError(t, err)
	require.Equal(t, prm.CmdSW2HWMPT, o)
	s, err := prm.ParseStatus("REG_BOUND")
	require.NoError(t, err)
	require.Equal(t, prm.RegBound, s)
	for _, name := range []string{"", "sw2hw_mpt", "command 0xabc"} {
		_, err := prm.ParseOpcode(name)
		require.ErrorContains(t, err, "no command", name)
		_, err = prm.ParseStatus(name)
		require.ErrorContains(t, err, "no status", name)
	}
}
