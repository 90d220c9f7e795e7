package storm

import "time"

// errorLimit is the limit for sequence errors at both ends. It allows errorBurst of them at once, and one more every
// errorEvery. An end acts on further ones only after errorPatience, if the error still exists then. It allows
// errorRefund more of them after that.
type errorLimit struct {
	paid time.Duration // allowed errors advance it by errorEvery each, from the present time on
}

const (
	errorBurst    = 16
	errorEvery    = 50 * time.Millisecond
	errorPatience = time.Millisecond
	errorRefund   = 8
)

// allow reports whether an error may count now, and counts it.
func (l *errorLimit) allow(now time.Duration) bool {
	ahead := max(l.paid-now, 0)
	if ahead > (errorBurst-1)*errorEvery {
		return false
	}
	l.paid = now + ahead + errorEvery
	return true
}

// refund allows errorRefund more errors.
func (l *errorLimit) refund() { l.paid -= errorRefund * errorEvery }
