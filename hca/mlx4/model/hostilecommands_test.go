package model_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/mad"
)

// A badCommand is a command with a parameter that the adapter rejects.
type badCommand struct {
	attack string
	op     prm.Opcode
	mod    uint32
	opMod  uint8
	fill   func(b []byte) // the mailbox; nil: in is the parameter
	in     uint64
	want   prm.Status
}

// badCommands are commands for an adapter with a CQ 128, a QP 0x240 in Init and an EQ, and tables of the test driver's
// sizes.
func badCommands(p *peer) []badCommand {
	put := func(list ...any) func(b []byte) {
		return func(b []byte) {
			for i := 0; i < len(list); i += 2 {
				f := list[i].(prm.Field)
				f.Put(b, uint64(list[i+1].(int)))
			}
		}
	}
	qp := func(list ...any) func(b []byte) {
		return func(b []byte) {
			copy(b[prm.QPContext.Off:], p.qp.context)
			put(list...)(b[prm.QPContext.Off:])
		}
	}
	mpt := func(index int, list ...any) func(b []byte) {
		all := []any{prm.MPTOwner, int(prm.MPTOwnerSW), prm.MPTMemory, 1, prm.MPTRegion, 1, prm.MPTIndex, index,
			prm.MPTPD, testPD, prm.MPTLength, 4096, prm.MPTLogPage, 12}
		return put(append(all, list...)...)
	}
	mtt := int(p.cq.mtt)
	return []badCommand{
		{"CQ number beyond the table", prm.CmdSW2HWCQ, 1 << 16, 0, put(prm.CQCMTTLow, mtt), 0, prm.BadIndex},
		{"CQ that exists", prm.CmdSW2HWCQ, 128, 0, put(prm.CQCMTTLow, mtt), 0, prm.BadResState},
		{"CQ larger than announced", prm.CmdSW2HWCQ, 140, 0, put(prm.CQCLogSize, 23), 0, prm.ExceedLim},
		{"CQ whose MTT address is not aligned", prm.CmdSW2HWCQ, 140, 0, put(prm.CQCMTTLow, mtt+4), 0, prm.BadParam},
		{"CQ whose MTTs are not present", prm.CmdSW2HWCQ, 140, 0, put(prm.CQCMTTLow, 0x80000), 0, prm.BadParam},
		{"CQ whose MTTs are not in the ICM", prm.CmdSW2HWCQ, 140, 0, put(prm.CQCMTTHigh, 0xff), 0, prm.BadParam},
		{"CQ in use", prm.CmdHW2SWCQ, 128, 1, nil, 0, prm.ResourceBusy},
		{"CQ that does not exist", prm.CmdQueryCQ, 141, 0, nil, 0, prm.BadIndex},
		{"EQ number beyond the table", prm.CmdSW2HWEQ, 1 << 9, 0, put(), 0, prm.BadIndex},
		{"EQ that exists", prm.CmdSW2HWEQ, compEQ, 0, put(prm.EQCMTTLow, mtt), 0, prm.BadResState},
		{"EQ larger than announced", prm.CmdSW2HWEQ, 20, 0, put(prm.EQCLogSize, 21), 0, prm.ExceedLim},
		{"EQ with a vector that does not exist", prm.CmdSW2HWEQ, 20, 0, put(prm.EQCVector, 64, prm.EQCMTTLow, mtt), 0,
			prm.BadParam},
		{"events to an EQ that does not exist", prm.CmdMapEQ, 21, 0, nil, 1, prm.BadIndex},
		{"SRQ number beyond the table", prm.CmdSW2HWSRQ, 1 << 16, 0, put(), 0, prm.BadIndex},
		{"SRQ larger than announced", prm.CmdSW2HWSRQ, 70, 0, put(prm.SRQCLogSize, 15), 0, prm.ExceedLim},
		{"limit of an SRQ that does not exist", prm.CmdArmSRQ, 71, 0, nil, 1, prm.BadIndex},
		{"QP number that is reserved", prm.CmdRST2INIT, 1, 0, qp(), 0, prm.BadIndex},
		{"QP number beyond the table", prm.CmdRST2INIT, 1 << 18, 0, qp(), 0, prm.BadIndex},
		{"QP that is not in Reset", prm.CmdRST2INIT, 0x240, 0, qp(), 0, prm.BadQPState},
		{"QP of an unknown service", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCService, 2), 0, prm.BadParam},
		{"QP with a CQ that does not exist", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCSendCQN, 141), 0, prm.BadResource},
		{"QP with an SRQ that does not exist", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCHasSRQ, 1, prm.QPCSRQN, 71), 0,
			prm.BadResource},
		{"QP larger than announced", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCLogSendSize, 15), 0, prm.ExceedLim},
		{"QP with more receives than announced", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCLogRecvSize, 15), 0,
			prm.ExceedLim},
		{"QP whose MTT address is not aligned", prm.CmdRST2INIT, 0x250, 0, qp(prm.QPCMTTLow, mtt+4), 0, prm.BadParam},
		{"step of a QP in Reset", prm.CmdINIT2RTR, 0x250, 0, qp(), 0, prm.BadQPState},
		{"step from another state", prm.CmdRTR2RTS, 0x240, 0, qp(), 0, prm.BadQPState},
		{"special QPs beyond the table", prm.CmdConfSpecialQP, 1<<18 - 3, 0, nil, 0, prm.BadIndex},
		{"MPT that is reserved", prm.CmdSW2HWMPT, 1, 0, mpt(1), 0, prm.BadIndex},
		{"MPT beyond the table", prm.CmdSW2HWMPT, 1 << 12, 0, mpt(1 << 12), 0, prm.BadIndex},
		{"MPT with the key of another", prm.CmdSW2HWMPT, 100, 0, mpt(101), 0, prm.BadParam},
		{"MPT that exists", prm.CmdSW2HWMPT, p.mr.index, 0, mpt(int(p.mr.index)), 0, prm.BadResState},
		{"region longer than announced", prm.CmdSW2HWMPT, 100, 0, mpt(100, prm.MPTLength, 1<<52+1), 0, prm.BadParam},
		{"region of pages without a size", prm.CmdSW2HWMPT, 100, 0, mpt(100, prm.MPTLogPage, 3), 0, prm.BadParam},
		{"physical region beyond all memory", prm.CmdSW2HWMPT, 100, 0,
			mpt(100, prm.MPTPhysical, 1, prm.MPTStart, 1<<52), 0, prm.BadParam},
		{"MPT that does not exist", prm.CmdHW2SWMPT, 99, 1, nil, 0, prm.BadIndex},
		{"no MTTs", prm.CmdWriteMTT, 0, 0, put(), 0, prm.BadParam},
		{"more MTTs than a mailbox has", prm.CmdWriteMTT, 511, 0, put(), 0, prm.BadParam},
		{"MTTs outside of the ICM", prm.CmdWriteMTT, 1, 0, func(b []byte) { binary.BigEndian.PutUint64(b, 1<<30) }, 0,
			prm.ICMError},
		{"MTTs whose address overflows", prm.CmdWriteMTT, 1, 0,
			func(b []byte) { binary.BigEndian.PutUint64(b, 1<<61) }, 0, prm.ICMError},
		{"ICM that is mapped already", prm.CmdMapICM, 1, 0, put(prm.PageVirtual, 4096), 0, prm.ICMError},
		{"last page of the ICM again", prm.CmdMapICM, 1, 0, put(prm.PageVirtual, icmSize-4096), 0, prm.ICMError},
		{"ICM address that is not aligned", prm.CmdMapICM, 1, 0, put(prm.PageVirtual, 1<<40+1), 0, prm.BadParam},
		{"no pages of the ICM", prm.CmdMapICM, 0, 0, put(), 0, prm.BadParam},
		{"more pages of the ICM than a mailbox has", prm.CmdMapICM, 257, 0, put(), 0, prm.BadParam},
		{"ICM address that overflows", prm.CmdMapICM, 1, 0, func(b []byte) {
			prm.PageVirtual.Put(b, ^uint64(0xfff))
			prm.PageLogCount.Put(b, 1)
		}, 0, prm.BadParam},
		{"unmapping half a page", prm.CmdUnmapICM, 1, 0, nil, 2048, prm.BadParam},
		{"unmapping nothing", prm.CmdUnmapICM, 0, 0, nil, 4096, prm.BadParam},
		{"multicast entry beyond the table", prm.CmdWriteMCG, 1 << 9, 0, put(), 0, prm.BadIndex},
		{"more members than an entry has", prm.CmdWriteMCG, 3, 0, put(prm.MCGMembers, 0xffffff), 0, prm.BadParam},
		{"one member more than an entry has", prm.CmdWriteMCG, 3, 0, put(prm.MCGMembers, (1<<10-prm.MCGQPs)/4+1), 0,
			prm.BadParam},
		{"frames of a port that does not exist", prm.CmdWriteMCG, 3 << 16, 1, put(), 0, prm.BadParam},
		{"second INIT_HCA", prm.CmdInitHCA, 0, 0, put(prm.HCAVersion, int(prm.InitHCAVersion)), 0, prm.BadSysState},
		{"port that does not exist", prm.CmdInitPort, 2, 0, nil, 0, prm.BadParam},
		{"SET_PORT for another link layer", prm.CmdSetPort, 1, prm.SetPortModeEth, put(), 0, prm.BadParam},
		{"MAD_IFC of a port that does not exist", prm.CmdMADIFC, 2, 1, put(), 0, prm.BadParam},
		{"MAD that is a response", prm.CmdMADIFC, 1, 1, func(b []byte) {
			h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.GetResp}
			h.Put(b)
		}, 0, prm.BadPkt},
		{"command that drivers only send to each other", 0xf00, 0, 0, nil, 0, prm.BadOp},
	}
}

