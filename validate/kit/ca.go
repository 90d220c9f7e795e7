package kit

import (
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/validate"
)

// CA is an open adapter. It is closed when the case is over.
type CA struct {
	ci.CA
	T      *validate.T
	HCA    ci.HCA
	Attr   *ci.CAAttr   // result of a query while a port was active
	Port   *ci.PortAttr // the first active port of Attr
	Events *Events      // of the CA and its ports; each carries Events as Context
	pd     ci.PD        // of the ends that share one
}

// Open opens the HCA under test and waits until a port is active.
func Open(t *validate.T) *CA { return OpenHCA(t, t.HCA()) }

// OpenPair opens two adapters that reach each other. If the target has only one, it is opened once, and a and b are the
// same.
func OpenPair(t *validate.T) (a, b *CA) {
	ha, hb := t.Pair()
	a = OpenHCA(t, ha)
	if ci.Same(ha, hb) {
		return a, a
	}
	return a, OpenHCA(t, hb)
}

// OpenHCA opens one of T's HCAs.
func OpenHCA(t *validate.T, h ci.HCA) *CA {
	end := t.Setup()
	defer end()
	ev := NewEvents(t)
	in, err := h.OpenCA(h.Info().GUID, ev.Add, ev)
	OK(t, err, "HCA.OpenCA")
	ca := &CA{CA: in, T: t, HCA: h, Events: ev}
	t.Cleanup(func() {
		if err := in.Destroy(); err != nil && ci.StatusOf(err) != ci.InvalidCAHandle {
			t.Report(
				validate.Failure{Where: "CA.Destroy at the end of the case", Expected: "success", Got: Describe(err)},
			)
		}
	})
	ca.waitActive()
	return ca
}

// waitActive queries the CA until a port is active. Port events are optional (CapPortActiveEvent), so it does not wait
// for one.
func (ca *CA) waitActive() {
	deadline := time.NewTimer(ca.T.Remaining())
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		attr, err := ca.Query()
		OK(ca.T, err, "CA.Query")
		for i := range attr.Ports {
			if attr.Ports[i].State == ci.PortActive {
				ca.Attr, ca.Port = attr, &attr.Ports[i]
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			ca.T.Fail(validate.Failure{
				Where: "CA.Query", Expected: "a port that becomes active", Doubt: validate.DoubtTime,
				Got: fmt.Sprintf("%d ports, none active", len(attr.Ports)),
			})
		}
	}
}

// PD allocates a protection domain. It is released when the case is over, like all objects that the methods below
// create.
func (ca *CA) PD() ci.PD {
	pd, err := ca.AllocatePD(ci.PDNormal)
	return created(ca.T, pd, err, "CA.AllocatePD", "PD")
}

// MTU returns the MTU of service level 0, which QPs of cases use unless they are about service levels.
func (ca *CA) MTU() ci.MTU { return ca.Port.MTUOf(0) }

// AllAccess has all rights of a region except remote atomics.
const AllAccess = ci.LocalWrite | ci.RemoteRead | ci.RemoteWrite

// Buf is a registered buffer.
type Buf struct {
	ci.MR
	Bytes []byte
	ci.Region
}

// Buf registers a new buffer of n zero bytes.
func (ca *CA) Buf(pd ci.PD, n int, access ci.Access) *Buf {
	return ca.BufOf(pd, make([]byte, n), access)
}

// BufOf registers b.
func (ca *CA) BufOf(pd ci.PD, b []byte, access ci.Access) *Buf {
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(b), Access: access})
	mr = created(ca.T, mr, err, fmt.Sprintf("PD.RegisterMR of %d bytes", len(b)), "MR")
	return &Buf{MR: mr, Bytes: b, Region: mr.Region()}
}

// Fill fills n bytes from off with random bytes that follow from the case's seed, and returns them.
func (b *Buf) Fill(t *validate.T, off, n int) []byte {
	r := t.Rand()
	p := b.Bytes[off : off+n]
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// SGL returns a list with one entry.
func (b *Buf) SGL(off, n int) []ci.SGE { return []ci.SGE{b.SGE(uint64(off), uint32(n))} }
