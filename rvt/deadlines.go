package rvt

// The deadlines of a QP. One timer of the HCA's wheel serves them all; what it finds due is done in the QP's turn of
// the run queue, since other deadlines wait for the wheel.

// setTimer sets the wheel to the earliest deadline.
func (q *QP) setTimer() {
	at := q.req.nextDeadline()
	if t := q.resp.gapAt; t != 0 && (at == 0 || t < at) {
		at = t
	}
	if at != 0 && (q.timerAt == 0 || at < q.timerAt) {
		q.timerAt = at
		q.dev.wheel.Set(&q.timer, at)
	}
}
