package model

import "ciddk/internal/mlx4/prm"

// A CQ fails when an entry does not fit or cannot be written (IBTA volume 1, 10.2.4.4: CQ error). It takes no entry
// afterwards, and the driver can only destroy it. The QPs that complete on it go to Error: those of the transport when
// the transport learns that an entry was lost, those of raw frames at once.

// cqSyndromes are the syndromes of the event of a failed CQ (linux eq.c: 1 is an overrun, others are access errors).
var cqSyndromes = map[uint64]uint64{
	prm.CQCStatusFull: prm.CQErrOverrun, prm.CQCStatusError: prm.CQErrAccess,
}

// fail takes the queue to its error state and reports the event. mu is held.
func (q *cq) fail(status uint64) {
	q.status = status
	q.hasFailed.Store(true)
	if status == prm.CQCStatusFull {
		q.m.diag.overflows.Add(1)
	}
	q.m.raise(prm.EventCQError, 0, func(b []byte) {
		prm.EQECQErrCQN.Put(b, uint64(q.num))
		prm.EQECQErrSyn.Put(b, cqSyndromes[status])
	})
	for _, n := range q.m.frameQPsOf(q) {
		q.m.raise(prm.EventWQCatastrophic, 0, func(b []byte) { prm.EQEQPN.Put(b, uint64(n)) })
	}
}

// frameQPsOf returns the numbers of the QPs of raw frames that complete on a queue.
func (m *Model) frameQPsOf(c *cq) (list []uint32) {
	m.objects.RLock()
	defer m.objects.RUnlock()
	for n, q := range m.frameQPs {
		if q.sendCQ == c || q.recvCQ == c {
			list = append(list, n)
		}
	}
	return list
}
