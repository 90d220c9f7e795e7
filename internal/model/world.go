package model

import (
	"fmt"
	"slices"
	"time"

	"ciddk/ci"
)

// A Rule is the id of a requirement.
type Rule string

// A Violation is a result of a driver that the model does not permit.
type Violation struct {
	Rule          Rule
	Where         string // the verb or queue
	Expected, Got string
	// Doubt is true if a loss on the link or a busy machine may be the cause.
	Doubt bool
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %s: expected %s, got %s", v.Rule, v.Where, v.Expected, v.Got)
}

// violation returns a Violation with formatted texts.
func violation(rule Rule, where, expected, got string, args ...any) *Violation {
	return &Violation{Rule: rule, Where: where, Expected: expected, Got: fmt.Sprintf(got, args...)}
}

// World is the state of all adapters that the model knows. They reach each other, and each reaches itself.
type World struct {
	CAs []*CA
	// Cut is true while the link passes nothing.
	Cut bool
	// Lossy is true while the link loses, duplicates or reorders packets. A reliable connection with retries left is
	// not affected.
	Lossy bool
	// Lost is true when the sources do not determine what comes next. The trace ends there.
	Lost bool
	// Dropped is true if a message was dropped since the last rest, or may be on its way, which nothing shows.
	Dropped bool
	// AtLeast is how long a failure takes that was predicted since the last rest: its retries are that far apart.
	AtLeast     time.Duration
	AtLeastRule Rule

	qps []*QP // of all adapters, in the order of their creation
}

// CA is an adapter that is open.
type CA struct {
	Attr *ci.CAAttr
	Port *ci.PortAttr // the port in use

	w     *World
	lkeys map[ci.Key]*Region
	rkeys map[ci.Key]*Region
	qps   map[ci.QPN]*QP
	// quarantine has the numbers of destroyed QPs that must not be assigned again (QP.TimeWait).
	quarantine map[ci.QPN]bool
	live       map[Kind]int
	members    []*Attachment
	// violations are what the counters of dropped packets must show: P_Keys and Q_Keys.
	violations [2]counter
}

// NewWorld returns a World without adapters.
func NewWorld() *World { return &World{} }

// AddCA adds an adapter that has just been opened. port is the port that its QPs use.
func (w *World) AddCA(attr *ci.CAAttr, port *ci.PortAttr) *CA {
	c := &CA{Attr: attr, Port: port, w: w, lkeys: map[ci.Key]*Region{}, rkeys: map[ci.Key]*Region{},
		qps: map[ci.QPN]*QP{}, quarantine: map[ci.QPN]bool{}, live: map[Kind]int{}}
	w.CAs = append(w.CAs, c)
	c.count(*port)
	return c
}

// reach returns the adapter to which an address leads from c, or nil.
func (c *CA) reach(av ci.AVAttr) *CA {
	if av.Port != c.Port.Num {
		return nil
	}
	for _, d := range c.w.CAs {
		if d.hasAddress(av) {
			return d
		}
	}
	return nil
}

// hasAddress reports whether an address is one of the port's (IBTA 4.1).
func (c *CA) hasAddress(av ci.AVAttr) bool {
	if c.Port.Link != ci.LinkEthernet {
		return av.DLID>>c.Port.LMC == c.Port.LID>>c.Port.LMC
	}
	return av.Global && slices.ContainsFunc(c.Port.GIDs, func(g ci.GIDEntry) bool {
		return g.GID != ci.GID{} && g.GID == av.GRH.DGID
	})
}

// pkey returns an entry of the P_Key table.
func (c *CA) pkey(index uint16) ci.PKey {
	if int(index) >= len(c.Port.PKeys) {
		return 0
	}
	return c.Port.PKeys[index]
}

// matchPKey reports whether two P_Keys are of one partition and not both limited (IBTA 10.9.1.1, 10.9.3).
func matchPKey(a, b ci.PKey) bool { return a&0x7fff == b&0x7fff && a&0x7fff != 0 && (a|b)&0x8000 != 0 }

// Kind is a kind of object.
type Kind uint8

// The kinds.
const (
	KindPD Kind = iota
	KindAV
	KindCQ
	KindSRQ
	KindQP
	KindMR
	KindMW
	KindFMR
	KindDMA
	KindMcast
	numKinds
)

