package rvt

// engineObject is any object that the engine has made.
type engineObject interface {
	owner() *HCA
	alive() bool
}

func (c *CA) owner() *HCA           { return c.hca }
func (d *PD) owner() *HCA           { return d.ca.hca }
func (a *AV) owner() *HCA           { return a.pd.ca.hca }
func (q *CQ) owner() *HCA           { return q.hca }
func (s *SRQ) owner() *HCA          { return s.pd.ca.hca }
func (q *QP) owner() *HCA           { return q.hca }
func (m *Mcast) owner() *HCA        { return m.qp.hca }
func (m *MR) owner() *HCA           { return m.h }
func (m *MW) owner() *HCA           { return m.pd.ca.hca }
func (f *FMR) owner() *HCA          { return f.pd.ca.hca }
func (d *DMA) owner() *HCA          { return d.ca.hca }
func (e *eventHandler) owner() *HCA { return e.ca.hca }
