package rvt

// engineObject is any object of the engine.
type engineObject interface {
	owner() *device
	alive() bool
}

func (c *CA) owner() *device           { return &c.hca.device }
func (d *PD) owner() *device           { return d.dev }
func (a *AV) owner() *device           { return a.pd.dev }
func (q *CQ) owner() *device           { return q.dev }
func (s *SRQ) owner() *device          { return s.pd.dev }
func (q *QP) owner() *device           { return q.dev }
func (m *Mcast) owner() *device        { return m.qp.dev }
func (m *MR) owner() *device           { return m.dev }
func (m *MW) owner() *device           { return m.pd.dev }
func (f *FMR) owner() *device          { return f.pd.dev }
func (d *DMA) owner() *device          { return d.dev }
func (e *eventHandler) owner() *device { return &e.ca.hca.device }
