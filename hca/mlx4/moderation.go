package mlx4

import (
	"math"
	"time"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// maxPeriod is the longest period of moderation. The adapter counts microseconds in 16 bits.
const maxPeriod = math.MaxUint16 * time.Microsecond

// Modify sets the moderation. Status: InvalidParameter (more than 65535 completions, or a period above 65.535 ms),
// InvalidCQHandle.
func (q *cq) Modify(m ci.Moderation) error {
	const verb = "CQ.Modify"
	switch {
	case m.Count < 0 || m.Count > math.MaxUint16:
		return fail(verb, ci.InvalidParameter, "Moderation.Count: want 0 to 65535")
	case m.Period < 0 || m.Period > maxPeriod:
		return fail(verb, ci.InvalidParameter, "Moderation.Period: want 0 to 65.535 ms")
	}
	q.resize.Lock()
	defer q.resize.Unlock()
	if !q.refs.Use() {
		return fail(verb, ci.InvalidCQHandle, "")
	}
	defer q.refs.Done()
	period := (m.Period + time.Microsecond - 1) / time.Microsecond
	var b [0x40]byte
	prm.CQCMaxCount.Put(b[:], uint64(m.Count))
	prm.CQCPeriod.Put(b[:], uint64(period))
	err := q.hca.cmd(prm.CmdModifyCQ, fw.Args{In: b[:], Modifier: q.num, OpModifier: prm.ModifyCQModeration})
	if err != nil {
		return firmwareError(verb, err)
	}
	q.mu.Lock()
	q.moderation = ci.Moderation{Count: m.Count, Period: period * time.Microsecond}
	q.mu.Unlock()
	return nil
}
