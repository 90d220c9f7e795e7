package fw_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/mad"
)

func TestInfiniBandPort(t *testing.T) {
	m := newModel(t, model.Config{})
	d := open(t, newFunction(t, m), fw.Config{})
	ctx := t.Context()
	require.NoError(t, d.SetIBPort(ctx, 1, fw.IBPort{Capabilities: 0x02000000, MTU: ci.MTU2048, VLs: 8}))
	require.NoError(t, d.SetIBPort(ctx, 1, fw.IBPort{}))
	m.FailCommand(prm.CmdSetPort, prm.BadSize, 2)
	require.NoError(t, d.SetIBPort(ctx, 1, fw.IBPort{VLs: 8}), "fewer virtual lanes are enough")
	m.FailCommand(prm.CmdSetPort, prm.BadSize, 5)
	require.Equal(t, ci.InsufficientResources, ci.StatusOf(d.SetIBPort(ctx, 1, fw.IBPort{VLs: 8})))
	m.FailCommand(prm.CmdSetPort, prm.OK, 0)
	require.NoError(t, d.InitPort(ctx, 1))
	p, err := d.QueryPort(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, ci.MTU4096, p.IBMTU)
	require.NoError(t, d.ClosePort(ctx, 1))
	require.NoError(t, d.SetNodeDescription(ctx, "a node"))
	assert.ErrorIs(t, d.SetNodeDescription(ctx, string(make([]byte, 65))), fw.ErrInvalid)
	in, out := make([]byte, 256), make([]byte, 256)
	copy(in, []byte{1, 1, 1, 1}) // LID routed, Get
	in[17] = 0x10                // NodeDescription
	require.NoError(t, d.MadIfc(ctx, 1, prm.MADIgnoreMKey|prm.MADIgnoreBKey, 0, in, out))
	assert.Equal(t, byte(mad.GetResp), out[3])
	assert.Equal(t, "a node", string(out[64:70]))
	for _, n := range []int{0, 255, 0x201} {
		assert.ErrorIs(t, d.MadIfc(ctx, 1, 0, 0, make([]byte, n), out), fw.ErrInvalid)
	}
	for _, n := range []uint8{0, 2, 255} {
		for _, err := range []error{d.InitPort(ctx, n), d.ClosePort(ctx, n), d.SetIBPort(ctx, n, fw.IBPort{}),
			d.MadIfc(ctx, n, 0, 0, in, out)} {
			assert.Equal(t, ci.InvalidPort, ci.StatusOf(err))
		}
	}
}

func TestEthernetPort(t *testing.T) {
	for _, pro := range []bool{false, true} {
		hub := frame.NewHub()
		mac := [6]byte{2, 0, 0, 0, 0, 9}
		eth, err := frame.New(frame.Config{Carrier: hub.Join(), MAC: mac})
		require.NoError(t, err)
		ib, err := direct.New(new(direct.Link), direct.Config{})
		require.NoError(t, err)
		m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: ib}, {Link: eth}}, Pro: pro})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		d := open(t, newFunction(t, m), fw.Config{})
		ctx := t.Context()
		assert.Equal(t, pro, d.Caps().IsPro)
		p, err := d.Port(2)
		require.NoError(t, err)
		assert.Equal(t, ci.LinkEthernet, p.Link)
		assert.Equal(t, mac, p.MAC)
		require.NoError(t, d.SetEthPort(ctx, 2, fw.EthPort{MTU: 1500, PauseTX: true}))
		require.NoError(t, d.SetMACs(ctx, 2, [][6]byte{{}, mac}))
		require.NoError(t, d.SetVLANs(ctx, 2, []uint16{0, 7}))
		gid := ci.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
		require.NoError(t, d.SetGIDs(ctx, 2, []fw.GIDEntry{{GID: gid}}))
		v2 := []fw.GIDEntry{{GID: gid}, {GID: gid, IsV2: true}, {GID: ci.GID{0: 0xfe, 1: 0x80, 15: 1}, IsV2: true}}
		assert.Equal(t, pro, d.SetGIDs(ctx, 2, v2) == nil)
		assert.ErrorIs(t, d.SetGIDs(ctx, 2, make([]fw.GIDEntry, 129)), fw.ErrInvalid)
		assert.ErrorIs(t, d.SetMACs(ctx, 2, make([][6]byte, 129)), fw.ErrInvalid)
		assert.ErrorIs(t, d.SetVLANs(ctx, 2, make([]uint16, 129)), fw.ErrInvalid)
		assert.Error(t, d.SetGIDs(ctx, 1, nil), "port 1 is InfiniBand")
		hash, err := d.HashMGID(ctx, ci.GID{5: 2, 10: 2}, true)
		require.NoError(t, err)
		assert.Less(t, hash, d.Caps().NumMCGs/2)
	}
}

func TestMulticastEntries(t *testing.T) {
	d := open(t, newFunction(t, newModel(t, model.Config{})), fw.Config{})
	ctx := t.Context()
	gid := ci.GID{0: 0xff, 15: 1}
	index, err := d.HashMGID(ctx, gid, false)
	require.NoError(t, err)
	b, err := d.ReadMCG(ctx, index)
	require.NoError(t, err)
	require.Len(t, b, 1<<d.Caps().LogMCGEntry)
	assert.Zero(t, prm.MCGMembers.Get(b))
	copy(prm.MCGGID.Bytes(b, 16), gid[:])
	prm.MCGMembers.Put(b, 1)
	prm.MemberQPN.Put(b[prm.MCGQPs:], 0x123)
	require.NoError(t, d.WriteMCG(ctx, index, b))
	again, err := d.ReadMCG(ctx, index)
	require.NoError(t, err)
	assert.Equal(t, b, again)
	_, err = d.ReadMCG(ctx, d.Caps().NumMCGs)
	assert.ErrorIs(t, err, fw.ErrInvalid)
	assert.ErrorIs(t, d.WriteMCG(ctx, d.Caps().NumMCGs, b), fw.ErrInvalid)
	assert.ErrorIs(t, d.WriteMCG(ctx, 0, b[1:]), fw.ErrInvalid)
}
