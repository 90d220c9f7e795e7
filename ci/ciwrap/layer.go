package ciwrap

import "ciddk/ci"

// Layer says what to replace. The zero Layer replaces nothing. Its functions may be called concurrently; they run within the create
// verb, on the caller's goroutine, and must return an object that leads to inner by Unwrap (embed the types of this package).
// Attributes handed to them are those that went down to the driver, after the hooks: a hook can put something of its own into
// Context for the function to find, provided that it undoes that where the consumer would see it (callbacks, WC.Context).
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
	// OpenCA and OnEvent change the callback and context of HCA.OpenCA and CA.OnEvent. A nil callback goes down untouched, for the
	// driver to refuse.
	OpenCA  func(fn func(ci.Event), ctx any) (func(ci.Event), any)
	OnEvent func(fn func(ci.Event), ctx any) (func(ci.Event), any)

	// Event stands between the driver and every event callback of every object; it calls deliver none, once or several times. It runs
	// in the context of the callback, and after the hooks (nearer to the driver).
	Event func(e ci.Event, deliver func(ci.Event))
	// Completion does so for OnCompletion of every CQ.
	Completion func(ctx any, deliver func(ctx any))
}

// MROrigin is how a region came to be: the one of its parts that Kind names is meaningful.
type MROrigin struct {
	Kind     MRKind
	Virtual  ci.MRCreate  // MRVirtual
	Physical ci.PMRCreate // MRPhysical
	Source   ci.MR        // MRShared, with IOVA and Access
	IOVA     uint64
	Access   ci.Access
	MaxPages int // MRFastReg
}

// MRKind names the verb that made a region.
type MRKind uint8

const (
	MRVirtual  MRKind = iota // PD.RegisterMR
	MRPhysical               // PD.RegisterPMR
	MRShared                 // PD.RegisterSMR
	MRFastReg                // PD.AllocFastRegMR
)

// Wrap returns an HCA with l in front of hca.
func Wrap(hca ci.HCA, l Layer) ci.HCA { return l.Wrap(hca) }

// Wrap is Wrap(hca, l), as a function to be handed on.
func (l Layer) Wrap(hca ci.HCA) ci.HCA {
	if ci.IsNil(hca) { // whoever gets the result refuses it
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
	return l.UserCA != nil || l.PD != nil || l.DMA != nil || l.EventHandler != nil || l.OnEvent != nil || l.Event != nil || l.belowPD()
}

func (l *Layer) belowPD() bool {
	return l.AV != nil || l.CQ != nil || l.SRQ != nil || l.QP != nil || l.Mcast != nil || l.MR != nil || l.FMR != nil ||
		l.MW != nil || l.RDD != nil || l.CQCreate != nil || l.QPCreate != nil || l.SRQCreate != nil || l.MRCreate != nil ||
		l.Event != nil || l.Completion != nil || l.belowRDD()
}

func (l *Layer) belowRDD() bool { return l.EEC != nil || l.EECCreate != nil || l.Event != nil }

// filter puts Event in front of a callback.
func (l *Layer) filter(fn func(ci.Event)) func(ci.Event) {
	if l.Event == nil || fn == nil {
		return fn
	}
	return func(e ci.Event) { l.Event(e, fn) }
}

// made hands a new object to replace, and leaves failures and nil objects as they are.
func made[T comparable](in T, err error, replace func(T) T) (T, error) {
	var none T
	if err != nil || in == none || replace == nil {
		return in, err
	}
	return replace(in), nil
}

// with binds the second argument of a replacing function, and keeps nil nil.
func with[T, A any](f func(T, A) T, a A) func(T) T {
	if f == nil {
		return nil
	}
	return func(in T) T { return f(in, a) }
}
