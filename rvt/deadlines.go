package rvt

// One timer of the device's wheel serves all deadlines of a QP. What is due is done in the QP's turn of the run queue,
// so that the wheel is not delayed.

// setTimer sets the timer to the earliest deadline.
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
