package model

import (
	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// newTables empties the tables of objects.
func (m *Model) newTables() {
	m.cqs, m.qps = map[uint32]*cq{}, map[uint32]*qp{}
	m.srqs, m.pds = map[uint32]*srq{}, map[uint32]*pdRef{}
	m.mcgs = map[uint32]*mcg{}
	m.frameQPs, m.keys = map[uint32]*frameQP{}, map[ci.Key]*localKey{}
	m.promiscuous = [maxPorts + 1][2][]uint32{}
	m.steering.Store(nil)
	m.mpts.reset()
}

// openObjects makes what every initialized adapter has: the reserved L_Key, which stands for all memory of the host.
func (m *Model) openObjects() prm.Status {
	pd, status := m.takePD(0)
	if status != prm.OK {
		return status
	}
	all := &region{m: m, size: 1 << logMaxMRSize, pages: physical(0)}
	mr, err := pd.RegisterReserved(ci.Key(prm.MPTReservedLKey), all)
	if err != nil {
		m.dropPD(0)
		return statusOf(err)
	}
	m.reserved = mr
	return prm.OK
}

// destroyObjects destroys all objects of the driver. m.mu is held. No access to the memory of the host is in progress
// afterwards.
func (m *Model) destroyObjects() {
	for _, q := range m.qps {
		m.destroyQP(q)
	}
	for _, q := range m.frameQPs {
		q.close()
	}
	for _, s := range m.srqs {
		m.destroySRQ(s)
	}
	for _, q := range m.cqs {
		_ = q.face.Destroy() // no QP uses it any more
	}
	for range 2 { // windows are destroyed first, since regions wait for them
		for index, e := range m.mpts.hardware {
			if m.destroyMPT(index, e) == nil {
				m.dropPD(e.pd)
				e.close()
				delete(m.mpts.hardware, index)
			}
		}
	}
	if m.reserved != nil {
		_ = m.reserved.Destroy() // nothing uses it any more
		m.dropPD(0)
		m.reserved = nil
	}
	m.objects.Lock()
	defer m.objects.Unlock()
	m.newTables()
}
