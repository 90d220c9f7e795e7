package accesslayer

import "ciddk/ci"

// RDD is a reliable datagram domain. It cannot be destroyed while a QP uses it. CI returns its plain view, which is the
// value for ci.QPCreate.RDD.
type RDD struct {
	object
	verbs rddVerbs
	pd    *PD
}

func (r *RDD) Unwrap() any { return r.verbs.RDD }

// NewRDD creates a domain. Status: as ci.PD.AllocRDD; InvalidState with ErrClosed.
func (p *PD) NewRDD() (*RDD, error) {
	r := &RDD{pd: p}
	r.n = &node{kind: kindRDD, obj: r}
	err := r.n.make(p.n, "PD.AllocRDD", func() (func() error, error) {
		in, err := p.verbs.AllocRDD()
		r.verbs.RDD = in
		return destroyer(in), err
	})
	return made(r, err)
}

// NewEEC creates an end-to-end context. onEvent, which may be nil, is called with the EEC and its events, one at a time
// on a goroutine of the access layer; c.OnEvent is called as well. Status: as ci.RDD.CreateEEC; InvalidState with
// ErrClosed.
func (r *RDD) NewEEC(c ci.EECCreate, onEvent func(*EEC, ci.Event)) (*EEC, error) {
	e := &EEC{}
	e.n = &node{kind: kindEEC, obj: e}
	if event := c.OnEvent; event != nil || onEvent != nil {
		c.OnEvent = func(ev ci.Event) {
			e.n.callback(func() {
				if onEvent != nil {
					onEvent(e, ev)
				}
				if event != nil {
					event(ev)
				}
			})
		}
	}
	err := e.n.make(r.n, "RDD.CreateEEC", func() (func() error, error) {
		in, err := r.verbs.CreateEEC(c)
		e.eecVerbs.EEC = in
		return destroyer(in), err
	})
	return made(e, err)
}

// EEC is an end-to-end context. It is a ci.EEC.
type EEC struct {
	object
	eecVerbs
}

func (e *EEC) Unwrap() any { return e.eecVerbs.EEC }

// Query returns the attributes. Status: as ci.EEC.Query; InvalidHandle with ErrClosed.
func (e *EEC) Query() (attr ci.QPAttr, err error) {
	err = e.n.during("EEC.Query", func() error { attr, err = e.eecVerbs.Query(); return err })
	return attr, err
}

// Modify moves the EEC to another state, or changes attributes. Status: as ci.EEC.Modify; InvalidHandle with ErrClosed.
func (e *EEC) Modify(set ci.QPField, attr ci.QPAttr) error {
	return e.n.during("EEC.Modify", func() error { return e.eecVerbs.Modify(set, attr) })
}
