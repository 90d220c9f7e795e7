package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// Buffers of a shared receive queue belong to its domain, whatever that of the QP that takes them (IBTA volume 1,
// 10.2.9).
func TestSRQDomain(t *testing.T) {
	for _, x := range []struct {
		own  bool // the buffer is in the SRQ's domain, else in the QP's
		want ci.WCStatus
	}{{true, ci.WCSuccess}, {false, ci.WCLocalProtErr}} {
		a, b := pair(t, &wireLink{}, ci.RC)
		pd, err := b.ca.AllocatePD(ci.PDNormal)
		require.NoError(t, err)
		srq, err := pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		require.NoError(t, err)
		buf := make([]byte, 64)
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(buf), Access: ci.LocalWrite})
		require.NoError(t, err)
		b.remake(ci.QPCreate{Type: ci.RC, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq,
			QPCaps: ci.QPCaps{SendDepth: 4, SendSGE: 1}})
		require.NoError(t, a.qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPReset}))
		a.connect(b, nil)
		b.connect(a, nil)
		region := b.mr.Region()
		if x.own {
			region = mr.Region()
		}
		_, err = srq.PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{region.SGE(0, 64)}}})
		require.NoError(t, err)
		a.send(ci.SendWR{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled, SGL: a.sge(0, 64)})
		wc := b.poll()
		require.Len(t, wc, 1)
		require.Equal(t, x.want, wc[0].Status)
		require.Len(t, a.poll(), 1)
		require.NoError(t, b.qp.Destroy())
		b.qp = nil
		require.NoError(t, mr.Destroy())
		require.NoError(t, srq.Destroy())
		require.NoError(t, pd.Destroy())
	}
}