// kinds has for each kind its name, the status of a verb on a destroyed object with its rule, and the rules of the
// order of destruction.
var kinds = [numKinds]struct {
	name       string
	gone       ci.Status
	stale      Rule
	busy       Rule
	limit      func(*ci.CAAttr) int
	exhaustion Rule
}{
	KindPD: {"PD", ci.InvalidPDHandle, "CI-DeallocatePD-02", "CI-DeallocatePD-01",
		func(a *ci.CAAttr) int { return a.MaxPDs }, "SAS-0-05"},
	KindAV: {"AV", ci.InvalidAVHandle, "CI-DestroyAV-01", "SAS-2.3-26",
		func(a *ci.CAAttr) int { return a.MaxAVs }, "SAS-0-05"},
	KindCQ: {"CQ", ci.InvalidCQHandle, "CI-DestroyCQ-02", "CI-DestroyCQ-01",
		func(a *ci.CAAttr) int { return a.MaxCQs }, "SAS-0-05"},
	KindSRQ: {"SRQ", ci.InvalidSRQHandle, "CI-DestroySRQ-02", "CI-DestroySRQ-01",
		func(a *ci.CAAttr) int { return a.MaxSRQs }, "SAS-0-05"},
	KindQP: {"QP", ci.InvalidQPHandle, "CI-DestroyQP-01", "CI-Mcast-06",
		func(a *ci.CAAttr) int { return a.MaxQPs }, "SAS-0-05"},
	KindMR: {"MR", ci.InvalidMRHandle, "CI-DeregisterMR-04", "CI-DestroyMW-02",
		func(a *ci.CAAttr) int { return a.MaxMRs }, "SAS-0-05"},
	KindMW: {"MW", ci.InvalidMWHandle, "CI-DestroyMW-01", "SAS-2.3-26",
		func(a *ci.CAAttr) int { return a.MaxMWs }, "SAS-0-05"},
	KindFMR: {"FMR", ci.InvalidFMRHandle, "CI-DeallocFMR-01", "CI-DeallocFMR-01",
		func(a *ci.CAAttr) int { return a.MaxFMRs }, "SAS-0-05"},
	KindDMA: {"DMA mapping", ci.InvalidHandle, "CI-Teardown-06", "CI-MapDMA-01",
		func(*ci.CAAttr) int { return 1 << 30 }, "SAS-0-05"},
	KindMcast: {"attachment", ci.InvalidMcastHandle, "CI-Mcast-10", "SAS-2.3-26",
		func(a *ci.CAAttr) int { return a.MaxMcastQPs }, "SAS-0-05"},
}

// String returns the name of the kind.
func (k Kind) String() string { return kinds[k].name }

// Object is what all objects have in common.
type Object struct {
	Kind Kind
	CA   *CA
	PD   *PD  // the parent; nil for a PD
	Dead bool // destroyed

	users int // children, and objects that use it: while there are any, Destroy fails
}

// init makes o a live object. uses are its parent and the objects that it uses.
func (o *Object) init(k Kind, ca *CA, pd *PD, uses ...*Object) {
	o.Kind, o.CA, o.PD = k, ca, pd
	ca.live[k]++
	if pd != nil {
		pd.users++
	}
	for _, u := range uses {
		u.users++
	}
}

// destroy observes a Destroy. uses are the objects that o releases.
func (o *Object) destroy(err error, uses ...*Object) (ended bool, v *Violation) {
	k := &kinds[o.Kind]
	verb := k.name + ".Destroy"
	switch {
	case o.Dead:
		return false, wantStatus(verb, err, k.stale, k.gone)
	case o.users > 0:
		return false, wantStatus(verb, err, k.busy, ci.ResourceBusy)
	}
	if v := wantStatus(verb, err, "SAS-2.3-26", ci.Success); v != nil {
		return false, v
	}
	o.Dead = true
	o.CA.live[o.Kind]--
	if o.PD != nil {
		o.PD.users--
	}
	for _, u := range uses {
		u.users--
	}
	return true, nil
}

// stale observes a verb on a destroyed object. ok is false if the object is not destroyed.
func (o *Object) stale(verb string, err error) (v *Violation, ok bool) {
	if !o.Dead {
		return nil, false
	}
	return wantStatus(verb, err, kinds[o.Kind].stale, kinds[o.Kind].gone), true
}

