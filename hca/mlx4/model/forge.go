package model

import "ciddk/internal/mlx4/prm"

// ForgeCompletion appends an entry of the caller's choice to a CQ, but for its owner bit, as an adapter that errs may
// do. It reports false if there is no such CQ, or no room.
func (m *Model) ForgeCompletion(cqn uint32, entry [prm.CQESize]byte) bool {
	q := m.cq(cqn)
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.add(&entry) {
		return false
	}
	q.solicited = q.producer
	q.fireIfDue()
	return true
}

// CQRoom returns the number of entries for which a CQ has room. It returns 0 if there is no such CQ.
func (m *Model) CQRoom(cqn uint32) int {
	q := m.cq(cqn)
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.status != 0 || !q.readConsumer() {
		return 0
	}
	return 1<<q.log - int((q.producer-q.consumer)&indexMask)
}

// ForgeEvent appends an entry of the caller's choice to an EQ, but for its owner bit. It reports false if there is no
// such EQ, or no room.
func (m *Model) ForgeEvent(eqn uint32, entry [eqeSize]byte) bool {
	e := m.eqs.get(eqn)
	return e != nil && e.put(&entry)
}

// CQs returns the numbers of the CQs that the driver has, in no order.
func (m *Model) CQs() []uint32 {
	m.objects.RLock()
	defer m.objects.RUnlock()
	var list []uint32
	for n := range m.cqs {
		list = append(list, n)
	}
	return list
}
