package validate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestClearDoubts checks that a failed case names the machine or the link as a possible cause only if that was
// measured.
func TestClearDoubts(t *testing.T) {
	busy := Conditions{Lossless: true, Stall: Elapsed(time.Second), Stalled: 0.9}
	for _, x := range []struct {
		name   string
		status Status
		c      Conditions
		doubt  Doubt
		want   Doubt
	}{
		{"a loss on a quiet link", Fail, Conditions{Lossless: true}, DoubtLoss, ""},
		{"a loss on a busy machine", Fail, busy, DoubtLoss, DoubtLoss},
		{"a loss on a link that may lose", Fail, Conditions{}, DoubtLoss, DoubtLoss},
		{"late on a quiet machine", Fail, Conditions{}, DoubtTime, ""},
		{"late on a busy machine", Fail, busy, DoubtTime, DoubtTime},
		{"late on a link that lost", Flaky, Conditions{Sent: 9, Lost: 1}, DoubtTime, DoubtTime},
		{"inconclusive", Inconclusive, Conditions{}, DoubtTime, DoubtTime},
	} {
		r := Result{Status: x.status, Failures: []Failure{{Doubt: x.doubt}}, conditions: x.c}
		r.clearDoubts()
		assert.Equal(t, x.want, r.Failures[0].Doubt, x.name)
	}
}
