package alsuite

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// recorder stands between the access layer and one adapter of the driver. It records the verbs of the access layer and
// its mistakes.
type recorder struct {
	// refuse is called before each destroy. If it returns an error, that is the result; otherwise the driver is called.
	// Set it before use.
	refuse func(kind string) error

	mu     sync.Mutex
	verbs  []string       // verbs of the CA and destroys, in order
	made   map[string]int // number of created objects by kind
	ended  map[string]int
	wrong  []string // mistakes of the access layer
	closed bool
}

func newRecorder() *recorder { return &recorder{made: map[string]int{}, ended: map[string]int{}} }

// over returns the adapter with the recorder in front of it.
func (r *recorder) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{HCA: func(h ci.HCA) ci.HCA { return recHCA{ciwrap.HCA{HCA: h}, r} },
		CA:  func(c ci.CA) ci.CA { return recCA{ciwrap.CA{CA: c}, r} },
		PD:  func(o ci.PD, _ ci.PDType) ci.PD { return recPD{ciwrap.PD{PD: o}, r.create("PD")} },
		CQ:  func(o ci.CQ, _ ci.CQCreate) ci.CQ { return recCQ{ciwrap.CQ{CQ: o}, r.create("CQ")} },
		QP:  func(o ci.QP, _ ci.QPCreate) ci.QP { return recQP{ciwrap.QP{QP: o}, r.create("QP")} },
		MR:  func(o ci.MR, _ ciwrap.MROrigin) ci.MR { return recMR{ciwrap.MR{MR: o}, r.create("MR")} },
		AV:  func(o ci.AV, _ ci.AVAttr) ci.AV { return recAV{ciwrap.AV{AV: o}, r.create("AV")} },
		SRQ: func(o ci.SRQ, _ ci.SRQCreate) ci.SRQ { return recSRQ{ciwrap.SRQ{SRQ: o}, r.create("SRQ")} },
		MW:  func(o ci.MW, _ ci.MWCreate) ci.MW { return recMW{ciwrap.MW{MW: o}, r.create("MW")} },
	})
}

func (r *recorder) verb(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verbs = append(r.verbs, name)
	if r.closed && name != "HCA.OpenCA" {
		r.wrong = append(r.wrong, name+" after CA.Destroy")
	}
}

// recorded is a recorded object.
type recorded struct {
	r    *recorder
	kind string
}

func (r *recorder) create(kind string) recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[kind]++
	return recorded{r, kind}
}

// destroy records a destroy and calls the driver.
func (o recorded) destroy(f func() error) error {
	r, kind := o.r, o.kind
	r.verb(kind + ".Destroy")
	if onCallback() && kind != "AV" { // an AV may be destroyed in a callback (ci.AV)
		r.mu.Lock()
		r.wrong = append(r.wrong, kind+".Destroy in a callback")
		r.mu.Unlock()
	}
	if r.refuse != nil {
		if err := r.refuse(kind); err != nil {
			return err
		}
	}
	err := f()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("%s.Destroy, for which the driver returned %s", kind, kit.Describe(err)))
	} else {
		r.ended[kind]++
	}
	return err
}

// count returns the number of calls of a verb so far.
func (r *recorder) count(verb string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, v := range r.verbs {
		if v == verb {
			n++
		}
	}
	return n
}

// clean expects that the access layer has made no mistake so far.
func (r *recorder) clean(t *validate.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kit.True(t, len(r.wrong) == 0, "verbs that reached the driver",
		"each destroy once, children before parents, none in a callback, and no verb after CA.Destroy", "%s",
		strings.Join(r.wrong, "; "))
}

// empty expects that every created object has been destroyed.
func (r *recorder) empty(t *validate.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, n := range r.made {
		kit.Equal(t, kind+"s destroyed, of those created", r.ended[kind], n)
	}
}

// shut expects that CA.Destroy was the last verb and was successful.
func (r *recorder) shut(t *validate.T) {
	r.clean(t)
	r.empty(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := ""
	if len(r.verbs) > 0 {
		last = r.verbs[len(r.verbs)-1]
	}
	kit.Equal(t, "last verb that reached the driver", last, "CA.Destroy")
	kit.True(t, r.closed, "CA.Destroy", "success", "none")
}

// inCallback runs the callback of a client, so that onCallback can find it on the stack.
//
//go:noinline
func inCallback(f func()) { f() }

// onCallback reports whether inCallback is on the stack of the caller.
func onCallback() bool {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "alsuite.inCallback") {
			return true
		}
		if !more {
			return false
		}
	}
}

type (
	recHCA struct {
		ciwrap.HCA
		r *recorder
	}
	recCA struct {
		ciwrap.CA
		r *recorder
	}
	recPD struct {
		ciwrap.PD
		recorded
	}
	recCQ struct {
		ciwrap.CQ
		recorded
	}
	recQP struct {
		ciwrap.QP
		recorded
	}
	recMR struct {
		ciwrap.MR
		recorded
	}
	recAV struct {
		ciwrap.AV
		recorded
	}
	recSRQ struct {
		ciwrap.SRQ
		recorded
	}
	recMW struct {
		ciwrap.MW
		recorded
	}
)

func (h recHCA) OpenCA(guid ci.GUID, fn func(ci.Event), arg any) (ci.CA, error) {
	h.r.verb("HCA.OpenCA")
	ca, err := h.HCA.OpenCA(guid, fn, arg)
	if err == nil {
		h.r.mu.Lock()
		h.r.closed = false
		h.r.mu.Unlock()
	}
	return ca, err
}

func (c recCA) Query() (*ci.CAAttr, error) { c.r.verb("CA.Query"); return c.CA.Query() }

func (c recCA) Modify(port uint8, set ci.PortField, a ci.PortModify) error {
	c.r.verb("CA.Modify")
	return c.CA.Modify(port, set, a)
}

func (c recCA) AllocatePD(typ ci.PDType) (ci.PD, error) {
	c.r.verb("CA.AllocatePD")
	return c.CA.AllocatePD(typ)
}

func (c recCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	c.r.verb("CA.LocalMAD")
	return c.CA.LocalMAD(port, src, in, out)
}

func (c recCA) Destroy() error {
	c.r.verb("CA.Destroy")
	err := c.CA.Destroy()
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if err == nil {
		c.r.closed = true
	} else {
		c.r.wrong = append(c.r.wrong, "CA.Destroy, for which the driver returned "+kit.Describe(err))
	}
	return err
}

func (o recPD) Destroy() error  { return o.destroy(o.PD.Destroy) }
func (o recCQ) Destroy() error  { return o.destroy(o.CQ.Destroy) }
func (o recQP) Destroy() error  { return o.destroy(o.QP.Destroy) }
func (o recMR) Destroy() error  { return o.destroy(o.MR.Destroy) }
func (o recAV) Destroy() error  { return o.destroy(o.AV.Destroy) }
func (o recSRQ) Destroy() error { return o.destroy(o.SRQ.Destroy) }
func (o recMW) Destroy() error  { return o.destroy(o.MW.Destroy) }

// all returns the verbs recorded so far.
func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.verbs)
}
