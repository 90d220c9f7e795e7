package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/mad"
)

// The sequence of Linux's driver up to the interrupt test, and a port that comes up.
func TestProbe(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.start()
	p := d.query(prm.CmdQueryPort, 1, 0)
	require.EqualValues(t, prm.PortTypeIB, prm.PortTypes.Get(p))
	d.imm(prm.CmdInitPort, 0, 1, 0)
	e := d.waitEvent(asyncEQ, prm.EventPortChange)
	require.EqualValues(t, prm.PortChangeActive, prm.EQESubtype.Get(e))
	require.EqualValues(t, 1, prm.EQEPort.Get(e))
	e = d.waitEvent(asyncEQ, prm.EventPortMgmtChange)
	require.EqualValues(t, prm.MgmtPortInfo, prm.EQESubtype.Get(e))

	get := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get, TID: 7,
		Attribute: mad.AttrPortInfo, Modifier: 1}
	d.fill(get.Put)
	d.must(prm.CmdMADIFC, 1, 1)
	var h mad.Header
	h.Parse(d.out.Bytes)
	require.Equal(t, mad.GetResp, h.Method)
	require.Zero(t, h.Status)
	var info mad.PortInfo
	info.Parse(d.out.Bytes[64:128])
	require.EqualValues(t, ci.PortActive, info.State)

	// A subnet manager of the guest announces itself.
	d.with(prm.CmdSetPort, 1, prm.SetPortModeIB, func(b []byte) {
		prm.SetPortCapabilities.Put(b, uint64(ci.PortCapSM))
	})
	d.fill(get.Put)
	d.must(prm.CmdMADIFC, 1, 1)
	info.Parse(d.out.Bytes[64:128])
	require.NotZero(t, info.CapabilityMask&uint32(ci.PortCapSM))

	d.imm(prm.CmdClosePort, 0, 1, 0)
	d.imm(prm.CmdClosePort, 0, 1, 0)
	d.events = false
	d.imm(prm.CmdHW2SWEQ, 0, asyncEQ, 1)
	d.imm(prm.CmdCloseHCA, 0, 0, 0)
	d.imm(prm.CmdUnmapICM, 0, icmSize/prm.ICMPageSize, 0)
	d.imm(prm.CmdUnmapFA, 0, 0, 0)
	s, _ := d.exec(prm.CmdRunFW, 0, 0, 0, 0)
	require.Equal(t, prm.BadSysState, s)
	d.write(prm.RegOwnership, 0)
	d.start()
}

// Commands that the model does not have, and those that come too early.
func TestCommandStatus(t *testing.T) {
	d := newDriver(t, newModel(t, direct.NewLink(), model.Config{}))
	d.reset()
	for _, c := range []struct {
		name string
		op   prm.Opcode
		in   uint64
		mod  uint32
		want prm.Status
	}{
		{"unknown", 0xabc, 0, 0, prm.BadOp},
		{"too early", prm.CmdInitHCA, d.in.IOVA, 0, prm.BadSysState},
		{"firmware not loaded", prm.CmdRunFW, 0, 0, prm.BadSysState},
		{"no mailbox", prm.CmdMapFA, 1, 1, prm.BadParam},
		{"no pages", prm.CmdMapFA, d.in.IOVA, 0, prm.BadParam},
		{"too many pages", prm.CmdMapFA, d.in.IOVA, 257, prm.BadParam},
	} {
		s, _ := d.exec(c.op, c.in, c.mod, 0, d.out.IOVA)
		require.Equal(t, c.want, s, c.name)
	}
	s, _ := d.exec(prm.CmdQueryFW, 0, 0, 0, 1)
	require.Equal(t, prm.BadParam, s, "the mailbox is not mapped")
}
