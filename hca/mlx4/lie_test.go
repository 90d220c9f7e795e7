package mlx4_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/mad"
)

// A liar is a model whose answers to commands change on their way to the driver. Commands must be polled.
type liar struct {
	*model.Model
	host   bus.Host
	change atomic.Pointer[change]
}

// A change is a change of the output mailbox of a command.
type change func(op prm.Opcode, out []byte)

// set sets the change; nil ends it.
func (l *liar) set(c change) { l.change.Store(&c) }

func (l *liar) Attach(h bus.Host) {
	l.host = h
	l.Model.Attach(h)
}

func (l *liar) WriteBAR(bar int, off uint64, size int, v uint64) {
	c := l.change.Load()
	if c == nil || *c == nil || bar != prm.BARControl || off != prm.RegHCR+4*prm.HCRStatusDword {
		l.Model.WriteBAR(bar, off, size, v)
		return
	}
	var b [4 * prm.HCRDwords]byte
	for i := range prm.HCRDwords - 1 {
		bus.PutNumber(b[4*i:4*i+4], l.Model.ReadBAR(bar, prm.RegHCR+4*uint64(i), 4))
	}
	bus.PutNumber(b[4*prm.HCRStatusDword:], v)
	l.Model.WriteBAR(bar, off, size, v)
	at := prm.HCROutHigh.Get(b[:])<<32 | prm.HCROutLow.Get(b[:])
	out := make([]byte, prm.MailboxSize)
	if at != 0 && l.host.Memory().Read(at, out) {
		(*c)(prm.Opcode(prm.HCROpcode.Get(b[:])), out)
		l.host.Memory().Write(at, out)
	}
}

// newLiar returns the function of a liar with a port of InfiniBand or Ethernet.
func newLiar(t *testing.T, isEthernet bool) (*liar, bus.Function) {
	l := new(liar)
	if isEthernet {
		p, err := frame.New(frame.Config{Carrier: frame.NewHub().Join(), MAC: [6]byte{2, 0, 0, 0, 0, 1}})
		require.NoError(t, err)
		l.Model, err = model.New(model.Config{Ports: []model.PortConfig{{Link: p}}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, l.Model.Close()) })
	} else {
		l.Model = newModel(t, new(direct.Link))
	}
	f := local.New(l, "a liar")
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return l, f
}

// polled is config with polled commands.
func polled() mlx4.Config {
	c := config
	c.Firmware.PolledCommands = true
	return c
}

// TestImpossiblePort checks that values that no port has are errors.
func TestImpossiblePort(t *testing.T) {
	smp := func(attribute uint16, f func(data []byte)) change {
		return func(op prm.Opcode, out []byte) {
			var s mad.SMP
			if s.Parse(out); op == prm.CmdMADIFC && s.Attribute == attribute {
				f(s.Data[:])
				s.Put(out)
			}
		}
	}
	portInfo := func(f func(*mad.PortInfo)) change {
		return smp(mad.AttrPortInfo, func(data []byte) {
			var i mad.PortInfo
			i.Parse(data)
			f(&i)
			i.Put(data)
		})
	}
	queryPort := func(f func(b []byte)) change {
		return func(op prm.Opcode, out []byte) {
			if op == prm.CmdQueryPort {
				f(out)
			}
		}
	}
	for name, tt := range map[string]struct {
		change     change
		isEthernet bool
		opens      bool
	}{
		"state 0":  {change: portInfo(func(i *mad.PortInfo) { i.State = 0 }), opens: true},
		"state 9":  {change: portInfo(func(i *mad.PortInfo) { i.State = 9 }), opens: true},
		"MTU":      {change: portInfo(func(i *mad.PortInfo) { i.NeighborMTU = 6 }), opens: true},
		"MTUCap":   {change: portInfo(func(i *mad.PortInfo) { i.MTUCap = 15 }), opens: true},
		"NodeGUID": {change: smp(mad.AttrNodeInfo, func(data []byte) { clear(data) })},
		"Ethernet MTU": {change: queryPort(func(b []byte) { prm.PortEthMTU.Put(b, 100) }),
			isEthernet: true},
		"no MAC":    {change: queryPort(func(b []byte) { prm.PortMAC.Put(b, 0) }), isEthernet: true},
		"group MAC": {change: queryPort(func(b []byte) { prm.PortMAC.Put(b, 1<<40) }), isEthernet: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, f := newLiar(t, tt.isEthernet)
			if !tt.opens {
				l.set(tt.change)
				_, err := mlx4.New(t.Context(), f, polled())
				require.Error(t, err)
				l.set(nil)
			}
			h, err := mlx4.New(t.Context(), f, polled())
			require.NoError(t, err)
			c, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
			require.NoError(t, err)
			if tt.opens {
				l.set(tt.change)
				_, err = c.Query()
				require.ErrorIs(t, err, ci.ErrorStatus)
				l.set(nil)
			}
			_, err = c.Query()
			require.NoError(t, err)
			require.NoError(t, c.Destroy())
			require.NoError(t, h.Close())
		})
	}
}

