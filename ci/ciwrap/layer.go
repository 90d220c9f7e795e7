package ciwrap

import "ciddk/ci"

// Layer describes the objects to replace. The zero Layer replaces nothing. Its functions may be called concurrently.
// They run within the create verb, on the caller's goroutine, and must return an object whose Unwrap leads to inner
// (embed the types of this package). Their arguments are the attributes that the driver received, after the hooks. A
// hook can put a value of its own into Context for the function to find, if it restores the consumer's value wherever
// the consumer would see it (callbacks, WC.Context).
type Layer struct {
	HCA    func(inner ci.HCA) ci.HCA
	CA     func(inner ci.CA) ci.CA
	UserCA func(inner ci.UserCA, p ci.Process) ci.UserCA
	PD     func(inner ci.PD, typ ci.PDType) ci.PD
	AV     func(inner ci.AV, attr ci.AVAttr) ci.AV
	CQ     func(inner ci.CQ, c ci.CQCreate) ci.CQ
	SRQ    func(inner ci.SRQ, c ci.SRQCreate) ci.SRQ
	QP     func(inner ci.QP, c ci.QPCreate) ci.QP // special QPs too: see c.Type
	Mcast  func(inner ci.Mcast, c ci.McastAttach) ci.Mcast
	MR     func(inner ci.MR, o MROrigin) ci.MR
	FMR    func(inner ci.FMR, c ci.FMRCreate) ci.FMR
	MW     func(inner ci.MW, c ci.MWCreate) ci.MW
	RDD    func(inner ci.RDD) ci.RDD
	EEC    func(inner ci.EEC, c ci.EECCreate) ci.EEC
	DMA    func(inner ci.DMA, mem ci.Memory) ci.DMA
	// EventHandler replaces the result of CA.OnEvent.
	EventHandler func(inner ci.Object) ci.Object

	// Hooks change attributes on their way down to the driver.
	CQCreate  func(ci.CQCreate) ci.CQCreate
	QPCreate  func(ci.QPCreate) ci.QPCreate
	SRQCreate func(ci.SRQCreate) ci.SRQCreate
	EECCreate func(ci.EECCreate) ci.EECCreate
	MRCreate  func(ci.MRCreate) ci.MRCreate
	// OpenCA and OnEvent change the callback and context of HCA.OpenCA and CA.OnEvent. A nil callback is passed down
	// unchanged, and the driver rejects it.
	OpenCA  func(fn func(ci.Event), arg any) (func(ci.Event), any)
	OnEvent func(fn func(ci.Event), arg any) (func(ci.Event), any)

	// Event is called in place of every event callback of every object. It calls deliver not at all, once or several
	// times. It runs in the context of the callback, and nearer to the driver than the hooks.
	Event func(e ci.Event, deliver func(ci.Event))
	// Completion is the same for OnCompletion of every CQ.
	Completion func(arg any, deliver func(arg any))
}

// MROrigin describes how a region was created. Only the part that Kind names is meaningful.
type MROrigin struct {
	Kind     MRKind
	Virtual  ci.MRCreate  // MRVirtual
	Physical ci.PMRCreate // MRPhysical
	Source   ci.MR        // MRShared, with IOVA and Access
	IOVA     uint64
	Access   ci.Access
	MaxPages int // MRFastReg
}

// MRKind is the verb that created a region.
type MRKind uint8

const (
	MRVirtual  MRKind = iota // PD.RegisterMR
	MRPhysical               // PD.RegisterPMR
	MRShared                 // PD.RegisterSMR
	MRFastReg                // PD.AllocFastRegMR
)

// Wrap returns an HCA with l in front of hca.
func Wrap(hca ci.HCA, l Layer) ci.HCA { return l.Wrap(hca) }

// Wrap returns an HCA with l in front of hca, as the function Wrap does.
func (l Layer) Wrap(hca ci.HCA) ci.HCA {
	if ci.IsNil(hca) { // the caller of the next layer rejects it
		return nil
	}
	var w ci.HCA = hca
	if l.CA != nil || l.OpenCA != nil || l.Event != nil || l.belowCA() {
		w = &hcaWrap{HCA{hca}, &l}
	}
	if l.HCA != nil {
		w = l.HCA(w)
	}
	return w
}

func (l *Layer) belowCA() bool {
	return l.UserCA != nil || l.PD != nil || l.DMA != nil || l.EventHandler != nil || l.OnEvent != nil ||
		l.Event != nil || l.belowPD()
}

func (l *Layer) belowPD() bool {
	return l.AV != nil || l.CQ != nil || l.SRQ != nil || l.QP != nil || l.Mcast != nil || l.MR != nil || l.FMR != nil ||
		l.MW != nil || l.RDD != nil || l.CQCreate != nil || l.QPCreate != nil || l.SRQCreate != nil ||
		l.MRCreate != nil ||
		l.Event != nil || l.Completion != nil || l.belowRDD()
}

func (l *Layer) belowRDD() bool { return l.EEC != nil || l.EECCreate != nil || l.Event != nil }

// filter returns a callback that calls Event in front of fn.
func (l *Layer) filter(fn func(ci.Event)) func(ci.Event) {
	if l.Event == nil || fn == nil {
		return fn
	}
	return func(e ci.Event) { l.Event(e, fn) }
}

// made returns the replacement of a new object. Failures and nil objects are returned unchanged.
func made[T comparable](in T, err error, replace func(T) T) (T, error) {
	var none T
	if err != nil || in == none || replace == nil {
		return in, err
	}
	return replace(in), nil
}

// with returns f with its second argument bound, or nil if f is nil.
func with[T, A any](f func(T, A) T, a A) func(T) T {
	if f == nil {
		return nil
	}
	return func(in T) T { return f(in, a) }
}
