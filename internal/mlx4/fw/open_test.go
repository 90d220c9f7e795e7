package fw_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// trace records the commands of a model.
type trace struct {
	mu  sync.Mutex
	all []model.Command
}

func (x *trace) add(c model.Command) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, c)
}

// ops returns the opcodes, of which repeated ones appear once.
func (x *trace) ops() (list []prm.Opcode) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.all {
		if n := len(list); n == 0 || list[n-1] != c.Op {
			list = append(list, c.Op)
		}
	}
	return list
}

func TestOpen(t *testing.T) {
	for name, c := range modes {
		t.Run(name, func(t *testing.T) {
			var tr trace
			m := newModel(t, model.Config{Trace: tr.add})
			f := newFunction(t, m)
			d, err := fw.Open(t.Context(), f, quick(c))
			require.NoError(t, err)
			caps := d.Caps()
			assert.EqualValues(t, 1, caps.NumPorts)
			assert.Equal(t, 64, caps.CQESize)
			assert.True(t, caps.Has(prm.FlagRC))
			assert.True(t, caps.HasBMME(prm.BMMEFastRegister))
			assert.Equal(t, prm.MPTReservedLKey, caps.ReservedLKey)
			assert.Equal(t, model.DefaultBoardID, d.Firmware().BoardID)
			assert.Equal(t, c.Polling, d.IsPolling())
			p, err := d.Port(1)
			require.NoError(t, err)
			assert.Equal(t, ci.LinkInfiniBand, p.Link)
			assert.Equal(t, 128, p.NumGIDs)
			_, err = d.Port(2)
			assert.ErrorIs(t, err, fw.ErrInvalid)
			assert.Equal(t, ci.InvalidPort, ci.StatusOf(err))
			require.NoError(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}))
			require.NoError(t, d.Close())
			require.NoError(t, d.Close())
			assert.Zero(t, f.Memory().Len(), "DMA memory is left")
			want := []prm.Opcode{prm.CmdQueryFW, prm.CmdMapFA, prm.CmdRunFW, prm.CmdModStatCfg, prm.CmdQueryDevCap,
				prm.CmdQueryPort, prm.CmdSetICMSize, prm.CmdMapICMAux, prm.CmdMapICM, prm.CmdInitHCA,
				prm.CmdQueryAdapter}
			assert.Equal(t, want, tr.ops()[:len(want)])
			for _, x := range tr.all {
				assert.Equal(t, prm.OK, x.Status, "%v", x)
			}
			assert.ErrorIs(t, d.Cmd(t.Context(), prm.CmdNOP, fw.Args{}), fw.ErrClosed)
		})
	}
}
