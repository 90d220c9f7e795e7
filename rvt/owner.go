package rvt

// engineObject is any object of the engine.
type engineObject interface {
	// isAliveOn reports whether the object belongs to the adapter on and has not been destroyed.
	isAliveOn(on *device) bool
}

func (c *CA) isAliveOn(on *device) bool           { return &c.hca.device == on && c.refs.Alive() }
func (d *PD) isAliveOn(on *device) bool           { return d.dev == on && d.refs.Alive() }
func (a *AV) isAliveOn(on *device) bool           { return a.pd.dev == on && a.refs.Alive() }
func (q *CQ) isAliveOn(on *device) bool           { return q.dev == on && q.refs.Alive() }
func (s *SRQ) isAliveOn(on *device) bool          { return s.pd.dev == on && s.refs.Alive() }
func (q *QP) isAliveOn(on *device) bool           { return q.dev == on && q.refs.Alive() }
func (m *Mcast) isAliveOn(on *device) bool        { return m.qp.dev == on && m.refs.Alive() }
func (m *MR) isAliveOn(on *device) bool           { return m.dev == on && m.refs.Alive() }
func (m *MW) isAliveOn(on *device) bool           { return m.pd.dev == on && m.refs.Alive() }
func (f *FMR) isAliveOn(on *device) bool          { return f.pd.dev == on && f.refs.Alive() }
func (d *DMA) isAliveOn(on *device) bool          { return d.dev == on && d.refs.Alive() }
func (e *eventHandler) isAliveOn(on *device) bool { return &e.ca.hca.device == on && e.Alive() }
