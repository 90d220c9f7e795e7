package storm

import "time"

// errorLimit is the rule by which both ends limit what sequence errors cost: errorBurst of them count at once, and one more every errorEvery.
// Others count only if they still hold after errorPatience, and then make room for errorRefund.
type errorLimit struct{ paid time.Duration }

const (
	errorBurst    = 16
	errorEvery    = 50 * time.Millisecond
	errorPatience = time.Millisecond
	errorRefund   = 8
)

func (l *errorLimit) allow(now time.Duration) bool {
	ahead := max(l.paid-now, 0)
	if ahead > (errorBurst-1)*errorEvery {
		return false
	}
	l.paid = now + ahead + errorEvery
	return true
}

func (l *errorLimit) refund() { l.paid -= errorRefund * errorEvery }