// created observes whether a create succeeded. A create without an error in its arguments succeeds below the limit of
// its kind (SAS-0-05).
func (pd *PD) created(k Kind, verb string, err error) *Violation {
	if pd.Dead {
		return wantStatus(verb, err, "CI-DeallocatePD-02", ci.InvalidPDHandle)
	}
	return pd.CA.created(k, verb, err)
}

func (c *CA) created(k Kind, verb string, err error) *Violation {
	used := c.live[k]
	if k == KindQP { // a number in quarantine may take the place of a QP
		used += len(c.quarantine)
	}
	if used >= kinds[k].limit(c.Attr) {
		return wantStatus(verb, err, kinds[k].exhaustion, ci.InsufficientResources, ci.Success)
	}
	return wantStatus(verb, err, kinds[k].exhaustion, ci.Success)
}

// wantStatus returns a Violation unless err has one of the statuses. ci.Success stands for nil.
func wantStatus(where string, err error, rule Rule, want ...ci.Status) *Violation {
	got := ci.StatusOf(err)
	if slices.Contains(want, got) {
		return nil
	}
	s := ""
	for i, w := range want {
		if i > 0 {
			s += " or "
		}
		s += statusName(w)
	}
	detail := ""
	if err != nil {
		detail = ": " + err.Error()
	}
	return violation(rule, where, s, "%s%s", statusName(got), detail)
}

func statusName(s ci.Status) string {
	if s == ci.Success {
		return "success"
	}
	return s.String()
}

// PD is a protection domain.
type PD struct{ Object }

// AllocatePD observes CA.AllocatePD.
func (c *CA) AllocatePD(err error) (*PD, *Violation) {
	if v := c.created(KindPD, "CA.AllocatePD", err); v != nil || err != nil {
		return nil, v
	}
	pd := &PD{}
	pd.init(KindPD, c, nil)
	return pd, nil
}

// Destroy observes PD.Destroy.
func (pd *PD) Destroy(err error) *Violation { _, v := pd.destroy(err); return v }

// AV is an address vector.
type AV struct {
	Object
	Attr ci.AVAttr
}

// CreateAV observes PD.CreateAV.
func (pd *PD) CreateAV(a ci.AVAttr, err error) (*AV, *Violation) {
	const verb = "PD.CreateAV"
	if v, bad := pd.CA.badPort(verb, a, err); bad && !pd.Dead {
		return nil, v
	}
	if v := pd.created(KindAV, verb, err); v != nil || err != nil {
		return nil, v
	}
	av := &AV{Attr: a}
	av.init(KindAV, pd.CA, pd)
	return av, nil
}

// badPort observes a verb that sets an address vector. bad is true if the port does not exist and drivers with
// CapAVPortCheck reject it.
func (c *CA) badPort(verb string, a ci.AVAttr, err error) (v *Violation, bad bool) {
	if c.Attr.Caps.Has(ci.CapAVPortCheck) && (a.Port == 0 || int(a.Port) > len(c.Attr.Ports)) {
		return wantStatus(verb, err, "CI-CreateAV-02", ci.InvalidPort), true
	}
	return nil, false
}

// Modify observes AV.Modify.
func (a *AV) Modify(to ci.AVAttr, err error) *Violation {
	const verb = "AV.Modify"
	if v, ok := a.stale(verb, err); ok {
		return v
	}
	if v, bad := a.CA.badPort(verb, to, err); bad {
		return v
	}
	if v := wantStatus(verb, err, "CI-ModifyAV-01", ci.Success); v != nil {
		return v
	}
	a.Attr = to
	return nil
}

// Query observes AV.Query.
func (a *AV) Query(got ci.AVAttr, err error) *Violation {
	const verb = "AV.Query"
	if v, ok := a.stale(verb, err); ok {
		return v
	}
	if v := wantStatus(verb, err, "CI-QueryAV-01", ci.Success); v != nil {
		return v
	}
	if got.User = nil; got != a.Attr {
		return violation("CI-QueryAV-01", verb, fmt.Sprintf("%+v", a.Attr), "%+v", got)
	}
	return nil
}

// Destroy observes AV.Destroy.
func (a *AV) Destroy(err error) *Violation { _, v := a.destroy(err); return v }
