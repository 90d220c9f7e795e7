package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A driver does not keep the UserBuffer after the verb, and marks it if it returns nothing.
func TestUserBufferOfAVIsNotKept(t *testing.T) {
	t.Parallel()
	r := newMemRig(t, func(cfg *Config) { cfg.Attr.Caps = ci.CapAV })
	attr := ci.AVAttr{Port: 1, Global: true, User: &ci.UserBuffer{Status: 9, Out: make([]byte, 4)}}
	av, err := r.pd.CreateAV(attr)
	require.NoError(t, err)
	require.Equal(t, &ci.UserBuffer{Out: []byte{}}, attr.User)
	attr.User = &ci.UserBuffer{Status: 9}
	require.NoError(t, av.Modify(attr))
	require.Zero(t, attr.User.Status)
	got, _, err := av.Query()
	require.NoError(t, err)
	attr.User = nil
	require.Equal(t, attr, got)
	require.NoError(t, av.Destroy())
	r.close()
}

// Verbs that succeed and have nothing to return still answer the UserBuffer; verbs that fail leave it unchanged.
func TestUserBufferIsAnswered(t *testing.T) {
	t.Parallel()
	r := newMemRig(t, func(cfg *Config) { withRings(cfg); cfg.Attr.Caps = ci.CapSRQ | ci.CapResizeCQ })
	cq, err := r.pd.CreateCQ(ci.CQCreate{Size: 4})
	require.NoError(t, err)
	srq, err := r.pd.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
	require.NoError(t, err)
	qp, err := r.pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
		QPCaps: ci.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}})
	require.NoError(t, err)
	verbs := map[string]func(ub *ci.UserBuffer, good bool) error{
		"QP.Modify": func(ub *ci.UserBuffer, good bool) error {
			set := ci.QPFieldState
			if !good {
				set |= ci.QPFieldSQPSN
			}
			return qp.Modify(set, ci.QPAttr{State: ci.QPError, User: ub})
		},
		"SRQ.Modify": func(ub *ci.UserBuffer, good bool) error {
			attr := ci.SRQAttr{Limit: 1, User: ub}
			if !good {
				attr.Limit = 100
			}
			return srq.Modify(ci.SRQFieldLimit, attr)
		},
		"CQ.Resize": func(ub *ci.UserBuffer, good bool) error {
			size := 8
			if !good {
				size = 0
			}
			_, err := cq.Resize(ci.CQResize{Size: size, User: ub})
			return err
		},
	}
	for name, verb := range verbs {
		before := ci.UserBuffer{Command: 7, Status: 9, In: []byte{1}, Out: make([]byte, 4)}
		ub := before
		require.Error(t, verb(&ub, false), name)
		require.Equal(t, before, ub, name)
		require.NoError(t, verb(&ub, true), name)
		require.Equal(t, ci.UserBuffer{Command: 7, In: []byte{1}, Out: []byte{}}, ub, name)
		require.NoError(t, verb(nil, true), name)
	}
	require.NoError(t, qp.Destroy())
	require.NoError(t, srq.Destroy())
	require.NoError(t, cq.Destroy())
	r.close()
}