// TestEthernetSpeed checks the width and the speed of RoCE ports.
func TestEthernetSpeed(t *testing.T) {
	l, f := newLiar(t, true)
	h, err := mlx4.New(t.Context(), f, polled())
	require.NoError(t, err)
	c, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	for code, want := range map[uint64][3]uint8{
		prm.Speed10G: {1, 4, 0}, prm.Speed40G: {2, 4, 0}, prm.Speed56G: {2, 4, 1}, 0: {1, 4, 0},
	} {
		l.set(func(op prm.Opcode, out []byte) {
			if op == prm.CmdQueryPort {
				prm.PortSpeed.Put(out, code)
			}
		})
		a, err := c.Query()
		require.NoError(t, err)
		p := a.Ports[0]
		assert.Equal(t, want, [3]uint8{p.WidthActive, p.SpeedActive, p.SpeedExt}, "code %#x", code)
	}
	l.set(nil)
	require.NoError(t, c.Destroy())
	require.NoError(t, h.Close())
}

// TestGIDTable checks which tables of GIDs an Ethernet port can have, and what the consumer reads of them.
func TestGIDTable(t *testing.T) {
	gid := ci.GID{0: 0xfe, 1: 0x80, 15: 1}
	v1 := ci.GIDEntry{GID: gid, Type: ci.GIDRoCEv1}
	for name, tt := range map[string]struct {
		table []ci.GIDEntry
		want  ci.Status
	}{
		"with empty entries": {[]ci.GIDEntry{v1, {}, v1}, ci.Success},
		"empty at first":     {[]ci.GIDEntry{{}, v1}, ci.InvalidParameter},
		"too long":           {slices.Repeat([]ci.GIDEntry{v1}, 129), ci.InvalidParameter},
		"of InfiniBand":      {[]ci.GIDEntry{{GID: gid}}, ci.InvalidParameter},
		"RoCE v2":            {[]ci.GIDEntry{{GID: gid, Type: ci.GIDRoCEv2}}, ci.InvalidParameter},
	} {
		t.Run(name, func(t *testing.T) {
			_, f := newLiar(t, true)
			c := config
			c.GIDs = [][]ci.GIDEntry{tt.table}
			h, err := mlx4.New(t.Context(), f, c)
			if tt.want != ci.Success {
				require.Equal(t, tt.want, ci.StatusOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
			require.NoError(t, err)
			a, err := ca.Query()
			require.NoError(t, err)
			require.Equal(t, []ci.GIDEntry{v1, {Type: ci.GIDRoCEv1}, v1}, a.Ports[0].GIDs)
			require.NoError(t, ca.Destroy())
			require.NoError(t, h.Close())
		})
	}
}
