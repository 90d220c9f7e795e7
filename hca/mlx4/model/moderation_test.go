package model_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/clock"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// TestModeration holds events back until a count of completions or a period is reached.
func TestModeration(t *testing.T) {
	k := clock.NewVirtual(0)
	p := newPeer(t, newModel(t, direct.NewLink(), model.Config{Clock: k}), prm.ServiceUD)
	p.qp.start()
	moderate := func(count, period uint64) {
		p.with(prm.CmdModifyCQ, p.cq.num, prm.ModifyCQModeration, func(b []byte) {
			prm.CQCMaxCount.Put(b, count)
			prm.CQCPeriod.Put(b, period)
		})
	}
	complete := func(n int) {
		for range n {
			p.qp.post(prm.WQENop, 0)
			requireCQE(t, p.cq.wait(), p.qp.num, true, prm.WQENop)
		}
	}
	event := func() {
		t.Helper()
		e := p.waitEvent(compEQ, prm.EventCompletion)
		require.EqualValues(t, p.cq.num, prm.EQECQN.Get(e))
		require.Empty(t, p.eqs[compEQ].pending)
	}
	silent := func() {
		t.Helper()
		require.Nil(t, p.nextEvent(p.eqs[compEQ]))
	}

	for _, m := range [][2]uint64{{2, 0}, {0, 100}} { // a count without a period, and a period without a count
		moderate(m[0], m[1])
		p.cq.arm(prm.ArmAny)
		complete(1)
		silent()
		if m[0] == 0 {
			k.Advance(10 * time.Millisecond)
		} else {
			complete(1)
		}
		event()
	}

	moderate(3, 100)
	p.cq.arm(prm.ArmAny)
	complete(2)
	silent()
	complete(1)
	event()

	p.cq.arm(prm.ArmAny)
	complete(1)
	silent()
	k.Advance(10 * time.Millisecond)
	event()

	p.cq.arm(prm.ArmAny)
	complete(2)
	silent()
	moderate(0, 0)
	event()
	p.cq.arm(prm.ArmAny)
	complete(1)
	event()

	moderate(3, 100)
	// The driver has taken the completions of the period, and is armed for more.
	p.cq.arm(prm.ArmAny)
	complete(2)
	p.cq.arm(prm.ArmAny)
	k.Advance(10 * time.Millisecond)
	complete(3)
	event()
}