// TestHostileCommands executes commands with bad parameters, twice, also with a mailbox that is not mapped. They change
// nothing.
func TestHostileCommands(t *testing.T) {
	p := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
	p.qp.modify(prm.CmdRST2INIT, 0)
	for _, c := range badCommands(p) {
		for range 2 {
			in := c.in
			if c.fill != nil {
				p.fill(c.fill)
				in = p.in.IOVA
			}
			s, _ := p.exec(c.op, in, c.mod, c.opMod, p.out.IOVA)
			assert.Equal(t, c.want, s, "%s: %v", c.attack, c.op)
		}
		if c.fill != nil {
			s, _ := p.exec(c.op, 1<<60, c.mod, c.opMod, p.out.IOVA)
			assert.NotEqual(t, prm.OK, s, "%s: %v without a mailbox", c.attack, c.op)
		}
	}
	p.qp.modify(prm.CmdINIT2RTR, 0)
	p.qp.modify(prm.CmdRTR2RTS, 0)
	nop(t, p.qp)
	requireAlive(t, p.driver)
}

// TestHostileRecords rings doorbells whose records are far ahead of the queues. The adapter takes no more than there
// is, and goes on.
func TestHostileRecords(t *testing.T) {
	a, b := newPair(t, prm.ServiceRC)
	store(b.qp.rec.Bytes, 0xffff) // the slots have zeros: segments of 2 GiB without a key
	a.qp.post(prm.WQESend, 0, inlineSegment("x"))
	e := a.cq.wait()
	assert.EqualValues(t, prm.CQEOpcodeError, prm.CQEOpcode.Get(e))
	assert.EqualValues(t, prm.SynRemoteOp, prm.CQESyndrome.Get(e), "the responder's buffer is not its own")
	assert.EqualValues(t, prm.QPError, b.qpState(b.qp.num))
	other := newPeer(t, newModel(t, direct.NewLink(), model.Config{}), prm.ServiceUD)
	other.qp.start()
	store(other.cq.rec.Bytes, 0x800000) // behind the producer by half of all indexes
	for range 3 {
		nop(t, other.qp)
	}
	for _, p := range []*peer{a, b, other} {
		requireAlive(t, p.driver)
	}
}

// tableRow matches a row of the table of attacks in the documentation, whose last cell names tests.
var tableRow = regexp.MustCompile("(?m)^\\|[^|]+\\|[^|]+\\|([^|]*`(?:Test|Fuzz)[^|]*)\\|$")

// TestTableOfAttacks checks that the tests that the documentation names exist.
func TestTableOfAttacks(t *testing.T) {
	const root = "../../../"
	page, err := os.ReadFile(root + "docs/connectx3-model.md")
	require.NoError(t, err)
	var sources strings.Builder
	for _, dir := range []string{".", root + "bus/vfiouser", root + "bus"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		require.NoError(t, err)
		for _, f := range files {
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			sources.Write(b)
		}
	}
	rows := tableRow.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, rows)
	for _, r := range rows {
		for _, name := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(r[1], -1) {
			assert.Contains(t, sources.String(), "func "+name[1]+"(", "named by %s", r[0])
		}
	}
}
