package mlx4_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// TestDestroyFails fails the command that ends an object. The object remains, the adapter has failed, and everything
// can be destroyed then.
func TestDestroyFails(t *testing.T) {
	for _, op := range []prm.Opcode{prm.Cmd2RST, prm.CmdHW2SWCQ, prm.CmdHW2SWSRQ, prm.CmdHW2SWMPT} {
		t.Run(op.String(), func(t *testing.T) {
			o := newSingle(t, true)
			srq, err := o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 5, MaxSGE: 1}})
			require.NoError(t, err)
			cq, err := o.pd.CreateCQ(ci.CQCreate{Size: 10})
			require.NoError(t, err)
			o.m.FailCommand(op, prm.InternalErr, 1)
			x := map[prm.Opcode]ci.Object{prm.Cmd2RST: o.qp, prm.CmdHW2SWCQ: cq, prm.CmdHW2SWSRQ: srq,
				prm.CmdHW2SWMPT: o.mr}[op]
			require.Error(t, x.Destroy())
			o.wait(t)
			o.close(t, srq, cq)
		})
	}
}

// TestResetToErrorFails fails one of the commands of the way from Reset to Error. The QP is in Reset afterwards, in the
// adapter, too.
func TestResetToErrorFails(t *testing.T) {
	for _, op := range []prm.Opcode{prm.CmdRST2INIT, prm.Cmd2ERR} {
		t.Run(op.String(), func(t *testing.T) {
			o := newSingle(t, true)
			require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
			o.m.FailCommand(op, prm.ResourceBusy, 1)
			toError := ci.QPAttr{State: ci.QPError}
			require.ErrorIs(t, o.qp.Modify(ci.QPFieldState, toError), ci.ResourceBusy)
			a, err := o.qp.Query()
			require.NoError(t, err)
			require.Equal(t, ci.QPReset, a.State)
			require.NoError(t, o.qp.Modify(ci.ToInit{Port: 1}.For(ci.RC)))
			require.NoError(t, o.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
			require.NoError(t, o.qp.Modify(ci.QPFieldState, toError))
			o.close(t)
		})
	}
}

// TestCloseEarly closes an adapter whose CA is open, which is refused, and unplugs it: its consumer loses the adapter,
// and no memory that it may use.
func TestCloseEarly(t *testing.T) {
	o := newSingle(t, true)
	srq, err := o.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 5, MaxSGE: 1}})
	require.NoError(t, err)
	idle, err := o.pd.CreateCQ(ci.CQCreate{Size: 10})
	require.NoError(t, err)
	used := o.f.Memory().Len()
	for range 2 {
		require.ErrorIs(t, o.h.Close(), ci.ResourceBusy)
	}
	_, err = o.qp.Query()
	require.NoError(t, err)
	o.h.Unplug()
	o.wait(t)
	require.Equal(t, used, o.f.Memory().Len())
	_, err = o.qp.PostSend([]ci.SendWR{{Op: ci.OpSend, SGL: o.sge()}})
	require.ErrorIs(t, err, ci.InvalidState)
	_, err = srq.PostRecv([]ci.RecvWR{{SGL: o.sge()}})
	require.ErrorIs(t, err, ci.InvalidState)
	n, err := idle.Poll(make([]ci.WC, 1))
	require.NoError(t, err)
	require.Zero(t, n)
	o.close(t, srq, idle)
	require.NoError(t, o.h.Close())
	require.Zero(t, o.f.Memory().Len())
}
